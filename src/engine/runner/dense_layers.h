#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/host/thread_pool.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

// The dense layers that what is pooled of a text's states goes through before its length becomes 1,
// B (A x): without biases, so that a sum of states serves as well as their mean. In this machine's
// memory and in double precision, each output added up in the order of its inputs, so that an
// embedding has the same bits whatever device and threads made it.
class DenseLayers {
  public:
    // The model must have some. Errors name the tensor.
    static base::Result<DenseLayers> load(model::WeightSource& source,
                                          const model::ModelConfig& config);
    // Bytes that they take.
    static std::int64_t bytes(const model::ModelConfig& config);

    // pooled: [hidden]. Returns as many.
    std::vector<double> apply(ThreadPool& threads, std::span<const double> pooled) const;

  private:
    std::vector<float> first_;   // A: [dense_inner, hidden]
    std::vector<float> second_;  // B: [hidden, dense_inner]
};

}  // namespace helix::engine

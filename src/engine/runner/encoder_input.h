#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/kernels/kernels.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

// What makes embeddings of tokens the rows that enter an encoder's first layer: to each are added
// the first token type's row and its position's, and the sum is normed. In this machine's memory,
// with the same bits whatever the device.
class EncoderInput {
  public:
    // Of the model's tables; errors name the tensor.
    static base::Result<EncoderInput> load(model::WeightSource& source,
                                           const model::ModelConfig& config);
    // Bytes that it holds.
    static std::int64_t bytes(const model::ModelConfig& config);

    // row: [hidden], a token's embedding at a position that the model has. Any thread.
    void finish(std::int32_t position, std::span<float> row) const;

  private:
    const ops::Kernels* kernels_ = nullptr;
    float epsilon_ = 0;
    std::vector<float> token_type_;   // [hidden] or empty
    std::vector<float> positions_;    // [positions, hidden] or empty
    std::vector<float> norm_, bias_;  // [hidden]
};

}  // namespace helix::engine

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/ops/kv_layout.h"
#include "engine/proof/operator_values.h"
#include "model/model_config.h"
#include "model/tensor_type.h"

namespace helix::engine::proof {

using OpenDevice =
    std::function<base::Result<std::unique_ptr<Device>>(const model::ModelConfig& config)>;

// A synthetic model of a shape that synth_shapes() or synth_likes() has.
struct ModelCase {
    const char* shape;
    model::TensorType weights;
    ops::KvType kv_type;
};

// The tokens that a model of random weights says greedily after a random prompt, whose rows come in
// pieces, and the log-probabilities of the best of each; or the embeddings that an encoder makes.
// The model is written to the temporary folder and removed.
Values model_values(const OpenDevice& open, const ModelCase& c, std::uint64_t seed);

}  // namespace helix::engine::proof

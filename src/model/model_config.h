#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "spec/model_spec.h"

namespace helix::model {

// Hyperparameters of a decoder, as the engine needs them. Architecture "llama": 1, 2, 3, 3.1.
struct ModelConfig {
    std::string architecture;
    std::string name;
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t rope_dim = 0;  // dimensions of a head that are rotated
    std::int32_t ffn = 0;
    std::int32_t vocab = 0;
    std::int32_t context_length = 0;
    float norm_epsilon = 1e-5F;
    float rope_base = 10000.0F;
    // Multiplies the position: 1 / scaling factor for linear scaling, else 1. LLaMA 3.1 scaling
    // comes as the tensor rope_freqs.weight (a divisor per frequency), kept in rope_factors.
    float rope_scale = 1.0F;
    std::vector<float> rope_factors;  // [rope_dim / 2] or empty
    bool tied_embeddings = false;     // no output.weight: the head is token_embd.weight
};

// Checks that the file holds every tensor of the model in the right shape, and none besides. A file
// made from a header alone is an error when the model needs the data of rope_freqs.weight; use its
// WeightSource.
base::Result<ModelConfig> read_model_config(const GgufFile& file);
class WeightSource;
base::Result<ModelConfig> read_model_config(WeightSource& source);
// The planner's view, also from a header alone. layer_bytes is the largest layer's; K and V are
// binary16.
base::Result<spec::ModelSpec> read_model_spec(const GgufFile& file);
// general.name, else the file's name without its ending.
std::string model_name(const GgufFile& file);
// 7 for "blk.7.ffn_up.weight", -1 for a tensor outside the layers.
std::int32_t layer_of_tensor(std::string_view name);

}  // namespace helix::model

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "spec/json_place.h"

namespace helix::model {

// What a Hugging Face config.json says, in the terms of our architectures.
struct HfConfig {
    std::string architecture;  // "llama", "qwen2", "qwen3", "qwen3moe"
    bool mixtral = false;      // names its experts' tensors in its own way
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t ffn = 0;  // of an expert where there are experts
    std::int32_t vocab = 0;
    std::int32_t n_experts = 0;
    bool qkv_bias = false;
    bool qk_norm = false;
    bool tied_embeddings = false;
    std::vector<float> rope_factors;       // LLaMA 3.1's, as rope_freqs.weight; else empty
    std::vector<std::int64_t> end_tokens;  // eos_token_id, one or several
    std::int64_t bos_token = -1;           // bos_token_id, -1 without one
};

// text is the file's content, file its name for messages. Writes the keys of the model's
// hyperparameters into metadata. Errors name the key and what was expected. What would change the
// result and is not supported is refused.
base::Result<HfConfig> read_hf_config(const std::string& text, const std::string& file,
                                      GgufBuilder& metadata);

// Reads eos_token_id of a config.json or generation_config.json: one id, several, or none.
base::Result<std::vector<std::int64_t>> read_eos_ids(const spec::JsonPlace& root);

}  // namespace helix::model

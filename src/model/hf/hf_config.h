#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf_writer.h"
#include "model/hf/hf_quantisation.h"
#include "spec/json_place.h"

namespace helix::model {

struct DecoderTraits;

// What a family calls the norms of a layer: of what attention and feed-forward read, and of what
// they add.
struct HfNormNames {
    const char* attention = "input_layernorm";
    const char* attention_output = "post_attention_layernorm";
    const char* feed_forward = "post_attention_layernorm";
    const char* feed_forward_output = "post_feedforward_layernorm";
};

// How a family names the tensors of experts, and whether it stacks them.
enum class HfExperts {
    usual,    // mlp.experts.7.gate_proj
    mixtral,  // block_sparse_moe.experts.7.w1
    granite,  // block_sparse_moe.input_linear: of all experts, the rows of gate and then of up
    // mlp.experts.gate_up_proj_blocks and _scales: MXFP4, the rows of gate and up in turns
    gpt_oss,
    gemma4,  // experts.gate_up_proj: of all experts, the rows of gate and then of up
    llama4,  // feed_forward.experts.gate_up_proj: the same, with rows and columns exchanged
};

// A dense layer behind the pooling, in a folder of its own.
struct HfDense {
    std::string folder;  // within the model's
    std::int32_t inputs = 0;
    std::int32_t outputs = 0;
};

// What a Hugging Face config.json says, in the terms of our architectures.
struct HfConfig {
    std::string architecture;               // "llama", "qwen2", "qwen3", "qwen3moe", ...
    const DecoderTraits* traits = nullptr;  // its
    HfNormNames norms = {};
    HfExperts experts = HfExperts::usual;
    bool interleaves = false;  // our rope turns adjacent elements, theirs halves of a head
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t ffn = 0;  // of an expert where there are experts
    std::int32_t vocab = 0;
    std::int32_t n_experts = 0;
    std::int32_t n_dense_layers = 0;  // the first ones of a model with experts
    std::int32_t dense_ffn = 0;      // the width of their feed-forward, and of those beside experts
    std::int32_t shared_ffn = 0;     // of the expert that every row visits; 0: there is none
    std::int32_t expert_period = 1;  // see ModelConfig
    bool selection_bias = false;     // e_score_correction_bias
    std::int32_t n_skipped_layers = 0;  // behind the last, which predict more tokens at once
    // Where layers with the window have heads of their own: these, and which layers they are; then
    // n_kv_heads and head_dim are the others'.
    std::int32_t windowed_kv_heads = 0;
    std::int32_t windowed_head_dim = 0;
    std::vector<bool> windowed;    // [n_layers]
    bool keys_are_values = false;  // of layers without the window
    // See ModelConfig: what layers have of each token, how many share keys and values, and the
    // width of the feed-forwards of these; 0: that of the others.
    std::int32_t layer_input = 0;
    std::int32_t n_shared_kv_layers = 0;
    std::int32_t shared_kv_ffn = 0;
    // Before "layers.7." and such in the names of tensors.
    std::string prefix = "model.";
    std::string feed_forward = "mlp.";  // after "layers.7."
    std::string head = "lm_head.weight";
    bool qk_norm = false;
    bool qkv_bias = false;
    bool tied_embeddings = false;
    HfQuantisation quantisation = {};
    // Of the frequencies, as the tensors that GGUF files have of them, by name.
    std::map<std::string, std::vector<float>, std::less<>> rope_factors;
    std::vector<std::int64_t> end_tokens;  // eos_token_id, one or several
    std::int64_t bos_token = -1;           // bos_token_id, -1 without one
    // Of an encoder: rows of its tables of positions, whose first ones no text has, and of token
    // types; 0: there is no such table.
    std::int32_t n_positions = 0;
    std::int32_t first_position = 0;
    std::int32_t n_token_types = 0;
    bool ranks_pairs = false;           // a cross-encoder, with its head
    bool gated = true;                  // of jina-bert-v2: its feed-forward is not BERT's
    bool has_adapters = false;          // matrices lie beside those of adapters (jina-bert-v3)
    std::vector<HfDense> dense_layers;  // of embeddings: two, or none

    bool shares_kv(std::int32_t layer) const { return layer >= n_layers - n_shared_kv_layers; }
    // Of the feed-forward of a layer without experts, or beside them.
    std::int32_t dense_width(std::int32_t layer) const {
        if (shares_kv(layer) && shared_kv_ffn > 0) return shared_kv_ffn;
        return n_experts > 0 ? dense_ffn : ffn;
    }
};

// text is the file's content, file its name for messages. Writes the keys of the model's
// hyperparameters into metadata. Errors name the key and what was expected. What would change the
// result and is not supported is refused.
base::Result<HfConfig> read_hf_config(const std::string& text, const std::string& file,
                                      GgufBuilder& metadata);

// Reads eos_token_id of a config.json or generation_config.json: one id, several, or none.
base::Result<std::vector<std::int64_t>> read_eos_ids(const spec::JsonPlace& root);

}  // namespace helix::model

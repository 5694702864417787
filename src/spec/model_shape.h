#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/kv_type.h"
#include "spec/model_spec.h"

// The sizes of a model from its hyperparameters, by name, or from the config.json that models are
// published with. (model::read_model_spec measures the tensors of a GGUF file instead, and shares
// the formulas below.)

namespace helix::spec {

// A decoder of the LLaMA family: attention with q, k, v and o, a gated feed-forward of three
// matrices or experts of that kind, and norms.
struct ModelShape {
    std::string name;
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t ffn = 0;
    std::int32_t vocab = 0;
    std::int32_t context_length = 0;
    bool tied_embeddings = false;  // the head is the embedding
    bool qkv_bias = false;
    bool qk_norm = false;
    // Mixture of experts: n_experts feed-forwards of width ffn, of which a token uses
    // n_experts_used. 0: a dense model with one feed-forward.
    std::int32_t n_experts = 0;
    std::int32_t n_experts_used = 0;
    std::int32_t layer_norms = 2;  // of the hidden size
    bool whole_qk_norm = false;    // q and k are normed as a whole, or each head by itself
    // The first layers have a feed-forward of width dense_ffn in the place of experts.
    std::int32_t n_dense_layers = 0;
    std::int32_t dense_ffn = 0;
    std::int32_t shared_ffn = 0;  // width of an expert that every token uses; 0: there is none
    bool expert_bias = false;     // a number for each expert
    // gpt-oss: biases of the output, the router and the experts, and a sink of each head.
    bool biases_and_sinks = false;
    bool shared_gate = false;  // of that expert: a vector
    // Above 0: so many layers attend to all positions and have such heads; n_kv_heads and head_dim
    // are those of the layers with a window.
    std::int32_t n_full_layers = 0;
    std::int32_t full_kv_heads = 0;
    std::int32_t full_head_dim = 0;
    bool keys_are_values = false;       // of these layers: they have no matrix of values
    bool dense_beside_experts = false;  // each layer has a feed-forward of width dense_ffn, too
    bool without_gate = false;          // feed-forwards of two matrices
    bool norm_bias = false;             // which layer_norms count, too
    // Of the other layers only those have experts whose number, from 1, is a multiple of this.
    std::int32_t expert_period = 1;
    AttentionWindow window = {};
    // Above 0: every layer reads so many numbers of each token, from tables that everybody holds.
    std::int32_t layer_input = 0;
    // The last so many layers have no keys and values of their own, and attend to those of the last
    // layer with the same kind of window that has; their feed-forwards have width shared_kv_ffn, 0:
    // that of the others.
    std::int32_t n_shared_kv_layers = 0;
    std::int32_t shared_kv_ffn = 0;

    bool operator==(const ModelShape&) const = default;
};

// How weights are stored. The quantised formats keep norms in 32 bits; q4_0 and q4_k keep the head
// in six-bit blocks (q6_k), as llama.cpp writes them.
enum class WeightFormat { f32, f16, q8_0, q4_0, q4_k };
const char* to_string(WeightFormat format);
base::Result<WeightFormat> parse_weight_format(std::string_view name);  // "bf16" is f16

// Of a layer with experts where only some are without.
std::int64_t layer_matrix_elements(const ModelShape& shape);         // as stored
std::int64_t active_layer_matrix_elements(const ModelShape& shape);  // that one token uses
std::int64_t parameter_count(const ModelShape& shape);
std::int64_t active_parameter_count(const ModelShape& shape);
// Layers with experts and without differ in size, and so do those of a model with inputs of layers
// or shared keys and values; in others whose heads differ all layers count as the largest.
ModelSpec model_spec(const ModelShape& shape, WeightFormat format, KvType kv = KvType::f16);

// What our engines hold and send: K and V of this type, activations in 32 bits.
std::int64_t kv_bytes_per_token_layer(std::int32_t n_kv_heads, std::int32_t head_dim,
                                      KvType type = KvType::f16);
std::int64_t activation_bytes_per_token(std::int32_t hidden);

std::span<const ModelShape> known_models();
// Finds a shape by a name like "llama2-70b". Upper and lower case, '-', '_', '.' and an owner
// before '/' do not matter, nor "-hf", "-instruct", "-chat" and the like behind. Error: an unknown
// name, with all known ones.
base::Result<ModelShape> find_model_shape(std::string_view name);
base::Result<ModelSpec> find_model(std::string_view name, WeightFormat format);

// Reads a Hugging Face config.json of a model_type that we serve (llama, qwen3, olmo2, ...). file
// is for messages, and gives the name when the text has none.
base::Result<ModelShape> parse_model_config(std::string_view text, const std::string& file);
base::Result<ModelShape> read_model_config_file(const std::string& path);

}  // namespace helix::spec

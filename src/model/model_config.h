#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "spec/model_spec.h"
#include "spec/pooling.h"

namespace helix::model {

// The tensor of LLaMA 3.1's divisors, one per frequency of the rotary embedding, and those of
// longrope: for contexts up to the trained one, and for longer ones.
inline constexpr char kRopeFactors[] = "rope_freqs.weight";
inline constexpr char kShortRopeFactors[] = "rope_factors_short.weight";
inline constexpr char kLongRopeFactors[] = "rope_factors_long.weight";

// Of models whose layers have inputs of their own: a row for each token, [n_layers * layer_input],
// the projection of embeddings to as many, and the weights of the norm of each layer's.
inline constexpr char kLayerInputTable[] = "per_layer_token_embd.weight";
inline constexpr char kLayerInputProjection[] = "per_layer_model_proj.weight";
inline constexpr char kLayerInputNorm[] = "per_layer_proj_norm.weight";

// Of models whose embeddings go through two dense layers: the first, [inner, hidden], and the
// second, [hidden, inner].
inline constexpr char kFirstDense[] = "dense_2.weight";
inline constexpr char kSecondDense[] = "dense_3.weight";

// Which two elements of a head rope turns together, of the rope_dim that are rotated.
enum class RopePairs {
    adjacent,  // 2i and 2i + 1
    halves,    // i and i + rope_dim / 2
};

// A norm divides a row by its root mean square, or takes its mean off first.
enum class NormKind { rms, layer };

// What the gate of a feed-forward is put through.
enum class Activation {
    silu,
    gelu,  // as approximated by tanh
    // SiLU of 1.702 times what is at most 7, and the other factor is within [-7, 7], and one more.
    clamped_silu,
    squared_relu,  // there is no gate: it is the square of what is above zero
    exact_gelu,    // there is no gate: x times the share of a normal distribution that is below x
    exact_geglu,   // that of the gate
};

// What of an expert's score counts for its weight.
enum class Gating {
    softmax,  // its exponential
    sigmoid,
};

// What is normed of queries and keys before rope.
enum class QkNorm {
    none,
    heads,       // every head by itself, all with the same weights
    projection,  // all heads of a row together
    unweighted,  // every head by itself, without weights, in layers with rope
    centred,     // every head by itself, with weights of its own and its mean taken off first
    // All heads of a row together, behind the bias: a LayerNorm with a bias of its own.
    centred_projection,
};

// The rows of a head that say how relevant a document is: of the softmax over their logits behind
// the prompt's last token, the first is the document's score.
struct RankHead {
    std::string tensor;
    std::vector<std::int32_t> rows;  // at least 2, or none: the model cannot rank
    // A cross-encoder's: of one row, whose logit has a bias, and behind a dense layer and tanh of
    // the first token's state. The score is the logit's sigmoid.
    bool of_pairs = false;
    bool present() const { return !rows.empty(); }
};

// Hyperparameters of a decoder or an encoder, as the engine needs them.
struct ModelConfig {
    std::string architecture;
    std::string name;
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t head_dim = 0;
    std::int32_t rope_dim = 0;  // dimensions of a head that are rotated
    std::int32_t ffn = 0;       // width of the feed-forward, or of one expert
    std::int32_t vocab = 0;
    std::int32_t context_length = 0;
    float norm_epsilon = 1e-5F;
    float rope_base = 10000.0F;
    RopePairs rope_pairs = RopePairs::adjacent;
    // The factor of positions: 1 / scaling factor for linear scaling, else 1.
    float rope_scale = 1.0F;
    // One divisor per frequency: LLaMA 3.1's and longrope's come from a tensor, YaRN's from its
    // formula.
    std::vector<float> rope_factors;  // [rope_dim / 2] or empty
    // The tensor that they come from; "" where there is none.
    std::string rope_factors_tensor;
    float rope_magnitude = 1.0F;   // multiplies cos and sin (YaRN)
    bool tied_embeddings = false;  // no output.weight: the head is token_embd.weight
    bool qkv_bias = false;         // added to queries, keys and values before rope
    bool output_bias = false;      // added to what attention adds to the residuals
    bool attention_sinks = false;  // each head has one more score, of no position
    QkNorm qk_norm = QkNorm::none;
    bool input_norms = true;      // of what attention and feed-forward read
    bool output_norms = false;    // of what they add to the residuals
    bool fused_qkv = false;       // one tensor has the rows of queries, keys and values
    bool fused_gate_up = false;   // one tensor has the rows of gate and up
    bool up_before_gate = false;  // in this order, in that tensor
    // The tensor of the norm of what the feed-forward reads, after "blk.N.".
    std::string feed_forward_norm = "ffn_norm.weight";
    // [n_layers]: layers whose queries and keys are rotated; empty = all.
    std::vector<bool> rope_layers;
    // Above 0: layers with the window rotate with this base and without scaling, and rope_base,
    // rope_scale, rope_factors and rope_magnitude are those of the others.
    float windowed_rope_base = 0.0F;
    NormKind norm = NormKind::rms;  // of layers, and before the head
    bool norm_bias = false;         // added behind these norms
    // Attention and feed-forward read the same, what attn_norm makes of the residuals.
    bool parallel_blocks = false;
    Activation activation = Activation::silu;
    // Factors of embeddings, of what is added to the residuals, of scores (0: one over the root of
    // head_dim) and of logits.
    float embedding_scale = 1.0F;
    float residual_scale = 1.0F;
    float attention_scale = 0.0F;
    float logit_scale = 1.0F;
    // Above 0: a score or logit x becomes cap * tanh(x / cap).
    float attention_softcap = 0.0F;
    float logit_softcap = 0.0F;
    // A row attends to this many positions, of which its own is the last; of an encoder to those
    // that are no more than half of it away. 0: to all positions before it, or to all.
    std::int32_t sliding_window = 0;
    std::vector<bool> full_attention;  // [n_layers]: layers without the window; empty = none
    // The window is a chunk: positions are cut into chunks of sliding_window, and a row attends to
    // those of its own chunk.
    bool chunked_attention = false;
    // Above 0: in layers without rope queries are multiplied by
    //     1 + temperature_scale * ln(1 + floor((position + 1) / temperature_length)).
    std::int32_t temperature_length = 0;
    float temperature_scale = 0.0F;
    // Above 0: layers with the window have such heads, and n_kv_heads, head_dim and rope_dim are
    // those of the others. Of the two numbers of KV heads the larger is a multiple of the other.
    std::int32_t windowed_kv_heads = 0;
    std::int32_t windowed_head_dim = 0;
    std::int32_t windowed_rope_dim = 0;
    bool value_norm = false;  // an RMS norm of every head of values, without weights
    // Layers without the window have no values of their own: they are the keys, before norm and
    // rope.
    bool keys_are_values = false;
    bool layer_scales = false;  // a tensor has the factor of the residuals behind a layer
    // Mixture of experts: a row's feed-forward is the weighted sum of n_experts_used of n_experts.
    std::int32_t n_experts = 0;  // 0 = one dense feed-forward
    std::int32_t n_experts_used = 0;
    Gating gating = Gating::softmax;       // over all experts, where it is a softmax
    bool normalise_expert_weights = true;  // divided by the sum of those used
    float expert_weight_scale = 1.0F;      // a factor of the weights
    // A tensor has a number for each expert that is added to its weight where the best are chosen,
    // and nowhere else.
    bool selection_bias = false;
    // With that bias: experts are in so many groups of equal size, and a row chooses among those of
    // the groups that it keeps, whose two best experts have the highest sums.
    std::int32_t n_expert_groups = 1;
    std::int32_t n_expert_groups_used = 1;
    // Weights are factors of what an expert reads, not of what it makes.
    bool weighted_expert_inputs = false;
    bool expert_biases = false;   // of the router and of each matrix of an expert
    std::int32_t shared_ffn = 0;  // width of an expert that every row visits; 0: there is none
    bool shared_gate = false;  // what it makes is weighted with the sigmoid of a score of its own
    // The first layers have one feed-forward of width dense_ffn in the place of experts.
    std::int32_t n_dense_layers = 0;
    std::int32_t dense_ffn = 0;
    // Of the others those have experts whose number, counted from 1, is a multiple of it.
    std::int32_t expert_period = 1;
    // Each layer with experts has such a feed-forward beside them. Both, and what the router reads,
    // have norms of their own, and each expert has a factor.
    bool dense_beside_experts = false;
    bool fused_experts = false;  // one tensor has the rows of gate and up of every expert
    // Layers behind the last that predict more tokens at once; nobody loads them.
    std::int32_t n_skipped_layers = 0;
    // How the hidden states of a text become its embedding, by "pooling_type"; the mean where the
    // file says nothing. None: the file says that texts have none, or one that we do not compute.
    spec::Pooling pooling = spec::Pooling::mean;
    RankHead rank_head;
    // Each position of a text attends to those behind it, too, and there is no head behind the last
    // layer.
    bool encoder = false;
    // What enters the first layer is normed, with a bias where the sums of residuals are normed.
    bool embedding_norm = false;
    bool first_norm = true;  // the first layer norms what its attention reads, as others do
    // Above 0: what is pooled goes through two dense layers, without biases, the first of so many
    // outputs.
    std::int32_t dense_inner = 0;
    // The sums of residuals and what a block adds are normed, with a bias: attn_output_norm behind
    // attention, layer_output_norm behind the feed-forward.
    bool sum_norms = false;
    // Behind attention the residuals are added to that normed sum once more, and the sum is normed
    // again, with attn_norm_2.
    bool normed_twice = false;
    bool feed_forward_bias = false;  // of both matrices
    bool down_bias = false;          // of the last one alone
    // Scores fall with the distance of positions (ops::Attention::slopes): the slopes of ALiBi,
    // the steepest 2^(-8 / n) of n heads.
    bool alibi = false;
    // The model is published with adapters for tasks, which are not applied: these are its base
    // weights, as where no task is chosen.
    bool task_adapters = false;
    // Rows of tables that are added to the embeddings of tokens: one for each position, and one for
    // each kind of text, of which all texts have the first, but what a cross-encoder reads behind
    // the first separator has the second. 0: there is no such table.
    std::int32_t n_positions = 0;
    std::int32_t n_token_types = 0;
    std::int32_t separator = -1;  // a token; -1: all of a text is of the first kind
    // Above 0: each layer also reads so many numbers of each token, from a table and a projection
    // of the token's embedding: they are factors of a gated projection that the layer adds last.
    std::int32_t layer_input = 0;
    // The last so many layers have no keys and values of their own, see kv_layer().
    std::int32_t n_shared_kv_layers = 0;
    // [n_layers]: widths of the feed-forwards, where layers differ; ffn, or dense_ffn of a model
    // with experts, is the largest. Empty: each has that.
    std::vector<std::int32_t> dense_widths = {};

    // The window of a layer, 0 for none.
    std::int32_t window_of(std::int32_t layer) const {
        const bool full =
            !full_attention.empty() && full_attention[static_cast<std::size_t>(layer)];
        return full ? 0 : sliding_window;
    }
    // Of all layers; none where no layer has a window.
    spec::AttentionWindow attention_window() const;
    bool has_windowed_heads(std::int32_t layer) const {
        return windowed_head_dim > 0 && window_of(layer) > 0;
    }
    std::int32_t kv_heads_of(std::int32_t layer) const {
        return has_windowed_heads(layer) ? windowed_kv_heads : n_kv_heads;
    }
    std::int32_t head_dim_of(std::int32_t layer) const {
        return has_windowed_heads(layer) ? windowed_head_dim : head_dim;
    }
    std::int32_t rope_dim_of(std::int32_t layer) const {
        return has_windowed_heads(layer) ? windowed_rope_dim : rope_dim;
    }
    bool shares_kv(std::int32_t layer) const { return layer >= n_layers - n_shared_kv_layers; }
    spec::LayerRange kv_layers(spec::LayerRange layers) const {
        return spec::kv_layers(layers, n_layers, n_shared_kv_layers);
    }
    // The layer whose keys and values a layer attends to: itself, or the last of the same kind of
    // window that has its own. -1: there is no such layer.
    std::int32_t kv_layer(std::int32_t layer) const {
        std::int32_t source = std::min(layer, n_layers - n_shared_kv_layers - 1);
        while (source >= 0 && (window_of(source) > 0) != (window_of(layer) > 0)) --source;
        return source;
    }
    // The last layers, from the first on that has keys and values which others read: a sequence
    // runs all of them in one place. 0: there are none.
    std::int32_t joined_layers() const;
    bool has_values(std::int32_t layer) const { return !keys_are_values || window_of(layer) > 0; }
    std::int32_t largest_head_dim() const { return std::max(head_dim, windowed_head_dim); }
    // Heads that have room for the keys and values of any layer: of the larger number, and so large
    // that several of them hold one of the smaller number.
    std::int32_t page_kv_heads() const { return std::max(n_kv_heads, windowed_kv_heads); }
    std::int32_t page_head_dim() const {
        const auto room = [this](std::int32_t heads, std::int32_t dim) {
            const std::int32_t each = heads == 0 ? 1 : page_kv_heads() / heads;
            return (dim + each - 1) / each;
        };
        return std::max(room(n_kv_heads, head_dim), room(windowed_kv_heads, windowed_head_dim));
    }
    // Of what attention reads.
    bool has_attention_norm(std::int32_t layer) const {
        return input_norms && (layer > 0 || first_norm);
    }
    bool rotates(std::int32_t layer) const {
        return rope_layers.empty() || rope_layers[static_cast<std::size_t>(layer)];
    }
    bool has_experts(std::int32_t layer) const {
        return n_experts > 0 && layer >= n_dense_layers && (layer + 1) % expert_period == 0;
    }
    // There must be one.
    std::int32_t first_layer_with_experts() const {
        std::int32_t layer = n_dense_layers;
        while (!has_experts(layer)) ++layer;
        return layer;
    }
    // Whether tensors have the weights of norms of queries and keys.
    bool has_qk_weights() const { return qk_norm != QkNorm::none && qk_norm != QkNorm::unweighted; }
    bool has_gate() const {
        return activation != Activation::squared_relu && activation != Activation::exact_gelu;
    }
    bool has_temperature(std::int32_t layer) const {
        return temperature_length > 0 && !rotates(layer);
    }
    // Whether what the last layer makes is normed once more.
    bool has_output_norm() const { return !sum_norms; }
    // Of the feed-forward of a layer without experts.
    std::int32_t dense_width(std::int32_t layer) const {
        if (!dense_widths.empty()) return dense_widths[static_cast<std::size_t>(layer)];
        return n_experts > 0 ? dense_ffn : ffn;
    }
    bool has_windowed_rope(std::int32_t layer) const {
        return windowed_rope_base > 0 && window_of(layer) > 0;
    }
};

// Checks that the file holds every tensor of the model in the right shape, and none besides. A file
// made from a header alone is an error when the model needs the data of rope_freqs.weight; use its
// WeightSource.
base::Result<ModelConfig> read_model_config(const GgufFile& file);
class WeightSource;
base::Result<ModelConfig> read_model_config(WeightSource& source);
// The planner's view of the model; a header is enough for it. layer_bytes is the largest layer's; K
// and V are in 16-bit floats.
base::Result<spec::ModelSpec> read_model_spec(const GgufFile& file);
// The model's name: general.name, else the file's name without its ending.
std::string model_name(const GgufFile& file);
// Whether it is the weights of a norm, a bias or the like, which are floats in any file.
bool is_vector(std::string_view name, std::size_t dimensions);
// The layer of a tensor: 7 for "blk.7.ffn_up.weight", -1 for a tensor outside the layers.
std::int32_t layer_of_tensor(std::string_view name);

}  // namespace helix::model

#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/arch/architecture.h"

// What the decoders of this folder are made of: attention of grouped heads with rope, a gated
// feed-forward or experts of that kind, norms before or after both. An architecture says which of
// these mechanisms it has.

namespace helix::model {

enum class Presence { never, optional, always };

struct DecoderTraits {
    std::string_view name;  // also the beginning of the metadata keys
    RopePairs rope_pairs = RopePairs::adjacent;
    Presence qkv_bias = Presence::never;
    bool output_bias = false;
    bool attention_sinks = false;
    QkNorm qk_norm = QkNorm::none;
    bool qk_norm_optional = false;
    Presence experts = Presence::never;
    std::string_view expert_width_key = {};  // key of the width of an expert, after the name
    Gating gating = Gating::softmax;         // where the file says nothing
    bool expert_biases = false;
    std::string_view feed_forward_norm = "ffn_norm.weight";
    bool input_norms = true;
    bool output_norms = false;
    bool fused_qkv = false;      // attn_qkv in the place of attn_q, attn_k and attn_v
    bool fused_gate_up = false;  // ffn_up has the rows of the gate, then its own
    bool longrope = false;       // rope factors may come as two tensors
    // Every layer whose number, counted from 1, is a multiple of it has no rope, unless
    // rope.layer_pattern says which. 0: all layers have.
    std::int32_t no_rope_period = 0;
    // The same of layers that attend to all positions although the model has a window, unless
    // attention.sliding_window_pattern says which. 0: none do.
    std::int32_t full_attention_period = 0;
    bool full_attention_first = false;  // numbers are counted from 0 then: the first layer does
    // Rope scaling is of the layers without the window alone, and those with it have this base; 0:
    // the others'.
    bool plain_windowed_rope = false;
    float windowed_rope_base = 0.0F;
    bool rope_with_window_only = false;  // layers without the window have no rope
    // Layers with the window have heads of other sizes (key_length_swa), and head_count_kv may be
    // an array.
    bool windowed_heads = false;
    // The window is a chunk, of so many positions where the file says nothing; 0: it is none.
    std::int32_t chunk_positions = 0;
    // The same of ModelConfig::temperature_length, and the scale; 0: there is no temperature.
    std::int32_t temperature_length = 0;
    float temperature_scale = 0.0F;
    bool value_norm = false;          // of heads of values, without weights
    bool values_may_be_keys = false;  // layers without the window may lack attn_v
    bool layer_scales = false;        // layer_output_scale may be there
    // Layers may have inputs of their own, the last may share keys and values (see ModelConfig),
    // and feed-forwards may have a width for each layer.
    bool layer_inputs = false;
    float attention_scale = 0.0F;       // of scores; 0: the usual
    bool dense_beside_experts = false;  // in every layer with experts
    bool weighted_expert_inputs = false;
    bool expert_groups = false;  // there may be some
    bool shared_expert = false;  // as wide as the others, where the file says nothing
    bool shared_gate = false;    // there is one with a gate, whose width the file says
    bool expert_period = false;  // interleave_moe_layer_step may be there
    // Every second layer has experts, as wide as the others' feed-forwards; moe_every_n_layers says
    // it.
    bool alternate_experts = false;
    bool normalises_expert_weights = true;  // where the file says nothing
    // Models of so many experts norm no queries and keys, unless kUnweightedQkNorm says so.
    std::int32_t experts_without_qk_norm = 0;
    NormKind norm = NormKind::rms;
    bool norm_bias = false;
    bool parallel_blocks = false;
    Activation activation = Activation::silu;
    // The keys embedding_scale, residual_scale and attention.scale may be there.
    bool scales = false;
    enum class LogitScale { none, multiplies, divides };
    LogitScale logit_scale = LogitScale::none;  // what the key logit_scale does
    bool root_embedding_scale = false;          // embeddings times the root of the hidden size
    // Soft caps of scores and logits where the file says nothing. 0: none; below: never.
    float attention_softcap = -1.0F;
    float logit_softcap = -1.0F;
    // config.json leaves out that the head is the embedding.
    bool tied_by_default = false;
    // Norm weights of Hugging Face's are one less than the file's.
    bool norms_less_one = false;
    // Of the model of so many layers scores are divided by the root of hidden / heads; 0: of none.
    std::int32_t layers_scaled_by_hidden = 0;
    // See ModelConfig: encoders without input_norms have sum_norms, and all but those that norm as
    // decoders do an embedding_norm.
    bool encoder = false;
    bool norms_as_decoder = false;
    bool dense_embeddings = false;   // what is pooled goes through two dense layers
    bool position_table = false;     // in the place of rope
    bool alibi = false;              // likewise; see ModelConfig
    bool may_rank = false;           // there are cross-encoders of it
    bool task_adapters = false;      // see ModelConfig
    bool feed_forward_bias = false;  // of both matrices
    bool down_bias = false;          // of the last one alone
    // The feed-forward may be that of BERT: without a gate, with both biases and exact GELU.
    bool gate_optional = false;
};

// The traits of the architecture of this name; null: there is none.
const DecoderTraits* find_traits(std::string_view architecture);

// Reads and checks the hyperparameters, and checks that every tensor the model needs is there with
// the right shape, and none besides. Leaves out rope factors that come as a tensor.
base::Result<ModelConfig> read_decoder(const GgufFile& file, const DecoderTraits& traits);

// Our own key, of folders whose config.json says "truncate": whether YaRN's ramp begins and ends at
// whole dimensions. Without it: it does.
inline constexpr char kYarnTruncate[] = "rope.scaling.yarn_truncate";

// Our own keys: the positions of a chunk, where the file has more than 8,192 or fewer, and whether
// queries and keys are normed without weights.
inline constexpr char kAttentionChunkSize[] = "attention.chunk_size";
inline constexpr char kUnweightedQkNorm[] = "attention.unweighted_qk_norm";

// What is wrong with the choice of n_used of n_experts in so many groups, more than one, of which
// some are used; "" if nothing is.
std::string problem_with_expert_groups(std::int32_t n_experts, std::int32_t n_used,
                                       std::int32_t n_groups, std::int32_t n_groups_used);

// The gate of the expert that every row visits, after "blk.N.": a row, as a vector or a matrix.
inline constexpr char kSharedGate[] = "ffn_gate_inp_shexp.weight";

// The whole key of a model's metadata, like "llama.rope.freq_base".
std::string metadata_key(const DecoderTraits& traits, std::string_view rest);
base::Error wrong_metadata(const GgufFile& file, std::string_view key, const std::string& text);

// The array of booleans at key, one a layer. Where there is none: `otherwise`, but its opposite for
// every layer whose number, counted from 1, is a multiple of the period; empty without a period.
base::Result<std::vector<bool>> read_layer_pattern(const GgufFile& file, std::string_view key,
                                                   std::int32_t n_layers, std::int32_t period,
                                                   bool otherwise);

// Of what encoders gate with, where files say it: "gelu" or "silu".
inline constexpr char kHiddenActivation[] = "hidden_activation";

// The tables that encoders have outside of their layers, and the norm of their sum.
inline constexpr char kPositionTable[] = "position_embd.weight";
inline constexpr char kTokenTypeTable[] = "token_types.weight";
inline constexpr char kEmbeddingNorm[] = "token_embd_norm.weight";
inline constexpr char kEmbeddingNormBias[] = "token_embd_norm.bias";

// Reads what is an encoder's alone, and checks its tensors outside of the layers, a cross-encoder's
// head (pooling_type 4) and dense layers behind the pooling among them. Refuses what would make it
// something else: attention to earlier positions alone, a classifier's head where the architecture
// or the file's pooling has none.
base::Status read_encoder(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config);
// Whether it is one of these tensors.
bool is_encoder_tensor(const ModelConfig& config, std::string_view name);

// Reads the keys rope.*: dimensions, base, scaling (none, linear, yarn, longrope) and which layers
// rotate. head_dim and the window must be set.
base::Status read_rope(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config);

}  // namespace helix::model

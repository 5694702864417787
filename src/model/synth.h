#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor_type.h"
#include "spec/pooling.h"

// Models with the shape of real ones and random weights, for tests and benchmarks: they load,
// tokenise text and run at the real model's speed, and say nothing sensible.

namespace helix::model {

// How positions beyond the trained context are reached; type "", "linear", "yarn", "llama3" or
// "longrope"; or "proportional": which share of a head's pairs is turned at all, as factor.
struct SynthRopeScaling {
    std::string type;
    float factor = 1.0F;
    std::int32_t trained_context = 0;
};

struct SynthShape {
    std::string name;
    std::int32_t n_layers = 0;
    std::int32_t hidden = 0;
    std::int32_t n_heads = 0;
    std::int32_t n_kv_heads = 0;
    std::int32_t ffn = 0;
    std::int32_t vocab = 0;  // at least kMinSynthVocabulary, or the tokenizer's own
    std::int32_t context_length = 0;
    float rope_base = 10000.0F;
    bool tied_embeddings = false;
    std::string architecture = "llama";  // what it is made of is in model/arch
    std::int32_t head_dim = 0;           // 0: hidden / n_heads
    // Experts of width ffn each; 0: one dense feed-forward.
    std::int32_t n_experts = 0;
    std::int32_t n_experts_used = 0;
    std::int32_t sliding_window = 0;  // or the positions of a chunk; 0: the architecture's own
    SynthRopeScaling rope_scaling = {};
    // It has the head, labels and template of a Qwen3-Reranker, or of an encoder the head of a
    // cross-encoder.
    bool reranks = false;
    std::int32_t rope_dim = 0;  // of a head; 0: all
    bool qkv_bias = false;      // where the architecture leaves it open
    // As attention.sliding_window_pattern; 0: the architecture's own.
    std::int32_t full_attention_period = 0;
    // Where the architecture has them; see ModelConfig. logit_scale is as the file says it.
    float embedding_scale = 1.0F;
    float residual_scale = 1.0F;
    float attention_scale = 0.0F;
    float logit_scale = 1.0F;
    float attention_softcap = 0.0F;
    float logit_softcap = 0.0F;
    bool qk_norm = true;  // this and the next: where the architecture leaves it open
    bool gated = true;
    std::int32_t temperature_length = 0;  // 0: the architecture's own
    // Of a model with experts: first layers without, of width dense_ffn, which is that of the
    // feed-forwards beside experts, too, where the architecture has them; the width of an expert
    // that every row visits, 0 for none; whether the choice of experts has a bias; a factor.
    std::int32_t n_dense_layers = 0;
    std::int32_t dense_ffn = 0;
    // Every which layer has experts, where the architecture leaves it open.
    std::int32_t expert_period = 1;
    std::int32_t shared_ffn = 0;
    bool selection_bias = false;
    // Of groups of experts, where the architecture may have them.
    std::int32_t n_expert_groups = 1;
    std::int32_t n_expert_groups_used = 1;
    float expert_weight_scale = 1.0F;
    // Where layers with the window have heads of their own: these. The window's layers are then
    // written one by one.
    std::int32_t windowed_kv_heads = 0;
    std::int32_t windowed_head_dim = 0;
    bool keys_are_values = false;  // of layers without the window
    // Where the architecture has them, see ModelConfig: what layers have of each token, how many
    // share keys and values, and the width of the feed-forwards of these; 0: that of the others.
    std::int32_t layer_input = 0;
    std::int32_t n_shared_kv_layers = 0;
    std::int32_t shared_kv_ffn = 0;
    // Layers behind the last that only predict; they are counted in the file, without tensors.
    std::int32_t n_skipped_layers = 0;
    spec::Pooling pooling = spec::Pooling::none;  // of a model that does not rank
    // Whether an encoder's vocabulary is one of unigrams; else it is one of word pieces. This and
    // the architecture count where tokenizer is empty.
    bool unigrams = false;
    std::int32_t dense_inner = 0;  // see ModelConfig, where the architecture has it
    // That of a family (model/synth_tokenizers.h). Empty: of a decoder a SentencePiece-like one.
    std::string tokenizer = {};

    bool shares_kv(std::int32_t layer) const { return layer >= n_layers - n_shared_kv_layers; }
    // Of the feed-forward of a layer without experts, or beside them.
    std::int32_t dense_width(std::int32_t layer) const {
        if (shares_kv(layer) && shared_kv_ffn > 0) return shared_kv_ffn;
        return n_experts > 0 ? dense_ffn : ffn;
    }
    // Rows of an encoder's table of them: RoBERTa has one.
    std::int32_t token_types() const { return unigrams ? 1 : 2; }
    std::int32_t head_size() const { return head_dim > 0 ? head_dim : hidden / n_heads; }
    // Where full_attention_period or the architecture says it.
    bool is_windowed(std::int32_t layer) const;
    bool has_experts(std::int32_t layer) const {
        return n_experts > 0 && layer >= n_dense_layers && (layer + 1) % expert_period == 0;
    }
    std::int32_t rope_size() const { return rope_dim > 0 ? rope_dim : head_size(); }
};

// The shapes by name: tiny, tiny-tied, tiny-qwen2, ..., tiny-reranker, small (the smallest that
// K-quants allow), llama-160m, llama-1b, ...
const std::vector<SynthShape>& synth_shapes();
// Small models of families: the keys, names of tensors, mechanisms and kind of tokenizer of
// published ones, by names like smollm3. Every quantisation fits them.
const std::vector<SynthShape>& synth_likes();

struct SynthOptions {
    std::string shape = "tiny";  // or one of the families'
    std::string quant = "q8_0";  // of every matrix; norms are f32
    std::uint64_t seed = 0;
    std::string path;
    unsigned threads = 0;  // 0: one per core. Does not change the file.
    // So many times the shape's hidden size, heads and widths of feed-forwards; 1 to 64.
    std::int32_t wider = 1;
};

// The shape with so many times the hidden size, the heads, and the width of each feed-forward.
SynthShape widened(SynthShape shape, std::int32_t times);

// Told how many bytes of tensor data are written so far, and how many there are in all.
using SynthProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Writes a model: the same file for the same shape, quant and seed on every machine. progress may
// be empty.
base::Status synth_model(const SynthOptions& options, const SynthProgress& progress = {});
// The same with a shape of the caller's own.
base::Status synth_model(const SynthShape& shape, TensorType quant, const SynthOptions& options,
                         const SynthProgress& progress = {});

}  // namespace helix::model

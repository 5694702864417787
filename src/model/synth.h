#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor_type.h"

// Models with the shape of real ones and random weights, for tests and benchmarks: they load,
// tokenise text and run at the real model's speed, and say nothing sensible.

namespace helix::model {

// How positions beyond the trained context are reached; type "", "linear", "yarn" or "llama3".
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
    std::int32_t vocab = 0;  // at least kMinSynthVocabulary
    std::int32_t context_length = 0;
    float rope_base = 10000.0F;
    bool tied_embeddings = false;
    std::string architecture = "llama";  // qwen2, qwen3, qwen3moe
    std::int32_t head_dim = 0;           // 0: hidden / n_heads
    // Experts of width ffn each; 0: one dense feed-forward.
    std::int32_t n_experts = 0;
    std::int32_t n_experts_used = 0;
    std::int32_t sliding_window = 0;
    SynthRopeScaling rope_scaling = {};
    bool reranks = false;  // it has the head, labels and template of a Qwen3-Reranker

    std::int32_t head_size() const { return head_dim > 0 ? head_dim : hidden / n_heads; }
};

// The shapes by name: tiny, tiny-tied, tiny-qwen2, ..., tiny-reranker, small (the smallest that
// K-quants allow), llama-160m, llama-1b, ...
const std::vector<SynthShape>& synth_shapes();

struct SynthOptions {
    std::string shape = "tiny";
    std::string quant = "q8_0";  // of every matrix; norms are f32
    std::uint64_t seed = 0;
    std::string path;
    unsigned threads = 0;  // 0: one per core. Does not change the file.
};

// Told how many bytes of tensor data are written so far, and how many there are in all.
using SynthProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Writes a model: the same file for the same shape, quant and seed on every machine. progress may
// be empty.
base::Status synth_model(const SynthOptions& options, const SynthProgress& progress = {});
// The same with a shape of the caller's own.
base::Status synth_model(const SynthShape& shape, TensorType quant, const SynthOptions& options,
                         const SynthProgress& progress = {});

}  // namespace helix::model

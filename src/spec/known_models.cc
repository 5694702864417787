#include <iterator>
#include <string_view>
#include <vector>

#include "spec/model_shape.h"

// Hyperparameters as the models' config.json files give them.

namespace helix::spec {
namespace {

// {name, layers, hidden, heads, KV heads, head, feed-forward, vocabulary, context, tied, bias,
// norm, experts, experts used, layer norms, whole norm, dense layers, their feed-forward, shared
// feed-forward, a bias of experts, gpt-oss's biases and sinks}
const ModelShape kModels[] = {
    {"llama1-7b", 32, 4096, 32, 32, 128, 11008, 32000, 2048},
    {"llama1-13b", 40, 5120, 40, 40, 128, 13824, 32000, 2048},
    {"llama1-30b", 60, 6656, 52, 52, 128, 17920, 32000, 2048},
    {"llama1-65b", 80, 8192, 64, 64, 128, 22016, 32000, 2048},
    {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096},
    {"llama2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096},
    {"llama2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096},
    {"codellama-34b", 48, 8192, 64, 8, 128, 22016, 32000, 16384},
    {"llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192},
    {"llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072},
    {"llama3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072},
    {"llama3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, 131072},
    {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072, true},
    {"llama3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 131072, true},
    {"llama3.3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 131072},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 2048},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768},
    {"mistral-nemo-12b", 40, 5120, 32, 8, 128, 14336, 131072, 131072},
    {"mistral-small-24b", 40, 5120, 32, 8, 128, 32768, 131072, 32768},
    {"mistral-large-123b", 88, 12288, 96, 8, 128, 28672, 32768, 131072},
    {"yi-34b", 60, 7168, 56, 8, 128, 20480, 64000, 4096},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, true},
    {"smollm2-360m", 32, 960, 15, 5, 64, 2560, 49152, 8192, true},
    {"smollm2-1.7b", 24, 2048, 32, 32, 64, 8192, 49152, 8192, true},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768, true, true},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 32768, true, true},
    {"qwen2.5-3b", 36, 2048, 16, 2, 128, 11008, 151936, 32768, true, true},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768, false, true},
    {"qwen2.5-14b", 48, 5120, 40, 8, 128, 13824, 152064, 32768, false, true},
    {"qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, 32768, false, true},
    {"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 32768, false, true},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, true, false, true},
    {"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, 40960, true, false, true},
    {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 40960, true, false, true},
    {"qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 40960, false, false, true},
    {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, 40960, false, false, true},
    {"qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 40960, false, false, true},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 40960, false, false, true, 128, 8},
    {"qwen3-235b-a22b", 94, 4096, 64, 4, 128, 1536, 151936, 40960, false, false, true, 128, 8},
    {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, false, false, 8, 2},
    {"mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32768, 65536, false, false, false, 8, 2},
    {"glm-4.5-air", 46,    4096, 96, 8, 128,   1408, 151552, 131072, false,
     true,          false, 128,  8,  2, false, 1,    10944,  1408,   true},
    {"glm-4.6", 92,   5120, 96, 8, 128,   1536, 151552, 202752, false,
     true,      true, 160,  8,  2, false, 3,    12288,  1536,   true},
    {"minimax-m2", 62,    3072, 48, 8, 128,  1536, 200064, 196608, false,
     false,        false, 256,  8,  2, true, 0,    0,      0,      true},
    {"gpt-oss-20b", 24, 2880, 64, 8,     64, 2880, 201088, 131072, false, true,
     false,         32, 4,    2,  false, 0,  0,    0,      false,  true},
    {.name = "qwen1.5-moe-a2.7b",
     .n_layers = 24,
     .hidden = 2048,
     .n_heads = 16,
     .n_kv_heads = 16,
     .head_dim = 128,
     .ffn = 1408,
     .vocab = 151936,
     .context_length = 8192,
     .qkv_bias = true,
     .n_experts = 60,
     .n_experts_used = 4,
     .shared_ffn = 5632,
     .shared_gate = true},
    {.name = "qwen2-57b-a14b",
     .n_layers = 28,
     .hidden = 3584,
     .n_heads = 28,
     .n_kv_heads = 4,
     .head_dim = 128,
     .ffn = 2560,
     .vocab = 151936,
     .context_length = 131072,
     .qkv_bias = true,
     .n_experts = 64,
     .n_experts_used = 8,
     .shared_ffn = 20480,
     .shared_gate = true},
    {.name = "gemma-4-26b-a4b",
     .n_layers = 30,
     .hidden = 2816,
     .n_heads = 16,
     .n_kv_heads = 8,
     .head_dim = 256,
     .ffn = 704,
     .vocab = 262144,
     .context_length = 262144,
     .tied_embeddings = true,
     .qk_norm = true,
     .n_experts = 128,
     .n_experts_used = 8,
     .layer_norms = 7,
     .dense_ffn = 2112,
     .n_full_layers = 5,
     .full_kv_heads = 2,
     .full_head_dim = 512,
     .keys_are_values = true,
     .dense_beside_experts = true},
    {.name = "gemma-4-31b",
     .n_layers = 60,
     .hidden = 5376,
     .n_heads = 32,
     .n_kv_heads = 16,
     .head_dim = 256,
     .ffn = 21504,
     .vocab = 262144,
     .context_length = 262144,
     .tied_embeddings = true,
     .qk_norm = true,
     .layer_norms = 4,
     .n_full_layers = 10,
     .full_kv_heads = 4,
     .full_head_dim = 512,
     .keys_are_values = true},
    {.name = "command-r-plus-104b",
     .n_layers = 64,
     .hidden = 12288,
     .n_heads = 96,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn = 33792,
     .vocab = 256000,
     .context_length = 131072,
     .tied_embeddings = true,
     .layer_norms = 1,
     .whole_qk_norm = true},
    {.name = "minitron-4b",
     .n_layers = 32,
     .hidden = 3072,
     .n_heads = 24,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn = 9216,
     .vocab = 256000,
     .context_length = 4096,
     .layer_norms = 4,
     .without_gate = true,
     .norm_bias = true},
    {.name = "llama-4-scout",
     .n_layers = 48,
     .hidden = 5120,
     .n_heads = 40,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn = 8192,
     .vocab = 202048,
     .context_length = 10485760,
     .n_experts = 16,
     .n_experts_used = 1,
     .shared_ffn = 8192},
    {.name = "llama-4-maverick",
     .n_layers = 48,
     .hidden = 5120,
     .n_heads = 40,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn = 8192,
     .vocab = 202048,
     .context_length = 1048576,
     .n_experts = 128,
     .n_experts_used = 1,
     .dense_ffn = 16384,
     .shared_ffn = 8192,
     .expert_period = 2},
    {"gpt-oss-120b", 36,  2880, 64, 8,     64, 2880, 201088, 131072, false, true,
     false,          128, 4,    2,  false, 0,  0,    0,      false,  true},
};

// Windows of the models that have one in some layers, by the first part of their names: in all but
// every period-th layer.
struct KnownWindow {
    std::string_view models;
    std::int32_t positions = 0;
    bool chunked = false;
    std::int32_t period = 0;
};
constexpr KnownWindow kWindows[] = {
    {"gpt-oss-", 128, false, 2},
    {"gemma-4-", 1024, false, 6},
    {"llama-4-", 8192, true, 4},
};

std::vector<ModelShape> with_windows() {
    std::vector<ModelShape> models(std::begin(kModels), std::end(kModels));
    for (ModelShape& model : models) {
        for (const KnownWindow& known : kWindows) {
            if (!model.name.starts_with(known.models)) continue;
            model.window = {known.positions, known.chunked,
                            all_but_every(known.period, model.n_layers)};
        }
    }
    return models;
}

}  // namespace

std::span<const ModelShape> known_models() {
    static const std::vector<ModelShape> kKnown = with_windows();
    return kKnown;
}

}  // namespace helix::spec

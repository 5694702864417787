#include "spec/model_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "spec/json_place.h"
#include "spec/near_names.h"
#include "spec/text_file.h"

namespace helix::spec {
namespace {

constexpr double kSixBitBlock = 210.0 / 256;  // bytes of an element of q6_k
constexpr std::int64_t kMostCount = 100'000'000;
constexpr std::int32_t kMostWide = 10'000'000;

double matrix_bytes(WeightFormat format) {
    switch (format) {
        case WeightFormat::f32:
            return 4;
        case WeightFormat::f16:
            return 2;
        case WeightFormat::q8_0:
            return 34.0 / 32;  // 32 elements and a scale
        case WeightFormat::q4_0:
            return 18.0 / 32;
        case WeightFormat::q4_k:
            return 144.0 / 256;
    }
    return 4;
}

double head_bytes(WeightFormat format) {
    const bool four_bits = format == WeightFormat::q4_0 || format == WeightFormat::q4_k;
    return four_bits ? kSixBitBlock : matrix_bytes(format);
}

double vector_bytes(WeightFormat format) {
    return format == WeightFormat::f16 ? 2 : 4;
}

std::int32_t largest_head_dim(const ModelShape& shape) {
    return std::max(shape.head_dim, shape.full_head_dim);
}

std::int64_t layer_vector_elements(const ModelShape& shape) {
    std::int64_t elements = std::int64_t{shape.layer_norms} * shape.hidden;
    if (shape.qkv_bias)
        elements += std::int64_t{shape.n_heads + 2 * shape.n_kv_heads} * shape.head_dim;
    if (shape.whole_qk_norm)
        elements += std::int64_t{shape.n_heads + shape.n_kv_heads} * shape.head_dim;
    if (shape.qk_norm) elements += std::int64_t{2} * largest_head_dim(shape);
    if (shape.n_full_layers > 0) ++elements;  // a layer's factor
    if (shape.dense_beside_experts) elements += shape.hidden + shape.n_experts;
    if (shape.biases_and_sinks) {
        elements += shape.hidden + shape.n_heads + shape.n_experts +
                    std::int64_t{shape.n_experts} * (2 * std::int64_t{shape.ffn} + shape.hidden);
    }
    return elements;
}

// What layers with experts have besides.
std::int64_t expert_vector_elements(const ModelShape& shape) {
    return (shape.expert_bias ? shape.n_experts : 0) + (shape.shared_gate ? shape.hidden : 0);
}

std::int64_t head_vector_elements(const ModelShape& shape) {
    return std::int64_t{shape.norm_bias ? 2 : 1} * shape.hidden;
}

std::int64_t feed_forward_elements(const ModelShape& shape, std::int32_t width) {
    return std::int64_t{shape.without_gate ? 2 : 3} * shape.hidden * width;
}

// Of layers with a window where others have heads of their own.
std::int64_t windowed_attention_elements(const ModelShape& shape) {
    const std::int64_t queries = std::int64_t{shape.n_heads} * shape.head_dim;
    const std::int64_t keys = std::int64_t{shape.n_kv_heads} * shape.head_dim;
    return shape.hidden * (2 * queries + 2 * keys);
}

// Of these others.
std::int64_t full_attention_elements(const ModelShape& shape) {
    const std::int64_t queries = std::int64_t{shape.n_heads} * shape.full_head_dim;
    const std::int64_t keys = std::int64_t{shape.full_kv_heads} * shape.full_head_dim;
    return shape.hidden * (2 * queries + (shape.keys_are_values ? 1 : 2) * keys);
}

// Of the larger ones.
std::int64_t attention_elements(const ModelShape& shape) {
    const std::int64_t windowed = windowed_attention_elements(shape);
    return shape.n_full_layers > 0 ? std::max(windowed, full_attention_elements(shape)) : windowed;
}

// How many elements fewer the layers have together than as many of the larger ones.
std::int64_t smaller_layers_elements(const ModelShape& shape) {
    if (shape.n_full_layers == 0) return 0;
    const std::int64_t windowed = shape.n_layers - shape.n_full_layers;
    const std::int64_t all = attention_elements(shape);
    const std::int64_t norms = shape.qk_norm ? 2 : 0;
    return windowed * (all - windowed_attention_elements(shape)) +
           shape.n_full_layers * (all - full_attention_elements(shape)) +
           norms *
               (windowed * (largest_head_dim(shape) - shape.head_dim) +
                shape.n_full_layers * std::int64_t{largest_head_dim(shape) - shape.full_head_dim});
}

// Of pages that have room for any layer's: see KvLayout::of_heads of the engine.
std::int64_t largest_kv_bytes(const ModelShape& shape, KvType type) {
    if (shape.n_full_layers == 0) {
        return kv_bytes_per_token_layer(shape.n_kv_heads, shape.head_dim, type);
    }
    const std::int32_t heads = std::max(shape.n_kv_heads, shape.full_kv_heads);
    const auto room = [heads](std::int32_t fewer, std::int32_t dim) {
        const std::int32_t each = std::max(1, heads / fewer);
        return (dim + each - 1) / each;
    };
    return kv_bytes_per_token_layer(heads,
                                    std::max(room(shape.n_kv_heads, shape.head_dim),
                                             room(shape.full_kv_heads, shape.full_head_dim)),
                                    type);
}

// The elements of a layer's matrices with this many of its experts, which do not matter in a dense
// model.
std::int64_t matrix_elements(const ModelShape& shape, std::int32_t experts) {
    const std::int64_t attention = attention_elements(shape);
    if (shape.n_experts == 0) return attention + feed_forward_elements(shape, shape.ffn);
    const std::int64_t router = std::int64_t{shape.hidden} * shape.n_experts;
    return attention + router + experts * feed_forward_elements(shape, shape.ffn) +
           feed_forward_elements(shape, shape.shared_ffn) +
           feed_forward_elements(shape, shape.dense_beside_experts ? shape.dense_ffn : 0);
}

// The same of a layer without experts in a model that has some.
std::int64_t dense_matrix_elements(const ModelShape& shape) {
    return attention_elements(shape) + feed_forward_elements(shape, shape.dense_ffn);
}

bool is_dense(const ModelShape& shape, std::int32_t layer) {
    return layer < shape.n_dense_layers || (layer + 1) % shape.expert_period != 0;
}

std::int32_t dense_layers(const ModelShape& shape) {
    std::int32_t count = 0;
    for (std::int32_t l = 0; l < shape.n_layers; ++l) count += is_dense(shape, l) ? 1 : 0;
    return count;
}

// Whether each layer is counted by itself: such a model has no experts.
bool counts_each_layer(const ModelShape& shape) {
    return shape.layer_input > 0 || shape.n_shared_kv_layers > 0;
}

struct LayerElements {
    std::int64_t matrices = 0;
    std::int64_t vectors = 0;
};

// Of one layer of a model that counts each.
LayerElements elements_of_layer(const ModelShape& shape, std::int32_t layer) {
    const bool full = shape.n_full_layers > 0 && !shape.window.has(layer);
    const bool shares = layer >= shape.n_layers - shape.n_shared_kv_layers;
    const std::int64_t head = full ? shape.full_head_dim : shape.head_dim;
    const std::int64_t keys = head * (full ? shape.full_kv_heads : shape.n_kv_heads);
    const int of_keys = shares ? 0 : (full && shape.keys_are_values ? 1 : 2);
    const bool other_width = shares && shape.shared_kv_ffn > 0;
    LayerElements elements;
    elements.matrices =
        shape.hidden * (2 * shape.n_heads * head + of_keys * keys) +
        feed_forward_elements(shape, other_width ? shape.shared_kv_ffn : shape.ffn) +
        std::int64_t{2} * shape.hidden * shape.layer_input;
    const std::int32_t norms = shape.layer_norms + (shape.layer_input > 0 ? 1 : 0);
    elements.vectors = std::int64_t{norms} * shape.hidden + (shares ? 1 : 2) * head +
                       (shape.n_full_layers > 0 ? 1 : 0);
    return elements;
}

// Of the tables that every layer reads, and what is made of a row of them: of all layers together.
std::int64_t layer_input_elements(const ModelShape& shape) {
    return std::int64_t{shape.layer_input} * shape.n_layers;
}

std::int64_t parameters_of_each_layer(const ModelShape& shape) {
    std::int64_t sum = layer_input_elements(shape) * (std::int64_t{shape.vocab} + shape.hidden) +
                       shape.layer_input +
                       std::int64_t{shape.vocab} * shape.hidden * (shape.tied_embeddings ? 1 : 2) +
                       head_vector_elements(shape);
    for (std::int32_t layer = 0; layer < shape.n_layers; ++layer) {
        const LayerElements elements = elements_of_layer(shape, layer);
        sum += elements.matrices + elements.vectors;
    }
    return sum;
}

// The last layer of this one's kind of window that has keys and values of its own; -1: there is
// none.
std::int32_t kv_layer(const ModelShape& shape, std::int32_t layer) {
    std::int32_t source = shape.n_layers - shape.n_shared_kv_layers - 1;
    while (source >= 0 && shape.window.has(source) != shape.window.has(layer)) --source;
    return source;
}

std::int32_t joined_layers(const ModelShape& shape) {
    std::int32_t first = shape.n_layers;
    for (std::int32_t l = shape.n_layers - shape.n_shared_kv_layers; l < shape.n_layers; ++l)
        first = std::min(first, kv_layer(shape, l));
    return shape.n_layers - first;
}

std::int64_t parameters(const ModelShape& shape, std::int64_t layer_matrices) {
    if (counts_each_layer(shape)) return parameters_of_each_layer(shape);
    const std::int64_t embedding = std::int64_t{shape.vocab} * shape.hidden;
    const std::int64_t dense = dense_layers(shape);
    return (shape.n_layers - dense) * (layer_matrices + expert_vector_elements(shape)) +
           dense * dense_matrix_elements(shape) + shape.n_layers * layer_vector_elements(shape) +
           embedding * (shape.tied_embeddings ? 1 : 2) + head_vector_elements(shape) -
           smaller_layers_elements(shape);
}

std::int64_t whole(double bytes) {
    return static_cast<std::int64_t>(std::ceil(bytes));
}

// The name without owner, "meta-" and what stands behind the size.
std::string plain_model_name(std::string_view name) {
    if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos)
        name.remove_prefix(slash + 1);
    std::string folded = folded_name(name);
    if (folded.starts_with("metallama")) folded.erase(0, 4);
    constexpr std::string_view kEndings[] = {"hf",  "instruct", "chat", "base", "it",
                                             "v01", "v02",      "v03",  "v10"};
    bool again = true;
    while (again) {
        again = false;
        for (const std::string_view ending : kEndings) {
            if (!folded.ends_with(ending) || folded.size() == ending.size()) continue;
            folded.resize(folded.size() - ending.size());
            again = true;
        }
    }
    if (folded == "llama30b") return "llama130b";
    return folded;
}

// "…/llama/config.json" is called "llama"; another file is called by its stem.
std::string name_of_file(const std::string& file) {
    std::string_view rest = file;
    if (rest.ends_with("/config.json")) rest.remove_suffix(12);
    if (rest.ends_with(".json")) rest.remove_suffix(5);
    if (const std::size_t slash = rest.rfind('/'); slash != std::string_view::npos)
        rest.remove_prefix(slash + 1);
    return rest.empty() ? "model" : std::string(rest);
}

// What config.json does not say of a model_type.
struct ShapeFamily {
    std::string_view type;
    bool qkv_bias = false;
    bool qk_norm = false;
    bool whole_qk_norm = false;
    std::int32_t layer_norms = 2;
    bool tied = false;                  // where the file does not say
    std::string_view experts_key = {};  // of their number
    bool expert_bias = false;
    bool biases_and_sinks = false;
    bool full_heads = false;  // layers without a window have heads of their own
    // Experts may be in every second layer, and there is one more that every token uses.
    bool interleaved_experts = false;
    bool norms_each_head = false;  // of queries and keys, where the file says so
    bool without_gate = false;     // and norms with biases
    // Every layer whose number, from 1, is a multiple of it is without the window, unless the file
    // says which; 0: none is.
    std::int32_t full_period = 0;
    bool window_is_opt_in = false;
    std::int32_t chunk_positions = 0;  // above 0: windows are chunks, of so many by default
    bool shared_gate = false;  // there is one more expert that every token uses, with a gate
};
constexpr ShapeFamily kShapeFamilies[] = {
    {"llama"},
    {"mistral"},
    {.type = "mixtral", .experts_key = "num_local_experts"},
    {.type = "qwen2", .qkv_bias = true, .window_is_opt_in = true},
    {.type = "qwen2_moe",
     .qkv_bias = true,
     .experts_key = "num_experts",
     .window_is_opt_in = true,
     .shared_gate = true},
    {.type = "qwen3", .qk_norm = true, .window_is_opt_in = true},
    {.type = "qwen3_moe", .qk_norm = true, .experts_key = "num_experts", .window_is_opt_in = true},
    {.type = "smollm3", .window_is_opt_in = true},
    {.type = "olmo2", .whole_qk_norm = true, .full_period = 4},
    {.type = "olmo3", .whole_qk_norm = true, .full_period = 4},
    {.type = "glm4", .layer_norms = 4},
    {.type = "glm4_moe", .experts_key = "n_routed_experts", .expert_bias = true},
    {.type = "gpt_oss",
     .qkv_bias = true,
     .experts_key = "num_local_experts",
     .biases_and_sinks = true,
     .full_period = 2},
    {"phi3"},
    {"granite"},
    {.type = "granitemoe", .experts_key = "num_local_experts"},
    {.type = "granitemoeshared", .experts_key = "num_local_experts"},
    {.type = "cohere", .layer_norms = 1, .tied = true, .norms_each_head = true},
    {.type = "cohere2", .layer_norms = 1, .tied = true, .full_period = 4},
    {.type = "gemma2", .layer_norms = 4, .tied = true, .full_period = 2},
    {.type = "gemma3_text", .qk_norm = true, .layer_norms = 4, .tied = true, .full_period = 6},
    {.type = "gemma4_text",
     .qk_norm = true,
     .layer_norms = 4,
     .tied = true,
     .full_heads = true,
     .full_period = 6},
    {.type = "llama4_text",
     .experts_key = "num_local_experts",
     .interleaved_experts = true,
     .full_period = 4,
     .chunk_positions = 8192},
    {.type = "nemotron", .layer_norms = 4, .without_gate = true},
    {.type = "minimax_m2",
     .whole_qk_norm = true,
     .experts_key = "num_local_experts",
     .expert_bias = true},
};

// Experts beside the feed-forward of every layer.
base::Status read_experts_beside(const JsonPlace& root, ModelShape& shape) {
    TRY(shape.dense_beside_experts, root.flag_or("enable_moe_block", false));
    if (!shape.dense_beside_experts) return base::Ok{};
    TRY(shape.n_experts, root.count("num_experts", kMostCount));
    TRY(shape.n_experts_used, root.count("top_k_experts", kMostCount));
    if (shape.n_experts > 65536 || shape.n_experts_used > shape.n_experts)
        return root.complaint("top_k_experts: expected at most the number of experts");
    TRY(shape.dense_ffn, root.count("intermediate_size", kMostCount));
    shape.layer_norms += 3;
    return base::Ok{};
}

// Experts in every step-th layer, and one more in each of these.
base::Status read_interleaved_experts(const JsonPlace& root, ModelShape& shape) {
    TRY(const std::int32_t step, root.count_or("interleave_moe_layer_step", kMostCount, 1));
    if (step > shape.n_layers)
        return root.child("interleave_moe_layer_step").error("at most num_hidden_layers");
    shape.expert_period = step;
    TRY(shape.shared_ffn, root.count("intermediate_size", kMostCount));
    if (step == 1) return base::Ok{};
    TRY(shape.dense_ffn, root.count_or("intermediate_size_mlp", kMostCount, 16384));
    return base::Ok{};
}

// Qwen's files may say that some layers have no experts. We serve models alone whose layers all
// have.
base::Status refuse_layers_without_experts(const JsonPlace& root) {
    TRY(const std::int32_t step, root.count_or("decoder_sparse_step", kMostCount, 1));
    if (step != 1) return root.child("decoder_sparse_step").error("1");
    if (!root.present("mlp_only_layers")) return base::Ok{};
    const JsonPlace dense = root.child("mlp_only_layers");
    TRY(const std::size_t n, dense.array_size());
    if (n > 0) return dense.error("an empty array: every layer has experts");
    return base::Ok{};
}

// Experts, and the layers that have none. The number of layers must be set.
base::Status read_shape_experts(const JsonPlace& root, const ShapeFamily& family,
                                ModelShape& shape) {
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
        if (root.has(key) && key != family.experts_key && !family.full_heads) {
            return root.complaint("experts (\"" + std::string(key) +
                                  "\") are not supported in models of type \"" +
                                  std::string(family.type) + "\"");
        }
    }
    if (family.full_heads) return read_experts_beside(root, shape);
    if (family.experts_key.empty()) return base::Ok{};
    TRY(shape.n_experts, root.count(std::string(family.experts_key).c_str(), kMostCount));
    TRY(shape.n_experts_used, root.count("num_experts_per_tok", kMostCount));
    if (shape.n_experts > 65536 || shape.n_experts_used > shape.n_experts)
        return root.complaint("num_experts_per_tok: expected at most the number of experts");
    if (family.interleaved_experts) return read_interleaved_experts(root, shape);
    TRY_VOID(refuse_layers_without_experts(root));
    TRY(shape.n_dense_layers, root.whole_or_zero("first_k_dense_replace", kMostWide));
    if (shape.n_dense_layers >= shape.n_layers)
        return root.child("first_k_dense_replace").error("fewer than num_hidden_layers");
    if (shape.n_dense_layers > 0) {
        TRY(shape.dense_ffn, root.count("intermediate_size", kMostCount));
    }
    TRY(shape.shared_ffn, root.whole_or_zero("shared_intermediate_size", kMostWide));
    TRY(const std::int32_t shared, root.whole_or_zero("n_shared_experts", 1024));
    if (shared > 0) {
        TRY(const std::int32_t width, root.count("moe_intermediate_size", kMostWide));
        shape.shared_ffn = static_cast<std::int32_t>(
            std::min<std::int64_t>(std::int64_t{shared} * width, kMostWide));
    }
    shape.shared_gate = family.shared_gate;
    if (shape.shared_gate) {
        TRY(shape.shared_ffn, root.count("shared_expert_intermediate_size", kMostWide));
    }
    return base::Ok{};
}

// Heads of layers without a window. The number of layers and the heads of the others must be set.
base::Status read_full_heads(const JsonPlace& root, ModelShape& shape) {
    if (shape.n_full_layers == 0) return base::Ok{};
    TRY(shape.full_head_dim, root.count_or("global_head_dim", kMostCount, shape.head_dim));
    if (shape.full_head_dim > 100'000) {
        const bool own = root.has("global_head_dim");
        return root.child(own ? "global_head_dim" : "head_dim").error("1 to 100000");
    }
    TRY(shape.keys_are_values, root.flag_or("attention_k_eq_v", false));
    shape.full_kv_heads = shape.n_kv_heads;
    if (shape.keys_are_values) {
        TRY(shape.full_kv_heads,
            root.count_or("num_global_key_value_heads", kMostCount, shape.n_kv_heads));
    }
    const std::int32_t most = std::max(shape.full_kv_heads, shape.n_kv_heads);
    if (most % std::min(shape.full_kv_heads, shape.n_kv_heads) != 0 ||
        shape.n_heads % shape.full_kv_heads != 0) {
        return root.child("num_global_key_value_heads")
            .error("a divisor of num_attention_heads and of num_key_value_heads");
    }
    return base::Ok{};
}

// Inputs of layers, and layers that share keys and values. The widths and windows must be set.
base::Status read_layer_inputs(const JsonPlace& root, ModelShape& shape) {
    const char* kInput = "hidden_size_per_layer_input";
    const char* kShared = "num_kv_shared_layers";
    TRY(shape.layer_input, root.whole_or_zero(kInput, kMostWide));
    TRY(shape.n_shared_kv_layers, root.whole_or_zero(kShared, kMostWide));
    if (!counts_each_layer(shape)) return base::Ok{};
    if (shape.layer_input > 1'000'000) return root.child(kInput).error("0 to 1000000");
    if (shape.n_shared_kv_layers >= shape.n_layers)
        return root.child(kShared).error("fewer than num_hidden_layers");
    if (shape.n_experts > 0) {
        return root.child(shape.layer_input > 0 ? kInput : kShared)
            .error("0 in a model with experts");
    }
    for (std::int32_t l = shape.n_layers - shape.n_shared_kv_layers; l < shape.n_layers; ++l) {
        if (kv_layer(shape, l) >= 0) continue;
        return root.child(kShared).error("layers of each kind that share no keys and values");
    }
    TRY(const bool wide, root.flag_or("use_double_wide_mlp", false));
    if (wide && shape.ffn <= 10'000'000) shape.shared_kv_ffn = 2 * shape.ffn;
    return base::Ok{};
}

base::Result<std::int32_t> count_full_layers(const JsonPlace& root) {
    TRY(const JsonPlace types, root.member("layer_types"));
    TRY(const std::size_t n, types.array_size());
    std::int32_t full = 0;
    for (std::size_t i = 0; i < n; ++i) {
        TRY(const std::string type, types.element(i).text());
        full += type == "full_attention" ? 1 : 0;
    }
    return full;
}

// Which layers have a window by a list with an entry for each of them; none without the list, or
// where it is empty.
base::Result<std::vector<bool>> read_layer_list(const JsonPlace& root, const char* key,
                                                std::int32_t n_layers) {
    std::vector<bool> layers;
    if (!root.present(key)) return layers;
    const JsonPlace list = root.child(key);
    TRY(const std::size_t n, list.array_size());
    if (n != 0 && n != static_cast<std::size_t>(n_layers))
        return list.error(fmt::format("{} entries, one a layer", n_layers));
    for (std::size_t i = 0; i < n; ++i) {
        const JsonPlace entry = list.element(i);
        if (entry.value().is_string()) {
            layers.push_back(entry.value() != "full_attention");
        } else {
            TRY(const std::int64_t one, entry.integer());
            layers.push_back(one != 0);
        }
    }
    return layers;
}

// As the import of weights reads them, model/hf/hf_config.cc. The number of layers must be set.
base::Status read_window(const JsonPlace& root, const ShapeFamily& family, ModelShape& shape) {
    std::int32_t period = family.full_period;
    std::vector<bool> layers;
    if (family.chunk_positions > 0) {
        TRY(shape.window.positions,
            root.count_or("attention_chunk_size", kMostCount, family.chunk_positions));
        shape.window.chunked = true;
        TRY(period, root.count_or("no_rope_layer_interval", kMostCount, period));
        TRY(layers, read_layer_list(root, "no_rope_layers", shape.n_layers));
    } else {
        TRY(const bool used, root.flag_or("use_sliding_window", !family.window_is_opt_in));
        if (!used || !root.present("sliding_window")) return base::Ok{};
        TRY(shape.window.positions, root.count("sliding_window", kMostCount));
        TRY(period, root.count_or("sliding_window_pattern", kMostCount, period));
        TRY(layers, read_layer_list(root, "layer_types", shape.n_layers));
        if (family.window_is_opt_in && layers.empty()) {
            TRY(const std::int32_t first, root.whole_or_zero("max_window_layers", kMostWide));
            for (std::int32_t l = 0; l < shape.n_layers; ++l) layers.push_back(l >= first);
        }
    }
    if (layers.empty()) layers = all_but_every(period, shape.n_layers);
    shape.window.layers = std::move(layers);
    if (shape.window.count({0, shape.n_layers}) == 0) shape.window = {};
    return base::Ok{};
}

base::Status read_family(const JsonPlace& root, ModelShape& shape) {
    TRY(const JsonPlace place, root.member("model_type"));
    TRY(const std::string type, place.text());
    std::vector<std::string_view> types;
    for (const ShapeFamily& family : kShapeFamilies) {
        types.push_back(family.type);
        if (family.type != type) continue;
        const char* both_ways = "use_bidirectional_attention";
        if (root.present(both_ways) && root.child(both_ways).value() == true)
            return root.child(both_ways).error("false: an encoder is planned with its weights");
        TRY(shape.qk_norm, root.flag_or("use_qk_norm", family.qk_norm));
        // Those of Llama 4 have no weights.
        if (family.whole_qk_norm || family.interleaved_experts) shape.qk_norm = false;
        // Weights of each head are as many as those of all heads together.
        shape.whole_qk_norm = family.whole_qk_norm || (family.norms_each_head && shape.qk_norm);
        if (family.norms_each_head) shape.qk_norm = false;
        shape.layer_norms = family.layer_norms;
        shape.without_gate = shape.norm_bias = family.without_gate;
        shape.tied_embeddings = family.tied;
        shape.expert_bias = family.expert_bias;
        shape.biases_and_sinks = family.biases_and_sinks;
        TRY(shape.qkv_bias, root.flag_or("attention_bias", family.qkv_bias));
        TRY(shape.n_layers, root.count("num_hidden_layers", 100'000));
        if (family.full_heads) {
            TRY(shape.n_full_layers, count_full_layers(root));
            if (shape.n_full_layers > shape.n_layers)
                return root.child("layer_types").error("one name a layer");
        } else {
            for (const char* key : {"num_kv_shared_layers", "hidden_size_per_layer_input"}) {
                TRY(const std::int32_t size, root.whole_or_zero(key, kMostWide));
                if (size > 0) return root.child(key).error("0");
            }
        }
        TRY_VOID(read_window(root, family, shape));
        return read_shape_experts(root, family, shape);
    }
    return place.error(fmt::format("one of {}", fmt::join(types, ", ")));
}

}  // namespace

const char* to_string(WeightFormat format) {
    switch (format) {
        case WeightFormat::f32:
            return "f32";
        case WeightFormat::f16:
            return "f16";
        case WeightFormat::q8_0:
            return "q8_0";
        case WeightFormat::q4_0:
            return "q4_0";
        case WeightFormat::q4_k:
            return "q4_k";
    }
    return "?";
}

base::Result<WeightFormat> parse_weight_format(std::string_view name) {
    const std::string folded = folded_name(name);
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::q8_0,
                                      WeightFormat::q4_0, WeightFormat::q4_k}) {
        if (folded == folded_name(to_string(format))) return format;
    }
    if (folded == "bf16") return WeightFormat::f16;
    return base::invalid(fmt::format(
        "weight format \"{}\" is not known; known: f32, f16 (bf16), q8_0, q4_0, q4_k", name));
}

std::int64_t kv_bytes_per_token_layer(std::int32_t n_kv_heads, std::int32_t head_dim, KvType type) {
    constexpr std::int64_t kScaleBytes = 4;
    std::int64_t head_bytes = 2 * std::int64_t{head_dim};
    if (type == KvType::f32) head_bytes *= 2;
    if (type == KvType::q8) head_bytes = head_dim + kScaleBytes;
    return 2 * n_kv_heads * head_bytes;
}

std::int64_t activation_bytes_per_token(std::int32_t hidden) {
    return std::int64_t{hidden} * 4;
}

std::int64_t layer_matrix_elements(const ModelShape& shape) {
    return matrix_elements(shape, shape.n_experts);
}

std::int64_t active_layer_matrix_elements(const ModelShape& shape) {
    return matrix_elements(shape, shape.n_experts_used);
}

std::int64_t parameter_count(const ModelShape& shape) {
    return parameters(shape, layer_matrix_elements(shape));
}

std::int64_t active_parameter_count(const ModelShape& shape) {
    return parameters(shape, active_layer_matrix_elements(shape));
}

ModelSpec model_spec(const ModelShape& shape, WeightFormat format, KvType kv) {
    ModelSpec spec;
    spec.name = shape.name;
    spec.n_layers = shape.n_layers;
    const auto bytes = [&](std::int64_t matrices, std::int64_t vectors) {
        return whole(static_cast<double>(matrices) * matrix_bytes(format) +
                     static_cast<double>(vectors) * vector_bytes(format));
    };
    const std::int64_t vectors = layer_vector_elements(shape);
    const std::int64_t dense_bytes = bytes(dense_matrix_elements(shape), vectors);
    const std::int64_t other_bytes =
        bytes(layer_matrix_elements(shape), vectors + expert_vector_elements(shape));
    std::vector<std::int64_t> bytes_of_layer;
    double elements_of_each = 0;
    for (std::int32_t l = 0; l < shape.n_layers; ++l) {
        if (!counts_each_layer(shape)) {
            bytes_of_layer.push_back(is_dense(shape, l) ? dense_bytes : other_bytes);
            continue;
        }
        const LayerElements elements = elements_of_layer(shape, l);
        bytes_of_layer.push_back(bytes(elements.matrices, elements.vectors));
        elements_of_each += static_cast<double>(elements.matrices);
    }
    set_layer_sizes(spec, std::move(bytes_of_layer));
    const double dense_share = static_cast<double>(dense_layers(shape)) / shape.n_layers;
    const double other_share = 1 - dense_share;
    spec.flops_per_token_layer =
        2 * (dense_share * static_cast<double>(dense_matrix_elements(shape)) +
             other_share * static_cast<double>(active_layer_matrix_elements(shape)));
    if (counts_each_layer(shape)) {  // with a layer's part of the projection of embeddings
        spec.flops_per_token_layer =
            2 * elements_of_each / shape.n_layers + 2.0 * shape.layer_input * shape.hidden;
    }
    const double embedding = static_cast<double>(shape.vocab) * shape.hidden;
    // A tied embedding is stored once, as the head; whoever runs the head holds it.
    const double per_element = shape.tied_embeddings ? head_bytes(format) : matrix_bytes(format);
    spec.embedding_bytes = whole(embedding * per_element);
    if (shape.layer_input > 0) {
        const double all = static_cast<double>(layer_input_elements(shape));
        spec.common_bytes = spec.embedding_bytes + whole(all * shape.vocab * head_bytes(format)) +
                            bytes(layer_input_elements(shape) * shape.hidden, shape.layer_input);
        spec.embedding_bytes = 0;
    }
    spec.joined_layers = joined_layers(shape);
    spec.head_bytes =
        whole(embedding * head_bytes(format) +
              static_cast<double>(head_vector_elements(shape)) * vector_bytes(format));
    spec.activation_bytes_per_token = activation_bytes_per_token(shape.hidden);
    spec.kv_bytes_per_token_layer = largest_kv_bytes(shape, kv);
    const double expert =
        static_cast<double>(feed_forward_elements(shape, shape.ffn)) * matrix_bytes(format);
    spec.layer_expert_bytes = whole(other_share * shape.n_experts * expert);
    spec.n_experts = shape.n_experts;
    spec.n_experts_used = shape.n_experts_used;
    spec.context_length = shape.context_length;
    spec.window = shape.window;
    return spec;
}

base::Result<ModelShape> find_model_shape(std::string_view name) {
    const std::string wanted = plain_model_name(name);
    std::vector<std::string> known;
    for (const ModelShape& shape : known_models()) {
        if (plain_model_name(shape.name) == wanted) return shape;
        known.push_back(shape.name);
    }
    return base::Error{base::Errc::not_found,
                       fmt::format("model \"{}\" is not known{}; known: {}", name,
                                   did_you_mean(name, known), fmt::join(known, ", "))};
}

base::Result<ModelSpec> find_model(std::string_view name, WeightFormat format) {
    TRY(const ModelShape shape, find_model_shape(name));
    return model_spec(shape, format);
}

namespace {

base::Status read_heads(const JsonPlace& root, ModelShape& shape) {
    TRY(shape.hidden, root.count("hidden_size", kMostCount));
    TRY(shape.n_heads, root.count("num_attention_heads", kMostCount));
    TRY(shape.n_kv_heads, root.count_or("num_key_value_heads", kMostCount, shape.n_heads));
    TRY(shape.head_dim, root.count_or("head_dim", kMostCount, 0));
    if (shape.head_dim == 0) {
        if (shape.hidden % shape.n_heads != 0)
            return root.complaint(
                "hidden_size is no multiple of num_attention_heads, and head_dim "
                "is not given");
        shape.head_dim = shape.hidden / shape.n_heads;
    }
    if (shape.n_heads % shape.n_kv_heads != 0)
        return root.complaint("num_attention_heads is no multiple of num_key_value_heads");
    return read_full_heads(root, shape);
}

// So that every count of weights fits 64 bits.
base::Status check_sizes(const JsonPlace& root, const ModelShape& shape) {
    const double widths = static_cast<double>(std::max(shape.n_experts, 1)) * shape.ffn +
                          static_cast<double>(shape.dense_ffn) + shape.shared_ffn +
                          static_cast<double>(shape.shared_kv_ffn) + shape.layer_input +
                          static_cast<double>(shape.n_heads) * largest_head_dim(shape);
    if (shape.hidden > 1'000'000 || shape.ffn > kMostWide || shape.n_heads > 100'000 ||
        shape.head_dim > 100'000 || 4.0 * shape.n_layers * shape.hidden * widths > 1e18 ||
        4.0 * shape.n_layers * shape.layer_input * shape.vocab > 1e18) {
        return root.complaint("the sizes are beyond any model's");
    }
    return base::Ok{};
}

}  // namespace

base::Result<ModelShape> parse_model_config(std::string_view text, const std::string& file) {
    TRY(const nlohmann::json document, parse_json(text, file));
    const JsonPlace outer(document, file);
    TRY_VOID(outer.expect_object());
    // Of a model that sees images, too, the text model alone is served.
    const bool has_others = outer.has("text_config") && outer.has("model_type") &&
                            (outer.child("model_type").value() == "gemma4" ||
                             outer.child("model_type").value() == "llama4");
    const JsonPlace root = has_others ? outer.child("text_config") : outer;
    TRY_VOID(root.expect_object());
    ModelShape shape;
    TRY_VOID(read_family(root, shape));
    TRY(shape.name, root.text_or("_name_or_path", ""));
    shape.name.erase(0, shape.name.rfind('/') + 1);  // the owner
    if (shape.name.empty()) shape.name = name_of_file(file);
    TRY_VOID(read_heads(root, shape));
    const bool narrow = shape.n_experts > 0 && root.has("moe_intermediate_size");
    TRY(shape.ffn, root.count(narrow ? "moe_intermediate_size" : "intermediate_size", kMostCount));
    TRY_VOID(read_layer_inputs(root, shape));
    TRY(shape.vocab, root.count("vocab_size", kMostCount));
    TRY(shape.context_length, root.count_or("max_position_embeddings", kMostCount, 2048));
    TRY(shape.tied_embeddings, root.flag_or("tie_word_embeddings", shape.tied_embeddings));
    TRY_VOID(check_sizes(root, shape));
    return shape;
}

base::Result<ModelShape> read_model_config_file(const std::string& path) {
    TRY(const std::string text, read_text_file(path));
    return parse_model_config(text, path);
}

}  // namespace helix::spec

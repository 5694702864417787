#include "model/arch/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/arch/rank_head.h"
#include "model/limits.h"
#include "model/model_config.h"

namespace helix::model {
namespace {

constexpr std::int64_t kMaxDecoderCount = std::numeric_limits<std::int32_t>::max();

// An array of numbers at key, one a layer; null: there is no array.
base::Result<const std::vector<std::int64_t>*> find_numbers(const GgufFile& file,
                                                            const std::string& key,
                                                            std::int32_t n_layers) {
    const MetaValue* value = file.find(key);
    const auto* array = value == nullptr ? nullptr : std::get_if<MetaArray>(value);
    if (array == nullptr) return static_cast<const std::vector<std::int64_t>*>(nullptr);
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(array);
    if (numbers == nullptr || std::ssize(*numbers) != n_layers) {
        return wrong_metadata(
            file, key, fmt::format("expected an array of {} numbers, one a layer", n_layers));
    }
    return numbers;
}

// The width of a feed-forward, which some converters write once for each layer; the largest where
// layers may differ, and then each layer's.
base::Result<std::int32_t> read_width(const GgufFile& file, const DecoderTraits& traits,
                                      ModelConfig& config) {
    const std::string key = metadata_key(traits, "feed_forward_length");
    TRY(const auto* widths, find_numbers(file, key, config.n_layers));
    if (widths == nullptr) return expect_int(file, key, 1, limits::kMaxFeedForward);
    const std::int64_t first = widths->front();
    bool differ = false;
    for (const std::int64_t width : *widths) {
        const bool fits = width >= 1 && width <= limits::kMaxFeedForward;
        if (fits && (width == first || traits.layer_inputs)) {
            differ = differ || width != first;
            continue;
        }
        return wrong_metadata(
            file, key,
            fmt::format("{} and {}, expected {} from 1 to {}", first, width,
                        traits.layer_inputs ? "widths" : "one width for all layers",
                        limits::kMaxFeedForward));
    }
    if (differ) config.dense_widths.assign(widths->begin(), widths->end());
    return static_cast<std::int32_t>(*std::max_element(widths->begin(), widths->end()));
}

base::Status check_kv_heads(const GgufFile& file, const std::string& key,
                            const ModelConfig& config) {
    for (const std::int32_t kv_heads : {config.n_kv_heads, config.windowed_kv_heads}) {
        if (kv_heads == 0 || config.n_heads % kv_heads == 0) continue;
        return wrong_metadata(
            file, key,
            fmt::format("{}, expected a divisor of the {} heads", kv_heads, config.n_heads));
    }
    const std::int32_t fewer = config.windowed_kv_heads == 0
                                   ? config.n_kv_heads
                                   : std::min(config.n_kv_heads, config.windowed_kv_heads);
    if (config.page_kv_heads() % fewer == 0) return base::Ok{};
    return wrong_metadata(file, key,
                          fmt::format("{} and {}, expected one to be a multiple of the other",
                                      config.n_kv_heads, config.windowed_kv_heads));
}

// The number of KV heads. Where it may be an array: of the layers with the window, and of the
// others.
base::Status read_kv_heads(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const std::string key = metadata_key(traits, "attention.head_count_kv");
    const std::vector<std::int64_t>* counts = nullptr;
    if (traits.windowed_heads) {
        TRY(counts, find_numbers(file, key, config.n_layers));
    }
    if (counts == nullptr) {
        TRY(config.n_kv_heads, optional_int(file, key, 1, limits::kMaxHeads, config.n_heads));
        if (traits.windowed_heads) config.windowed_kv_heads = config.n_kv_heads;
        return check_kv_heads(file, key, config);
    }
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        const std::int64_t count = (*counts)[static_cast<std::size_t>(layer)];
        std::int32_t& of_kind =
            config.window_of(layer) > 0 ? config.windowed_kv_heads : config.n_kv_heads;
        if (count < 1 || count > limits::kMaxHeads || (of_kind != 0 && of_kind != count)) {
            return wrong_metadata(
                file, key,
                fmt::format("{} in layer {}, expected 1 to {}, and one number for all layers with "
                            "the window and one for all others",
                            count, layer, limits::kMaxHeads));
        }
        of_kind = static_cast<std::int32_t>(count);
    }
    if (config.n_kv_heads == 0) config.n_kv_heads = config.windowed_kv_heads;
    if (config.windowed_kv_heads == 0) config.windowed_kv_heads = config.n_kv_heads;
    return check_kv_heads(file, key, config);
}

// The sizes of heads where layers with the window have their own. Those of the others must be set.
base::Status read_windowed_heads(const GgufFile& file, const DecoderTraits& traits,
                                 ModelConfig& config) {
    if (!traits.windowed_heads) return base::Ok{};
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    TRY(config.windowed_head_dim, optional_int(file, key("attention.key_length_swa"), 1,
                                               limits::kMaxHeadDim, config.head_dim));
    TRY(const std::int32_t value_dim, optional_int(file, key("attention.value_length_swa"), 1,
                                                   limits::kMaxHeadDim, config.windowed_head_dim));
    if (value_dim != config.windowed_head_dim) {
        return wrong_metadata(
            file, key("attention.value_length_swa"),
            fmt::format("{}, expected the key length {}", value_dim, config.windowed_head_dim));
    }
    for (std::int32_t layer = 0; traits.values_may_be_keys && layer < config.n_layers; ++layer) {
        const std::string values = fmt::format("blk.{}.attn_v.weight", layer);
        if (config.window_of(layer) == 0 && !config.shares_kv(layer) &&
            file.find_tensor(values) == nullptr)
            config.keys_are_values = true;
    }
    return base::Ok{};
}

// Inputs of layers, and layers without keys and values. The window must be set.
base::Status read_layer_inputs(const GgufFile& file, const DecoderTraits& traits,
                               ModelConfig& config) {
    if (!traits.layer_inputs) return base::Ok{};
    TRY(config.layer_input,
        optional_int(file, metadata_key(traits, "embedding_length_per_layer_input"), 0,
                     limits::kMaxHidden, 0));
    const std::string key = metadata_key(traits, "attention.shared_kv_layers");
    TRY(config.n_shared_kv_layers, optional_int(file, key, 0, config.n_layers - 1, 0));
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        if (config.kv_layer(layer) >= 0) continue;
        return wrong_metadata(
            file, key,
            fmt::format("{}, but layer {} is {} the window, and no layer with keys and values is",
                        config.n_shared_kv_layers, layer,
                        config.window_of(layer) > 0 ? "with" : "without"));
    }
    return base::Ok{};
}

// The number of experts must be set.
base::Result<QkNorm> read_qk_norm(const GgufFile& file, const DecoderTraits& traits,
                                  const ModelConfig& config) {
    if (traits.qk_norm != QkNorm::unweighted) {
        const bool unnormed =
            traits.qk_norm_optional && file.find_tensor("blk.0.attn_q_norm.weight") == nullptr;
        return unnormed ? QkNorm::none : traits.qk_norm;
    }
    bool normed = config.n_experts != traits.experts_without_qk_norm;
    const std::string key = metadata_key(traits, kUnweightedQkNorm);
    if (file.find(key) != nullptr) {
        TRY(normed, file.get_bool(key));
    }
    return normed ? traits.qk_norm : QkNorm::none;
}

base::Status read_heads(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    const std::string heads_key = key("attention.head_count");
    TRY(config.n_heads, expect_int(file, heads_key, 1, limits::kMaxHeads));
    TRY_VOID(read_kv_heads(file, traits, config));
    const std::string head_dim_key = key("attention.key_length");
    if (file.find(head_dim_key) == nullptr && config.hidden % config.n_heads != 0) {
        return wrong_metadata(file, heads_key,
                              fmt::format("{}, expected a divisor of {} {}", config.n_heads,
                                          key("embedding_length"), config.hidden));
    }
    TRY(config.head_dim,
        optional_int(file, head_dim_key, 1, limits::kMaxHeadDim, config.hidden / config.n_heads));
    TRY(const std::int32_t value_dim,
        optional_int(file, key("attention.value_length"), 1, limits::kMaxHeadDim, config.head_dim));
    if (value_dim != config.head_dim) {
        return wrong_metadata(
            file, key("attention.value_length"),
            fmt::format("{}, expected the key length {}", value_dim, config.head_dim));
    }
    TRY_VOID(read_windowed_heads(file, traits, config));
    const std::int64_t width = std::int64_t{config.n_heads} * config.largest_head_dim();
    if (width > limits::kMaxHeadsWidth) {
        return wrong_metadata(
            file, heads_key,
            fmt::format("{} heads of {} dimensions have {}, the limit is {}", config.n_heads,
                        config.largest_head_dim(), width, limits::kMaxHeadsWidth));
    }
    config.value_norm = traits.value_norm;
    config.layer_scales =
        traits.layer_scales && file.find_tensor("blk.0.layer_output_scale.weight") != nullptr;
    config.norm = traits.norm;
    config.norm_bias = traits.norm_bias;
    const char* epsilon = traits.norm == NormKind::layer ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon";
    TRY(config.norm_epsilon, optional_positive(file, key(epsilon), config.norm_epsilon));
    TRY(config.qk_norm, read_qk_norm(file, traits, config));
    config.output_bias = traits.output_bias;
    config.attention_sinks = traits.attention_sinks;
    config.feed_forward_norm = traits.feed_forward_norm;
    config.fused_qkv = traits.fused_qkv;
    config.fused_gate_up = traits.fused_gate_up;
    config.input_norms = traits.input_norms;
    config.output_norms = traits.output_norms;
    config.qkv_bias =
        traits.qkv_bias == Presence::always ||
        (traits.qkv_bias == Presence::optional && file.find_tensor("blk.0.attn_q.bias") != nullptr);
    return base::Ok{};
}

base::Status read_scales(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto number = [&](const char* rest, float otherwise) {
        return optional_positive(file, metadata_key(traits, rest), otherwise);
    };
    config.encoder = traits.encoder;
    config.sum_norms = traits.encoder && !traits.input_norms;
    config.embedding_norm = traits.encoder && !traits.norms_as_decoder;
    config.feed_forward_bias = traits.feed_forward_bias;
    config.down_bias = traits.down_bias;
    config.alibi = traits.alibi;
    config.task_adapters = traits.task_adapters;
    config.parallel_blocks = traits.parallel_blocks;
    config.activation = traits.activation;
    config.attention_scale = traits.attention_scale;
    if (traits.root_embedding_scale)
        config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
    if (traits.layers_scaled_by_hidden == config.n_layers) {
        const float dims = static_cast<float>(config.hidden) / static_cast<float>(config.n_heads);
        config.attention_scale = 1.0F / std::sqrt(dims);
    }
    if (traits.scales) {
        TRY(config.embedding_scale, number("embedding_scale", 1.0F));
        TRY(config.residual_scale, number("residual_scale", 1.0F));
    }
    if (traits.scales || traits.layers_scaled_by_hidden > 0) {
        TRY(config.attention_scale, number("attention.scale", config.attention_scale));
    }
    using enum DecoderTraits::LogitScale;
    if (traits.logit_scale != none) {
        TRY(const float scale, number("logit_scale", 1.0F));
        config.logit_scale = traits.logit_scale == divides ? 1.0F / scale : scale;
    }
    if (traits.temperature_length > 0) {
        TRY(config.temperature_length,
            optional_int(file, metadata_key(traits, "attention.temperature_length"), 1,
                         kMaxDecoderCount, traits.temperature_length));
        TRY(config.temperature_scale,
            number("attention.temperature_scale", traits.temperature_scale));
    }
    if (traits.attention_softcap >= 0) {
        TRY(config.attention_softcap, number("attn_logit_softcapping", traits.attention_softcap));
    }
    if (traits.logit_softcap >= 0) {
        TRY(config.logit_softcap, number("final_logit_softcapping", traits.logit_softcap));
    }
    return base::Ok{};
}

// The positions of a window; of a chunk, which files do not tell unless they have other ones than
// the family.
base::Status read_window_size(const GgufFile& file, const DecoderTraits& traits,
                              ModelConfig& config) {
    const std::string key = metadata_key(traits, "attention.sliding_window");
    if (traits.chunk_positions == 0) {
        TRY(config.sliding_window, optional_int(file, key, 0, kMaxDecoderCount, 0));
        return base::Ok{};
    }
    config.chunked_attention = true;
    TRY(config.sliding_window, optional_int(file, metadata_key(traits, kAttentionChunkSize), 1,
                                            kMaxDecoderCount, traits.chunk_positions));
    TRY(const std::int32_t window,
        optional_int(file, key, 0, kMaxDecoderCount, config.sliding_window));
    if (window == config.sliding_window) return base::Ok{};
    return wrong_metadata(
        file, key,
        fmt::format("{}, expected the {} positions of a chunk", window, config.sliding_window));
}

// The window, and per layer whether it has one. Some converters write the period in the place of
// the pattern.
base::Status read_window(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    TRY_VOID(read_window_size(file, traits, config));
    if (config.sliding_window == 0) return base::Ok{};
    const std::string key = metadata_key(traits, "attention.sliding_window_pattern");
    const MetaValue* value = file.find(key);
    if (value != nullptr && std::holds_alternative<MetaArray>(*value)) {
        TRY(const std::vector<bool> windowed,
            read_layer_pattern(file, key, config.n_layers, 0, false));
        for (const bool is_windowed : windowed) config.full_attention.push_back(!is_windowed);
        return base::Ok{};
    }
    TRY(const std::int32_t period,
        optional_int(file, key, 1, limits::kMaxLayers, traits.full_attention_period));
    for (std::int32_t layer = 0; period > 0 && layer < config.n_layers; ++layer)
        config.full_attention.push_back((layer + (traits.full_attention_first ? 0 : 1)) % period ==
                                        0);
    return base::Ok{};
}

// Rows that are weighted before the experts read them have the sigmoids of their scores for
// weights.
base::Status check_weighted_inputs(const GgufFile& file, const DecoderTraits& traits,
                                   ModelConfig& config) {
    if (config.gating != Gating::sigmoid) {
        return wrong_metadata(file, metadata_key(traits, "expert_gating_func"),
                              "supported in this architecture is 2 (sigmoid)");
    }
    const std::string norm_key = metadata_key(traits, "expert_weights_norm");
    if (file.find(norm_key) != nullptr && config.normalise_expert_weights) {
        return wrong_metadata(file, norm_key, "true, supported in this architecture is false");
    }
    config.normalise_expert_weights = false;
    return base::Ok{};
}

// Of some experts a row may choose only among those of a few groups. The rest of the routing must
// be read.
base::Status read_expert_groups(const GgufFile& file, const DecoderTraits& traits,
                                ModelConfig& config) {
    const std::string key = metadata_key(traits, "expert_group_count");
    TRY(const std::int32_t groups, optional_int(file, key, 0, limits::kMaxExpertGroups, 0));
    if (groups <= 1) return base::Ok{};
    const auto wrong = [&](std::string_view text) {
        return wrong_metadata(file, key, fmt::format("{}, {}", groups, text));
    };
    if (!traits.expert_groups)
        return wrong("groups of experts are not supported in this architecture");
    if (!config.selection_bias) {
        return wrong(
            "groups of experts are supported with expert_gating_func 2 (sigmoid) and a tensor "
            "exp_probs_b.bias alone");
    }
    TRY(const std::int32_t used,
        expect_int(file, metadata_key(traits, "expert_group_used_count"), 1, groups));
    const std::string problem =
        problem_with_expert_groups(config.n_experts, config.n_experts_used, groups, used);
    if (!problem.empty()) return wrong(problem);
    config.n_expert_groups = groups;
    config.n_expert_groups_used = used;
    return base::Ok{};
}

// How rows choose their experts and weigh them. The number of layers and experts must be set.
base::Status read_routing(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    const std::string norm_key = key("expert_weights_norm");
    config.normalise_expert_weights = traits.normalises_expert_weights;
    if (file.find(norm_key) != nullptr) {
        TRY(config.normalise_expert_weights, file.get_bool(norm_key));
    }
    TRY(config.expert_weight_scale, optional_positive(file, key("expert_weights_scale"), 1.0F));
    config.gating = traits.gating;
    config.expert_biases = traits.expert_biases;
    config.weighted_expert_inputs = traits.weighted_expert_inputs;
    const std::string gating_key = key("expert_gating_func");
    if (file.find(gating_key) != nullptr) {
        TRY(const std::int64_t function, file.get_int(gating_key));
        if (function < 1 || function > 3) {
            return wrong_metadata(file, gating_key,
                                  fmt::format("{}, supported are 1 (softmax), 2 (sigmoid) and 3 "
                                              "(softmax over the chosen experts)",
                                              function));
        }
        config.gating = function == 2 ? Gating::sigmoid : Gating::softmax;
        // Over the chosen experts alone it is what normalised weights are.
        if (function == 3) config.normalise_expert_weights = true;
    }
    if (config.weighted_expert_inputs) TRY_VOID(check_weighted_inputs(file, traits, config));
    const std::int32_t first = config.first_layer_with_experts();
    const std::string fused = fmt::format("blk.{}.ffn_gate_up_exps.weight", first);
    config.fused_experts = traits.dense_beside_experts && file.find_tensor(fused) != nullptr;
    const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", first);
    config.selection_bias = config.gating == Gating::sigmoid && file.find_tensor(bias) != nullptr;
    return read_expert_groups(file, traits, config);
}

// Layers without experts, and the expert that every row visits.
base::Status read_dense_parts(const GgufFile& file, const DecoderTraits& traits,
                              ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    TRY(config.n_dense_layers,
        optional_int(file, key("leading_dense_block_count"), 0, config.n_layers - 1, 0));
    config.dense_beside_experts = traits.dense_beside_experts;
    if (traits.expert_period) {
        TRY(config.expert_period,
            optional_int(file, key("interleave_moe_layer_step"), 1, config.n_layers, 1));
        if (config.n_dense_layers > 0) {
            return wrong_metadata(
                file, key("leading_dense_block_count"),
                fmt::format("{}, supported in this architecture is 0", config.n_dense_layers));
        }
    }
    if (traits.alternate_experts) {
        TRY(config.expert_period, expect_int(file, key("moe_every_n_layers"), 2, 2));
    }
    if (config.n_dense_layers > 0 || config.expert_period > 1 || config.dense_beside_experts) {
        TRY(config.dense_ffn, read_width(file, traits, config));
    }
    const std::string width_key = key("expert_shared_feed_forward_length");
    config.shared_gate = traits.shared_gate;
    if (config.shared_gate) {
        TRY(config.shared_ffn, expect_int(file, width_key, 1, limits::kMaxFeedForward));
        return base::Ok{};
    }
    TRY(const std::int32_t shared, optional_int(file, key("expert_shared_count"), 0,
                                                limits::kMaxExperts, traits.shared_expert ? 1 : 0));
    const std::int64_t width = std::int64_t{shared} * config.ffn;
    if (file.find(width_key) == nullptr && width > limits::kMaxFeedForward) {
        return wrong_metadata(file, key("expert_shared_count"),
                              fmt::format("{} of width {}, the limit is {} together", shared,
                                          config.ffn, limits::kMaxFeedForward));
    }
    TRY(config.shared_ffn, optional_int(file, width_key, 0, limits::kMaxFeedForward,
                                        static_cast<std::int32_t>(width)));
    return base::Ok{};
}

base::Status read_experts(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    if (traits.experts == Presence::always) {
        TRY(config.n_experts, expect_int(file, key("expert_count"), 1, limits::kMaxExperts));
    } else {
        TRY(config.n_experts, optional_int(file, key("expert_count"), 0, limits::kMaxExperts, 0));
    }
    if (config.n_experts == 0) {
        TRY(config.ffn, read_width(file, traits, config));
        return base::Ok{};
    }
    if (traits.experts == Presence::never) {
        return wrong_metadata(
            file, key("expert_count"),
            fmt::format("{}, a {} model has no experts", config.n_experts, traits.name));
    }
    TRY(config.n_experts_used,
        expect_int(file, key("expert_used_count"), 1, std::int64_t{config.n_experts}));
    TRY(config.ffn, expect_int(file, metadata_key(traits, traits.expert_width_key), 1,
                               limits::kMaxFeedForward));
    TRY_VOID(read_dense_parts(file, traits, config));
    return read_routing(file, traits, config);
}

base::Status read_pooling(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto default_type = static_cast<std::int32_t>(config.pooling);
    TRY(const std::int32_t type, optional_int(file, metadata_key(traits, "pooling_type"), 0,
                                              kMaxDecoderCount, default_type));
    // 4 is that of models which rank documents: their head makes a score, not an embedding.
    const bool known = type < static_cast<std::int32_t>(spec::Pooling::rank);
    config.pooling = known ? static_cast<spec::Pooling>(type) : spec::Pooling::none;
    return base::Ok{};
}

// Where positions are a table's, or distances count, no layer turns anything.
base::Status leave_out_rope(ModelConfig& config) {
    config.rope_dim = config.head_dim / 2 * 2;
    config.rope_layers.assign(static_cast<std::size_t>(config.n_layers), false);
    return base::Ok{};
}

using LayerTensors = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

void add_attention_tensors(const ModelConfig& config, std::int32_t layer, LayerTensors& tensors) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t head_dim = config.head_dim_of(layer);
    const std::int64_t q = config.n_heads * head_dim;
    const std::int64_t kv = config.kv_heads_of(layer) * head_dim;
    if (config.fused_qkv) {
        tensors["attn_qkv.weight"] = {hidden, q + 2 * kv};
    } else {
        tensors["attn_q.weight"] = {hidden, q};
        if (!config.shares_kv(layer)) tensors["attn_k.weight"] = {hidden, kv};
        if (!config.shares_kv(layer) && config.has_values(layer))
            tensors["attn_v.weight"] = {hidden, kv};
    }
    tensors["attn_output.weight"] = {q, hidden};
    if (config.qkv_bias && config.fused_qkv) {
        tensors["attn_qkv.bias"] = {q + 2 * kv};
    } else if (config.qkv_bias) {
        tensors["attn_q.bias"] = {q};
        tensors["attn_k.bias"] = {kv};
        tensors["attn_v.bias"] = {kv};
    }
    if (config.output_bias) tensors["attn_output.bias"] = {config.hidden};
    if (config.attention_sinks) tensors["attn_sinks.weight"] = {config.n_heads};
    if (config.has_qk_weights()) {
        const bool whole =
            config.qk_norm == QkNorm::projection || config.qk_norm == QkNorm::centred_projection;
        tensors["attn_q_norm.weight"] = {whole ? q : head_dim};
        if (!config.shares_kv(layer)) tensors["attn_k_norm.weight"] = {whole ? kv : head_dim};
    }
    if (config.qk_norm == QkNorm::centred) {
        tensors["attn_q_norm.weight"] = {head_dim, config.n_heads};
        tensors["attn_k_norm.weight"] = {head_dim, config.kv_heads_of(layer)};
    }
    if (config.qk_norm == QkNorm::centred_projection) {
        tensors["attn_q_norm.bias"] = {q};
        tensors["attn_k_norm.bias"] = {kv};
    }
    if (config.layer_scales) tensors["layer_output_scale.weight"] = {1};
    if (config.layer_input == 0) return;
    tensors["inp_gate.weight"] = {hidden, config.layer_input};
    tensors["proj.weight"] = {config.layer_input, hidden};
    tensors["post_norm.weight"] = {hidden};
}

// What files may have of a layer although nobody reads it: a table, and the keys and values of one
// that has another's.
bool is_unread(const ModelConfig& config, std::int32_t layer, std::string_view rest) {
    if (rest == "attn_rot_embd.weight") return true;
    return config.shares_kv(layer) &&
           (rest == "attn_k.weight" || rest == "attn_v.weight" || rest == "attn_k_norm.weight");
}

bool is_layer_input(const ModelConfig& config, std::string_view name) {
    return config.layer_input > 0 &&
           (name == kLayerInputTable || name == kLayerInputProjection || name == kLayerInputNorm);
}

void add_expert_tensors(const ModelConfig& config, LayerTensors& tensors) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t shared = config.shared_ffn;
    tensors["ffn_gate_inp.weight"] = {hidden, config.n_experts};
    if (config.fused_experts) {
        tensors["ffn_gate_up_exps.weight"] = {hidden, 2 * ffn, config.n_experts};
    } else {
        if (config.has_gate()) tensors["ffn_gate_exps.weight"] = {hidden, ffn, config.n_experts};
        tensors["ffn_up_exps.weight"] = {hidden, ffn, config.n_experts};
    }
    if (config.dense_beside_experts) {
        tensors["ffn_gate_inp.scale"] = {hidden};
        tensors["ffn_down_exps.scale"] = {config.n_experts};
        for (const char* norm : {"post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"})
            tensors[fmt::format("{}.weight", norm)] = {hidden};
    }
    tensors["ffn_down_exps.weight"] = {ffn, hidden, config.n_experts};
    if (config.selection_bias) tensors["exp_probs_b.bias"] = {config.n_experts};
    if (config.expert_biases) {
        tensors["ffn_gate_inp.bias"] = {config.n_experts};
        tensors["ffn_gate_exps.bias"] = {ffn, config.n_experts};
        tensors["ffn_up_exps.bias"] = {ffn, config.n_experts};
        tensors["ffn_down_exps.bias"] = {hidden, config.n_experts};
    }
    if (shared == 0) return;
    tensors["ffn_gate_shexp.weight"] = {hidden, shared};
    tensors["ffn_up_shexp.weight"] = {hidden, shared};
    tensors["ffn_down_shexp.weight"] = {shared, hidden};
    if (config.shared_gate) tensors[kSharedGate] = {hidden};
}

// The tensors of a layer, by what follows "blk.N.".
LayerTensors layer_tensors(const ModelConfig& config, std::int32_t layer) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.dense_width(layer);
    LayerTensors tensors;
    add_attention_tensors(config, layer, tensors);
    if (config.has_attention_norm(layer)) tensors["attn_norm.weight"] = {hidden};
    if (config.input_norms && !config.parallel_blocks) tensors[config.feed_forward_norm] = {hidden};
    if (config.norm_bias) tensors["attn_norm.bias"] = tensors["ffn_norm.bias"] = {hidden};
    if (config.output_norms) {
        tensors["post_attention_norm.weight"] = {hidden};
        tensors["post_ffw_norm.weight"] = {hidden};
    }
    if (config.sum_norms) {
        for (const char* norm : {"attn_output_norm", "layer_output_norm"})
            tensors[fmt::format("{}.weight", norm)] =
                tensors[fmt::format("{}.bias", norm)] = {hidden};
    }
    if (config.normed_twice) tensors["attn_norm_2.weight"] = tensors["attn_norm_2.bias"] = {hidden};
    if (config.feed_forward_bias && !config.has_experts(layer)) {
        tensors["ffn_up.bias"] = {ffn};
        tensors["ffn_down.bias"] = {hidden};
    }
    if (config.down_bias) tensors["ffn_down.bias"] = {hidden};
    if (config.has_experts(layer)) {
        add_expert_tensors(config, tensors);
        if (!config.dense_beside_experts) return tensors;
    }
    if (!config.fused_gate_up && config.has_gate()) tensors["ffn_gate.weight"] = {hidden, ffn};
    tensors["ffn_up.weight"] = {hidden, config.fused_gate_up ? 2 * ffn : ffn};
    tensors["ffn_down.weight"] = {ffn, hidden};
    return tensors;
}

bool is_rope_factors(const DecoderTraits& traits, std::string_view name) {
    if (traits.longrope) return name == kShortRopeFactors || name == kLongRopeFactors;
    return name == kRopeFactors;
}

// "a.weight" for "a.scale" and "a.input_scale", "" for other names.
std::string matrix_of_factor(std::string_view name) {
    for (const std::string_view ending : {".scale", ".input_scale"}) {
        if (name.ends_with(ending))
            return std::string(name.substr(0, name.size() - ending.size())) + ".weight";
    }
    return "";
}

// Whether it is an NVFP4 matrix' factor, or says how its activations may be rounded to four bits,
// which nobody needs. Its shape is checked: one for each matrix.
base::Result<bool> is_factor(const GgufFile& file, const TensorInfo& tensor) {
    const std::string matrix_name = matrix_of_factor(tensor.name);
    const TensorInfo* matrix = file.find_tensor(matrix_name);
    if (matrix == nullptr || factor_tensor(matrix->type, matrix_name).empty() ||
        matrix_name == "token_embd.weight" || matrix_name == kLayerInputTable)
        return false;
    const std::int64_t count = matrix->shape.size() > 2 ? matrix->shape[2] : 1;
    TRY_VOID(expect_tensor(file, tensor.name, {count}));
    return true;
}

// A tensor that would be left unused (a bias, an expert) changes what the model computes.
base::Status refuse_other_tensors(const GgufFile& file, const ModelConfig& config,
                                  const DecoderTraits& traits,
                                  const std::vector<LayerTensors>& known) {
    const std::int32_t end = config.n_layers + config.n_skipped_layers;
    for (const TensorInfo& tensor : file.tensors()) {
        const std::string_view name = tensor.name;
        const bool of_head = name == "output_norm.weight" || name == "output.weight" ||
                             name == kClassifierHead || is_rope_factors(traits, name);
        if (name == "token_embd.weight" || (of_head && !config.encoder) ||
            is_layer_input(config, name) || (config.norm_bias && name == "output_norm.bias") ||
            is_encoder_tensor(config, name)) {
            continue;
        }
        const std::int32_t layer = layer_of_tensor(name);
        if (layer >= config.n_layers && layer < end) continue;
        TRY(const bool known_factor, is_factor(file, tensor));
        const std::string_view rest =
            layer < 0 ? std::string_view() : name.substr(name.find('.', 4) + 1);
        const bool is_known = layer >= 0 && layer < config.n_layers &&
                              (known[static_cast<std::size_t>(layer)].contains(rest) ||
                               is_unread(config, layer, rest));
        if (known_factor && is_known) {
            return base::invalid(fmt::format(
                "{}: tensor {}: may be a factor of NVFP4 weights and one of {}; not supported",
                file.label(), name, traits.name));
        }
        if (!is_known && !known_factor) {
            return base::invalid(fmt::format("{}: tensor {}: not part of a {} model of {} layers{}",
                                             file.label(), name, traits.name, config.n_layers,
                                             config.n_experts > 0 ? " with experts" : ""));
        }
    }
    return base::Ok{};
}

base::Status check_head(const GgufFile& file, std::int64_t vocab, ModelConfig& config) {
    TRY_VOID(expect_tensor(file, "output_norm.weight", {config.hidden}));
    if (config.norm_bias) TRY_VOID(expect_tensor(file, "output_norm.bias", {config.hidden}));
    config.tied_embeddings = file.find_tensor("output.weight") == nullptr;
    if (!config.tied_embeddings) {
        TRY_VOID(expect_tensor(file, "output.weight", {config.hidden, vocab}));
    }
    return base::Ok{};
}

base::Status check_layer_inputs(const GgufFile& file, const ModelConfig& config) {
    if (config.layer_input == 0) return base::Ok{};
    const std::int64_t all = std::int64_t{config.layer_input} * config.n_layers;
    TRY(const TensorInfo* table, expect_tensor(file, kLayerInputTable, {all, config.vocab}));
    TRY_VOID(expect_tensor(file, kLayerInputProjection, {config.hidden, all}));
    TRY_VOID(expect_tensor(file, kLayerInputNorm, {config.layer_input}));
    const TensorTypeInfo& type = *tensor_type_info(table->type);
    if (config.layer_input % type.block_size == 0) return base::Ok{};
    return base::invalid(fmt::format(
        "{}: tensor {}: a layer has {} numbers of a token, {} needs a multiple of {}", file.label(),
        kLayerInputTable, config.layer_input, type.name, type.block_size));
}

base::Status check_layer(const GgufFile& file, std::int32_t layer, const LayerTensors& tensors) {
    for (const auto& [rest, shape] : tensors) {
        const std::string name = fmt::format("blk.{}.{}", layer, rest);
        const TensorInfo* tensor = file.find_tensor(name);
        std::vector<std::int64_t> expected = shape;
        if (rest == kSharedGate && tensor != nullptr && tensor->shape.size() == 2)
            expected.push_back(1);
        TRY_VOID(expect_tensor(file, name, expected));
    }
    return base::Ok{};
}

base::Status check_tensors(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const TensorInfo* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr) {
        return base::invalid(file.label() + ": tensor token_embd.weight: missing");
    }
    if (embedding->shape.size() != 2 || embedding->shape[1] > limits::kMaxVocabulary) {
        return base::invalid(fmt::format(
            "{}: tensor token_embd.weight: expected two dimensions, the hidden size and a "
            "vocabulary of at most {}",
            file.label(), limits::kMaxVocabulary));
    }
    const std::int64_t vocab = embedding->shape[1];
    config.vocab = static_cast<std::int32_t>(vocab);
    TRY_VOID(expect_tensor(file, "token_embd.weight", {config.hidden, vocab}));
    TRY_VOID(config.encoder ? read_encoder(file, traits, config) : check_head(file, vocab, config));
    TRY_VOID(check_layer_inputs(file, config));
    std::vector<LayerTensors> tensors;
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        tensors.push_back(layer_tensors(config, layer));
        TRY_VOID(check_layer(file, layer, tensors.back()));
    }
    if (!config.rope_factors_tensor.empty()) {
        TRY_VOID(expect_tensor(file, config.rope_factors_tensor, {config.rope_dim / 2}));
    } else if (traits.windowed_heads) {
        // Nothing else says that layers without the window turn a part of their heads.
        TRY_VOID(expect_tensor(file, kRopeFactors, {config.rope_dim / 2}));
    }
    return refuse_other_tensors(file, config, traits, tensors);
}

base::Status check_vocabulary(const GgufFile& file, const ModelConfig& config) {
    constexpr const char* kKey = "tokenizer.ggml.tokens";
    const MetaValue* tokens = file.find(kKey);
    if (tokens == nullptr) return base::Ok{};
    const auto* array = std::get_if<MetaArray>(tokens);
    const auto* strings = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
    if (strings == nullptr) return wrong_metadata(file, kKey, "expected an array of strings");
    if (strings->size() > static_cast<std::size_t>(config.vocab)) {  // fewer: padded embeddings
        return wrong_metadata(
            file, kKey,
            fmt::format("{} tokens, the embedding has {} rows", strings->size(), config.vocab));
    }
    return base::Ok{};
}

}  // namespace

std::string problem_with_expert_groups(std::int32_t n_experts, std::int32_t n_used,
                                       std::int32_t n_groups, std::int32_t n_groups_used) {
    const std::int32_t each = n_experts / n_groups;
    if (n_experts % n_groups != 0)
        return fmt::format("expected a number of groups that divides the {} experts", n_experts);
    if (each < 2) return "expected groups of at least two experts";
    if (n_used <= n_groups_used * each) return "";
    return fmt::format("{} of {} experts are used, but {} groups have {}", n_used, n_experts,
                       n_groups_used, n_groups_used * each);
}

std::string metadata_key(const DecoderTraits& traits, std::string_view rest) {
    return fmt::format("{}.{}", traits.name, rest);
}

base::Error wrong_metadata(const GgufFile& file, std::string_view key, const std::string& text) {
    return base::invalid(fmt::format("{}: metadata {}: {}", file.label(), key, text));
}

base::Result<std::vector<bool>> read_layer_pattern(const GgufFile& file, std::string_view key,
                                                   std::int32_t n_layers, std::int32_t period,
                                                   bool otherwise) {
    std::vector<bool> pattern;
    const MetaValue* value = file.find(key);
    if (value == nullptr) {
        for (std::int32_t layer = 0; period > 0 && layer < n_layers; ++layer)
            pattern.push_back((layer + 1) % period == 0 ? !otherwise : otherwise);
        return pattern;
    }
    const auto* array = std::get_if<MetaArray>(value);
    const auto* booleans = array == nullptr ? nullptr : std::get_if<std::vector<bool>>(array);
    if (booleans == nullptr || std::ssize(*booleans) != n_layers) {
        return wrong_metadata(
            file, key, fmt::format("expected an array of {} booleans, one a layer", n_layers));
    }
    return *booleans;
}

base::Result<ModelConfig> read_decoder(const GgufFile& file, const DecoderTraits& traits) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    ModelConfig config;
    TRY(const std::int32_t blocks, expect_int(file, key("block_count"), 1, limits::kMaxLayers));
    TRY(config.n_skipped_layers, optional_int(file, key("nextn_predict_layers"), 0, blocks - 1, 0));
    config.n_layers = blocks - config.n_skipped_layers;
    TRY(config.hidden, expect_int(file, key("embedding_length"), 1, limits::kMaxHidden));
    TRY(config.context_length, expect_int(file, key("context_length"), 1, limits::kMaxContext));
    TRY_VOID(read_experts(file, traits, config));
    TRY_VOID(read_window(file, traits, config));
    TRY_VOID(read_layer_inputs(file, traits, config));
    TRY_VOID(read_heads(file, traits, config));
    TRY_VOID(read_scales(file, traits, config));
    TRY_VOID(traits.position_table || traits.alibi ? leave_out_rope(config)
                                                   : read_rope(file, traits, config));
    TRY_VOID(read_pooling(file, traits, config));
    TRY_VOID(check_tensors(file, traits, config));
    TRY_VOID(check_vocabulary(file, config));
    if (!config.encoder) {
        TRY(config.rank_head, read_rank_head(file, traits, config));
    }
    return config;
}

}  // namespace helix::model

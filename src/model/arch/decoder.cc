#include "model/arch/decoder.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "model/arch/rank_head.h"
#include "model/limits.h"
#include "model/model_config.h"

namespace helix::model {
namespace {

constexpr std::int64_t kMaxDecoderCount = std::numeric_limits<std::int32_t>::max();

base::Status read_heads(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    const std::string heads_key = key("attention.head_count");
    const std::string kv_heads_key = key("attention.head_count_kv");
    TRY(config.n_heads, expect_int(file, heads_key, 1, limits::kMaxHeads));
    TRY(config.n_kv_heads, optional_int(file, kv_heads_key, 1, limits::kMaxHeads, config.n_heads));
    if (config.n_heads % config.n_kv_heads != 0) {
        return wrong_metadata(file, kv_heads_key,
                              fmt::format("{}, expected a divisor of the {} heads",
                                          config.n_kv_heads, config.n_heads));
    }
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
    const std::int64_t width = std::int64_t{config.n_heads} * config.head_dim;
    if (width > limits::kMaxHeadsWidth) {
        return wrong_metadata(
            file, heads_key,
            fmt::format("{} heads of {} dimensions have {}, the limit is {}", config.n_heads,
                        config.head_dim, width, limits::kMaxHeadsWidth));
    }
    config.norm = traits.norm;
    const char* epsilon = traits.norm == NormKind::layer ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon";
    TRY(config.norm_epsilon, optional_positive(file, key(epsilon), config.norm_epsilon));
    const bool unnormed =
        traits.qk_norm_optional && file.find_tensor("blk.0.attn_q_norm.weight") == nullptr;
    config.qk_norm = unnormed ? QkNorm::none : traits.qk_norm;
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
    config.parallel_blocks = traits.parallel_blocks;
    config.activation = traits.activation;
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
    if (traits.attention_softcap >= 0) {
        TRY(config.attention_softcap, number("attn_logit_softcapping", traits.attention_softcap));
    }
    if (traits.logit_softcap >= 0) {
        TRY(config.logit_softcap, number("final_logit_softcapping", traits.logit_softcap));
    }
    return base::Ok{};
}

// The window, and per layer whether it has one. Some converters write the period in the place of
// the pattern.
base::Status read_window(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    TRY(config.sliding_window, optional_int(file, metadata_key(traits, "attention.sliding_window"),
                                            0, kMaxDecoderCount, 0));
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
        config.full_attention.push_back((layer + 1) % period == 0);
    return base::Ok{};
}

// How rows choose their experts and weigh them. The number of layers and experts must be set.
base::Status read_routing(const GgufFile& file, const DecoderTraits& traits, ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    const std::string norm_key = key("expert_weights_norm");
    if (file.find(norm_key) != nullptr) {
        TRY(config.normalise_expert_weights, file.get_bool(norm_key));
    }
    TRY(config.expert_weight_scale, optional_positive(file, key("expert_weights_scale"), 1.0F));
    config.gating = traits.gating;
    config.expert_biases = traits.expert_biases;
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
    TRY(const std::int32_t groups,
        optional_int(file, key("expert_group_count"), 0, limits::kMaxExperts, 0));
    if (groups > 1) {
        return wrong_metadata(file, key("expert_group_count"),
                              fmt::format("{}, groups of experts are not supported", groups));
    }
    const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", config.n_dense_layers);
    config.selection_bias = config.gating == Gating::sigmoid && file.find_tensor(bias) != nullptr;
    return base::Ok{};
}

// Layers without experts, and the expert that every row visits.
base::Status read_dense_parts(const GgufFile& file, const DecoderTraits& traits,
                              ModelConfig& config) {
    const auto key = [&](const char* rest) { return metadata_key(traits, rest); };
    TRY(config.n_dense_layers,
        optional_int(file, key("leading_dense_block_count"), 0, config.n_layers - 1, 0));
    if (config.n_dense_layers > 0) {
        TRY(config.dense_ffn,
            expect_int(file, key("feed_forward_length"), 1, limits::kMaxFeedForward));
    }
    TRY(const std::int32_t shared,
        optional_int(file, key("expert_shared_count"), 0, limits::kMaxExperts, 0));
    const std::string width_key = key("expert_shared_feed_forward_length");
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
        TRY(config.ffn, expect_int(file, key("feed_forward_length"), 1, limits::kMaxFeedForward));
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

using LayerTensors = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

void add_attention_tensors(const ModelConfig& config, LayerTensors& tensors) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t q = std::int64_t{config.n_heads} * config.head_dim;
    const std::int64_t kv = std::int64_t{config.n_kv_heads} * config.head_dim;
    if (config.fused_qkv) {
        tensors["attn_qkv.weight"] = {hidden, q + 2 * kv};
    } else {
        tensors["attn_q.weight"] = {hidden, q};
        tensors["attn_k.weight"] = {hidden, kv};
        tensors["attn_v.weight"] = {hidden, kv};
    }
    tensors["attn_output.weight"] = {q, hidden};
    if (config.qkv_bias) {
        tensors["attn_q.bias"] = {q};
        tensors["attn_k.bias"] = {kv};
        tensors["attn_v.bias"] = {kv};
    }
    if (config.output_bias) tensors["attn_output.bias"] = {config.hidden};
    if (config.attention_sinks) tensors["attn_sinks.weight"] = {config.n_heads};
    if (config.qk_norm != QkNorm::none) {
        const bool whole = config.qk_norm == QkNorm::projection;
        tensors["attn_q_norm.weight"] = {whole ? q : config.head_dim};
        tensors["attn_k_norm.weight"] = {whole ? kv : config.head_dim};
    }
}

void add_expert_tensors(const ModelConfig& config, LayerTensors& tensors) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.ffn;
    const std::int64_t shared = config.shared_ffn;
    tensors["ffn_gate_inp.weight"] = {hidden, config.n_experts};
    tensors["ffn_gate_exps.weight"] = {hidden, ffn, config.n_experts};
    tensors["ffn_up_exps.weight"] = {hidden, ffn, config.n_experts};
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
}

// The tensors of a layer with experts or of one without, by what follows "blk.N.".
LayerTensors layer_tensors(const ModelConfig& config, bool experts) {
    const std::int64_t hidden = config.hidden;
    const std::int64_t ffn = config.dense_width();
    LayerTensors tensors;
    add_attention_tensors(config, tensors);
    if (config.input_norms) tensors["attn_norm.weight"] = {hidden};
    if (config.input_norms && !config.parallel_blocks) tensors[config.feed_forward_norm] = {hidden};
    if (config.output_norms) {
        tensors["post_attention_norm.weight"] = {hidden};
        tensors["post_ffw_norm.weight"] = {hidden};
    }
    if (experts) {
        add_expert_tensors(config, tensors);
        return tensors;
    }
    if (!config.fused_gate_up) tensors["ffn_gate.weight"] = {hidden, ffn};
    tensors["ffn_up.weight"] = {hidden, config.fused_gate_up ? 2 * ffn : ffn};
    tensors["ffn_down.weight"] = {ffn, hidden};
    return tensors;
}

bool is_rope_factors(const DecoderTraits& traits, std::string_view name) {
    if (traits.longrope) return name == kShortRopeFactors || name == kLongRopeFactors;
    return name == kRopeFactors;
}

// The tensors of layers by whether they have experts.
struct TensorsOfLayers {
    LayerTensors dense, experts;
    const LayerTensors& of(const ModelConfig& config, std::int32_t layer) const {
        return config.has_experts(layer) ? experts : dense;
    }
};

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
        matrix_name == "token_embd.weight")
        return false;
    const std::int64_t count = matrix->shape.size() > 2 ? matrix->shape[2] : 1;
    TRY_VOID(expect_tensor(file, tensor.name, {count}));
    return true;
}

// A tensor that would be left unused (a bias, an expert) changes what the model computes.
base::Status refuse_other_tensors(const GgufFile& file, const ModelConfig& config,
                                  const DecoderTraits& traits, const TensorsOfLayers& known) {
    const std::int32_t end = config.n_layers + config.n_skipped_layers;
    for (const TensorInfo& tensor : file.tensors()) {
        const std::string_view name = tensor.name;
        if (name == "token_embd.weight" || name == "output_norm.weight" ||
            name == "output.weight" || name == kClassifierHead || is_rope_factors(traits, name)) {
            continue;
        }
        const std::int32_t layer = layer_of_tensor(name);
        if (layer >= config.n_layers && layer < end) continue;
        TRY(const bool known_factor, is_factor(file, tensor));
        if (known_factor) continue;
        const std::string_view rest =
            layer < 0 ? std::string_view() : name.substr(name.find('.', 4) + 1);
        const bool is_known = layer >= 0 && layer < config.n_layers &&
                              (known.of(config, layer).contains(rest) ||
                               rest == "attn_rot_embd.weight");  // a table that nobody needs
        if (!is_known) {
            return base::invalid(fmt::format("{}: tensor {}: not part of a {} model of {} layers{}",
                                             file.label(), name, traits.name, config.n_layers,
                                             config.n_experts > 0 ? " with experts" : ""));
        }
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
    TRY_VOID(expect_tensor(file, "output_norm.weight", {config.hidden}));
    config.tied_embeddings = file.find_tensor("output.weight") == nullptr;
    if (!config.tied_embeddings) {
        TRY_VOID(expect_tensor(file, "output.weight", {config.hidden, vocab}));
    }
    const TensorsOfLayers tensors{layer_tensors(config, false), layer_tensors(config, true)};
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
        for (const auto& [name, shape] : tensors.of(config, layer)) {
            TRY_VOID(expect_tensor(file, fmt::format("blk.{}.{}", layer, name), shape));
        }
    }
    if (!config.rope_factors_tensor.empty()) {
        TRY_VOID(expect_tensor(file, config.rope_factors_tensor, {config.rope_dim / 2}));
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
    TRY_VOID(read_heads(file, traits, config));
    TRY_VOID(read_scales(file, traits, config));
    TRY_VOID(read_window(file, traits, config));
    TRY_VOID(read_rope(file, traits, config));
    TRY_VOID(read_pooling(file, traits, config));
    TRY_VOID(check_tensors(file, traits, config));
    TRY_VOID(check_vocabulary(file, config));
    TRY(config.rank_head, read_rank_head(file, traits, config));
    return config;
}

}  // namespace helix::model

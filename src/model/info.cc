#include "model/info.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/weight_source.h"

namespace helix::model {
namespace {

std::string scaled(double value, double unit, const auto& suffixes) {
    std::size_t step = 0;
    while (value >= unit && step + 1 < std::size(suffixes)) {
        value /= unit;
        ++step;
    }
    const int decimals = step == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
    return fmt::format("{:.{}f}{}", value, decimals, suffixes[step]);
}

std::string bytes_text(double bytes) {
    return scaled(bytes, 1024.0, std::array{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string string_or_empty(const GgufFile& file, std::string_view key) {
    auto value = file.get_string(key);
    return value.ok() ? std::move(*value) : std::string();
}

std::vector<TypeShare> type_shares(const GgufFile& file) {
    std::map<std::string, TypeShare> by_type;
    for (const TensorInfo& tensor : file.tensors()) {
        TypeShare& share = by_type[tensor_type_info(tensor.type)->name];
        ++share.tensors;
        share.elements += tensor.row_length() * tensor.rows();
        share.bytes += static_cast<std::int64_t>(tensor.bytes);
    }
    std::vector<TypeShare> shares;
    for (auto& [type, share] : by_type) {
        share.type = type;
        shares.push_back(share);
    }
    std::stable_sort(shares.begin(), shares.end(),
                     [](const TypeShare& a, const TypeShare& b) { return a.bytes > b.bytes; });
    return shares;
}

// The parameters of experts that a token does not use, and of layers that nobody loads.
std::int64_t idle_parameters(const GgufFile& file, const ModelConfig& config) {
    std::int64_t idle = 0;
    for (const TensorInfo& tensor : file.tensors()) {
        if (layer_of_tensor(tensor.name) >= config.n_layers) {
            idle += tensor.row_length() * tensor.rows();
            continue;
        }
        if (tensor.shape.size() != 3) continue;
        idle += tensor.row_length() * tensor.rows() / config.n_experts *
                (config.n_experts - config.n_experts_used);
    }
    return idle;
}

std::int64_t count_tokens(const GgufFile& file) {
    const MetaValue* value = file.find("tokenizer.ggml.tokens");
    const auto* array = value == nullptr ? nullptr : std::get_if<MetaArray>(value);
    const auto* tokens = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
    return tokens == nullptr ? 0 : static_cast<std::int64_t>(tokens->size());
}

std::int64_t total_bytes(const GgufFile& file) {
    std::uint64_t end = 0;
    for (const TensorInfo& tensor : file.tensors())
        end = std::max(end, tensor.offset + tensor.bytes);
    return static_cast<std::int64_t>(file.header().size() + end);
}

ModelInfo collect(const GgufFile& file, base::Result<ModelConfig> config) {
    ModelInfo info;
    info.path = file.label();
    info.name = model_name(file);
    info.architecture = string_or_empty(file, "general.architecture");
    info.gguf_version = file.version();
    info.file_bytes = total_bytes(file);
    info.tensors = static_cast<std::int64_t>(file.tensors().size());
    info.types = type_shares(file);
    for (const TypeShare& share : info.types) info.parameters += share.elements;
    info.tokenizer = string_or_empty(file, "tokenizer.ggml.model");
    info.pre_tokenizer = string_or_empty(file, "tokenizer.ggml.pre");
    info.tokens = count_tokens(file);
    info.chat_template = file.find("tokenizer.chat_template") != nullptr;
    info.active_parameters = info.parameters;
    if (file.tensors().empty()) {
        info.problem = "the file holds no weights (a vocabulary alone)";
        return info;
    }
    auto spec = read_model_spec(file);
    if (config.ok() && spec.ok()) {
        info.active_parameters = info.parameters - idle_parameters(file, *config);
        info.config = std::move(*config);
        info.spec = std::move(*spec);
    } else {
        info.problem = config.ok() ? spec.error().message : config.error().message;
    }
    return info;
}

class TextLines {
  public:
    void line(std::string_view label, std::string_view value) {
        text_ += fmt::format("  {:<18}{}\n", label, value);
    }
    void title(std::string_view text) { text_ += fmt::format("{}\n", text); }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

std::string window_text(const ModelConfig& config) {
    if (config.sliding_window == 0) return "";
    if (config.encoder) return fmt::format(", positions up to {} away", config.sliding_window / 2);
    return config.chunked_attention ? fmt::format(", chunks of {} positions", config.sliding_window)
                                    : fmt::format(", the last {} positions", config.sliding_window);
}

std::string layers_text(std::int64_t n) {
    return n == 1 ? "1 layer" : fmt::format("{} layers", n);
}

std::string whole_attention_text(const ModelConfig& config) {
    const auto whole = std::count(config.full_attention.begin(), config.full_attention.end(), true);
    return whole > 0 ? ", all of them in " + layers_text(whole) : "";
}

std::string windowed_heads_text(const ModelConfig& config) {
    if (config.windowed_head_dim == 0) return "";
    return fmt::format(", {} of {} in layers with the window", config.windowed_kv_heads,
                       config.windowed_head_dim);
}

// What a model with experts has besides them.
std::string experts_text(const ModelConfig& config) {
    std::string text;
    if (config.n_expert_groups > 1)
        text += fmt::format("; of {} of {} groups", config.n_expert_groups_used,
                            config.n_expert_groups);
    if (config.shared_ffn > 0)
        text += fmt::format("; one more of width {}{}", config.shared_ffn,
                            config.shared_gate ? ", with a gate" : "");
    if (config.dense_beside_experts)
        text += fmt::format("; beside them one feed-forward of width {}", config.dense_ffn);
    if (config.expert_period > 1)
        text += fmt::format("; in one of {} layers, the others' feed-forward is {} wide",
                            config.expert_period, config.dense_ffn);
    if (config.n_dense_layers > 0) {
        const std::string first =
            config.n_dense_layers == 1 ? "layer" : layers_text(config.n_dense_layers);
        text += fmt::format("; none in the first {}, whose feed-forward is {} wide", first,
                            config.dense_ffn);
    }
    return text;
}

// Factors and soft caps that are not one or none.
std::string scales_text(const ModelConfig& config) {
    std::string text;
    const auto add = [&](const char* what, float value, float none) {
        if (value != none) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, value);
    };
    add("embeddings", config.embedding_scale, 1.0F);
    add("residuals", config.residual_scale, 1.0F);
    add("scores", config.attention_scale, 0.0F);
    add("logits", config.logit_scale, 1.0F);
    add("scores capped at", config.attention_softcap, 0.0F);
    add("logits capped at", config.logit_softcap, 0.0F);
    return text;
}

std::int32_t layers_without_experts(const ModelConfig& config) {
    std::int32_t without = 0;
    for (std::int32_t l = 0; config.n_experts > 0 && l < config.n_layers; ++l)
        without += config.has_experts(l) ? 0 : 1;
    return without;
}

// Of a layer that has experts.
std::int64_t bytes_of_experts(const ModelConfig& config, const spec::ModelSpec& spec) {
    const std::int32_t with = config.n_layers - layers_without_experts(config);
    return with == 0 ? 0 : spec.layer_expert_bytes * config.n_layers / with;
}

std::int64_t smallest_layer_bytes(const spec::ModelSpec& spec) {
    const auto& each = spec.bytes_of_layer;
    return each.empty() ? spec.layer_bytes : *std::min_element(each.begin(), each.end());
}

std::string layer_sizes_text(const spec::ModelSpec& spec) {
    const std::string largest = human_bytes(spec.layer_bytes);
    if (spec.bytes_of_layer.empty()) return largest;
    return human_bytes(smallest_layer_bytes(spec)) + " to " + largest;
}

std::string rope_text(const ModelConfig& config) {
    std::string rope = fmt::format("{} of {} dimensions, base {}", config.rope_dim, config.head_dim,
                                   config.rope_base);
    if (config.rope_scale != 1.0F) rope += fmt::format(", scaled by {}", config.rope_scale);
    if (!config.rope_factors.empty()) rope += ", a factor per frequency";
    if (config.rope_magnitude != 1.0F)
        rope += fmt::format(", stretched by {}", config.rope_magnitude);
    const auto unturned = std::count(config.rope_layers.begin(), config.rope_layers.end(), false);
    if (unturned > 0) rope += ", none in " + layers_text(unturned);
    return rope;
}

// Without windows.
std::int64_t kv_bytes_per_token(const spec::ModelSpec& spec) {
    return spec.kv_bytes_per_token_layer * spec::kv_layers(spec, {0, spec.n_layers}).size();
}

// A decoder keeps keys and values for the tokens that follow; an encoder only for the prompt that
// is being computed.
void add_kv_line(TextLines& out, const ModelConfig& config, const spec::ModelSpec& spec) {
    const std::int64_t token_bytes = kv_bytes_per_token(spec);
    const std::string of_token = fmt::format("{} a token ({} a layer)", human_bytes(token_bytes),
                                             human_bytes(spec.kv_bytes_per_token_layer));
    const std::string of_context = bytes_text(static_cast<double>(token_bytes) *
                                              spec::kept_tokens(spec, config.context_length));
    if (config.encoder) {
        out.line("KV pages", fmt::format("{}, {} the longest prompt; held while it is computed",
                                         of_token, of_context));
    } else {
        out.line("KV cache", fmt::format("{}, {} a full context", of_token, of_context));
    }
}

void add_config_lines(TextLines& out, const ModelInfo& info) {
    const ModelConfig& config = *info.config;
    const spec::ModelSpec& spec = info.spec;
    out.line("layers", fmt::format("{} of {}", config.n_layers, layer_sizes_text(spec)));
    if (config.layer_input > 0) {
        out.line("layer inputs",
                 fmt::format("{} numbers of each token; with the embedding {}, which every worker "
                             "holds",
                             config.layer_input, human_bytes(spec.common_bytes)));
    } else {
        out.line("embedding", human_bytes(spec.embedding_bytes));
    }
    if (config.n_shared_kv_layers > 0) {
        out.line("shared KV",
                 fmt::format("the last {} layers have keys and values of others; "
                             "layers {} to {} stay together",
                             config.n_shared_kv_layers, config.n_layers - spec.joined_layers,
                             config.n_layers - 1));
    }
    if (config.encoder) {
        out.line("encoder",
                 config.rank_head.of_pairs
                     ? std::string("reads a query and a document, and ranks (a cross-encoder)")
                     : fmt::format("makes embeddings, by pooling \"{}\"{}, and writes no text",
                                   spec::to_string(config.pooling),
                                   config.dense_inner > 0 ? " and two dense layers" : ""));
    } else {
        out.line("output head", fmt::format("{}{}", human_bytes(spec.head_bytes),
                                            config.tied_embeddings ? " (the embedding's)" : ""));
    }
    if (config.task_adapters)
        out.line("adapters", "none applied: the base weights, as where no task is chosen");
    out.line("hidden size", fmt::format("{}, feed-forward {}", config.hidden, config.ffn));
    if (config.n_experts > 0) {
        out.line("experts", fmt::format("{} of {} used by a token; {} of a layer's {}{}",
                                        config.n_experts_used, config.n_experts,
                                        human_bytes(bytes_of_experts(config, spec)),
                                        human_bytes(spec.layer_bytes), experts_text(config)));
    }
    out.line("attention", fmt::format("{} heads of {}, {} KV heads", config.n_heads,
                                      config.head_dim, config.n_kv_heads) +
                              windowed_heads_text(config) + window_text(config) +
                              whole_attention_text(config) +
                              (config.attention_sinks ? ", with sinks" : "") +
                              (config.encoder ? ", in both directions" : ""));
    if (config.n_positions > 0) {
        out.line("positions", fmt::format("a table of {}", config.n_positions));
    } else if (config.alibi) {
        out.line("positions", "by distance (ALiBi)");
    } else {
        out.line("rope", rope_text(config));
    }
    if (const std::string scales = scales_text(config); !scales.empty())
        out.line("factors", scales);
    out.line("context", fmt::format("{} tokens", config.context_length));
    add_kv_line(out, config, spec);
    out.line("between stages", human_bytes(spec.activation_bytes_per_token) + " a token");
    out.line("work", scaled(spec.flops_per_token_layer, 1000.0,
                            std::array{" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP"}) +
                         " a token and layer");
}

nlohmann::json config_json(const ModelConfig& config) {
    return {{"layers", config.n_layers},
            {"hidden", config.hidden},
            {"heads", config.n_heads},
            {"kv_heads", config.n_kv_heads},
            {"head_dim", config.head_dim},
            {"windowed_kv_heads", config.windowed_kv_heads},
            {"windowed_head_dim", config.windowed_head_dim},
            {"rope_dim", config.rope_dim},
            {"feed_forward", config.ffn},
            {"vocab", config.vocab},
            {"context_length", config.context_length},
            {"norm_epsilon", config.norm_epsilon},
            {"rope_base", config.rope_base},
            {"rope_scale", config.rope_scale},
            {"rope_factors", config.rope_factors.size()},
            {"rope_magnitude", config.rope_magnitude},
            {"layers_without_rope",
             std::count(config.rope_layers.begin(), config.rope_layers.end(), false)},
            {"sliding_window", config.sliding_window},
            {"chunked_attention", config.chunked_attention},
            {"temperature_length", config.temperature_length},
            {"temperature_scale", config.temperature_scale},
            {"layers_without_window",
             std::count(config.full_attention.begin(), config.full_attention.end(), true)},
            {"embedding_scale", config.embedding_scale},
            {"residual_scale", config.residual_scale},
            {"attention_scale", config.attention_scale},
            {"logit_scale", config.logit_scale},
            {"attention_softcap", config.attention_softcap},
            {"logit_softcap", config.logit_softcap},
            {"qkv_bias", config.qkv_bias},
            {"attention_sinks", config.attention_sinks},
            {"layer_input", config.layer_input},
            {"shared_kv_layers", config.n_shared_kv_layers},
            {"dense_inner", config.dense_inner},
            {"task_adapters_left_out", config.task_adapters},
            {"qk_norm", config.qk_norm != QkNorm::none},
            {"experts", config.n_experts},
            {"experts_used", config.n_experts_used},
            {"expert_groups", config.n_expert_groups},
            {"expert_groups_used", config.n_expert_groups_used},
            {"expert_weight_scale", config.expert_weight_scale},
            {"shared_feed_forward", config.shared_ffn},
            {"shared_gate", config.shared_gate},
            {"layers_without_experts", layers_without_experts(config)},
            {"layers_left_out", config.n_skipped_layers},
            {"tied_embeddings", config.tied_embeddings},
            {"encoder", config.encoder},
            {"pooling", spec::to_string(config.pooling)},
            {"positions", config.n_positions}};
}

nlohmann::json spec_json(const ModelConfig& config, const spec::ModelSpec& spec) {
    return {{"layer_bytes", spec.layer_bytes},
            {"smallest_layer_bytes", smallest_layer_bytes(spec)},
            {"embedding_bytes", spec.embedding_bytes},
            {"common_bytes", spec.common_bytes},
            {"joined_layers", spec.joined_layers},
            {"head_bytes", spec.head_bytes},
            {"activation_bytes_per_token", spec.activation_bytes_per_token},
            {"kv_bytes_per_token_layer", spec.kv_bytes_per_token_layer},
            {"kv_bytes_per_token", kv_bytes_per_token(spec)},
            {"flops_per_token_layer", spec.flops_per_token_layer},
            {"layer_expert_bytes", bytes_of_experts(config, spec)}};
}

}  // namespace

std::string human_count(std::int64_t count) {
    return scaled(static_cast<double>(count), 1000.0, std::array{"", " K", " M", " B", " T"});
}

std::string human_bytes(std::int64_t bytes) {
    return bytes_text(static_cast<double>(bytes));
}

ModelInfo collect_info(WeightSource& source) {
    return collect(source.file(), read_model_config(source));
}

ModelInfo collect_info(const GgufFile& file) {
    return collect(file, read_model_config(file));
}

std::string describe_text(const ModelInfo& info) {
    TextLines out;
    out.title(info.path);
    out.line("name", info.name);
    out.line("architecture", info.architecture.empty() ? "not given" : info.architecture);
    out.line(
        "parameters",
        fmt::format("{} in {} tensors{}", human_count(info.parameters), info.tensors,
                    info.active_parameters < info.parameters && info.config
                        ? fmt::format(", {} used by a token", human_count(info.active_parameters))
                        : ""));
    out.line("size", fmt::format("{} (GGUF v{})", human_bytes(info.file_bytes), info.gguf_version));
    std::int64_t weight_bytes = 0;
    for (const TypeShare& share : info.types) weight_bytes += share.bytes;
    for (const TypeShare& share : info.types) {
        out.line(&share == info.types.data() ? "quantisation" : "",
                 fmt::format(
                     "{:<5}{:>6.2f} %{:>10}{:>6} tensors", share.type,
                     100.0 * static_cast<double>(share.bytes) / static_cast<double>(weight_bytes),
                     human_bytes(share.bytes), share.tensors));
    }
    if (info.config) add_config_lines(out, info);
    std::string tokenizer = info.tokenizer.empty() ? "none" : info.tokenizer;
    if (!info.pre_tokenizer.empty()) tokenizer += " / " + info.pre_tokenizer;
    out.line("vocabulary", fmt::format("{} tokens, tokenizer {}", info.tokens, tokenizer));
    out.line("chat template", info.chat_template ? "yes" : "no");
    out.line("runs here", info.problem.empty() ? "yes" : "no: " + info.problem);
    return out.take();
}

std::string describe_json(const ModelInfo& info) {
    nlohmann::json types = nlohmann::json::array();
    for (const TypeShare& share : info.types) {
        types.push_back({{"type", share.type},
                         {"tensors", share.tensors},
                         {"elements", share.elements},
                         {"bytes", share.bytes}});
    }
    nlohmann::json out{
        {"path", info.path},
        {"name", info.name},
        {"architecture", info.architecture},
        {"gguf_version", info.gguf_version},
        {"bytes", info.file_bytes},
        {"parameters", info.parameters},
        {"active_parameters", info.active_parameters},
        {"tensors", info.tensors},
        {"types", std::move(types)},
        {"tokenizer",
         {{"model", info.tokenizer}, {"pre", info.pre_tokenizer}, {"tokens", info.tokens}}},
        {"chat_template", info.chat_template},
        {"runnable", info.problem.empty()}};
    if (info.config) {
        out["config"] = config_json(*info.config);
        out["spec"] = spec_json(*info.config, info.spec);
    } else {
        out["problem"] = info.problem;
    }
    // Names may hold bytes that are not UTF-8; they are shown as U+FFFD.
    return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace helix::model

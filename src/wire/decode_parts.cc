// Parts that several kinds of messages have.

#include <algorithm>

#include "wire/decode_fields.h"

namespace helix::wire {

Result<core::Pipeline> get_pipeline(const Stages& from, const SessionLimits& limits) {
    TRY_VOID(in_range("pipeline stages", from.size(), 1, kMaxLayers));
    core::Pipeline pipeline;
    std::int32_t next = 0;
    for (const pb::Stage& stage : from) {
        TRY(const core::LayerRange layers, get_layers(stage.layers(), limits));
        if (layers.begin != next || layers.empty()) {
            return base::invalid(
                fmt::format("pipeline stage holds layers [{}, {}), expected to start at {}",
                            layers.begin, layers.end, next));
        }
        next = layers.end;
        pipeline.push_back({core::WorkerId{stage.worker()}, layers});
    }
    if (limits.n_layers > 0 && next != limits.n_layers) {
        return base::invalid(
            fmt::format("pipeline ends at layer {}, the model has {}", next, limits.n_layers));
    }
    return pipeline;
}

Result<core::ProducedToken> get(const pb::ProducedToken& from) {
    core::ProducedToken token;
    token.key = get(from.key());
    TRY_VOID(in_range("position", from.position(), 0, kMaxPosition));
    token.position = from.position();
    TRY_VOID(in_range("token", from.token(), 0, kMaxVocabSize));
    token.token = from.token();
    token.logprob = from.logprob();
    TRY_VOID(in_range("top tokens", from.top_tokens_size(), 0, kMaxLogprobs + 1));
    TRY_VOID(in_range("top logprobs", from.top_logprobs_size(), from.top_tokens_size(),
                      from.top_tokens_size()));
    for (int i = 0; i < from.top_tokens_size(); ++i) {
        TRY_VOID(in_range("top token", from.top_tokens(i), 0, kMaxVocabSize));
        token.top.push_back({from.top_tokens(i), from.top_logprobs(i)});
    }
    return token;
}

Result<std::vector<float>> get_embedding(const Values& from, const SessionLimits& limits) {
    if (limits.hidden_size == 0) return base::invalid("an embedding before the model is known");
    if (from.size() != 1) {
        TRY_VOID(in_range("values of an embedding", from.size(), limits.hidden_size,
                          limits.hidden_size));
    }
    return std::vector<float>(from.begin(), from.end());
}

namespace {

base::Status check_layer_sizes(const pb::ModelSpec& from) {
    if (from.bytes_of_layer_size() > 0) {
        TRY_VOID(in_range("sizes of layers", from.bytes_of_layer_size(), from.n_layers(),
                          from.n_layers()));
    }
    for (const std::int64_t bytes : from.bytes_of_layer())
        TRY_VOID(in_range("size of a layer", bytes, 0, from.layer_bytes()));
    return base::Ok{};
}

base::Status check_window(const pb::ModelSpec& from) {
    if (!from.has_window()) return base::Ok{};
    TRY_VOID(in_range("positions of a window", from.window().positions(), 1, kMaxPosition));
    return in_range("layers of a window", from.window().layers_size(), from.n_layers(),
                    from.n_layers());
}

// Which layers lie on one machine, or without KV of their own.
base::Status check_joined(const pb::ModelSpec& from) {
    TRY_VOID(in_range("joined_layers", from.joined_layers(), 0, from.n_layers()));
    const std::int32_t most_shared = std::max(0, from.joined_layers() - 1);
    return in_range("shared_kv_layers", from.shared_kv_layers(), 0, most_shared);
}

base::Status check_model(const pb::ModelSpec& from) {
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    TRY_VOID(text("model name", from.name()));
    TRY_VOID(in_range("n_layers", from.n_layers(), 1, kMaxLayers));
    TRY_VOID(in_range("layer_bytes", from.layer_bytes(), 0, kMost));
    TRY_VOID(in_range("embedding_bytes", from.embedding_bytes(), 0, kMost));
    TRY_VOID(in_range("head_bytes", from.head_bytes(), 0, kMost));
    TRY_VOID(in_range("activation_bytes_per_token", from.activation_bytes_per_token(), 0, kMost));
    TRY_VOID(in_range("token_bytes", from.token_bytes(), 0, kMost));
    TRY_VOID(in_range("kv_bytes_per_token_layer", from.kv_bytes_per_token_layer(), 0, kMost));
    TRY_VOID(finite("flops_per_token_layer", from.flops_per_token_layer(), 0));
    TRY_VOID(in_range("context_length", from.context_length(), 1, kMaxPosition));
    TRY_VOID(in_range("layer_expert_bytes", from.layer_expert_bytes(), 0, from.layer_bytes()));
    TRY_VOID(in_range("common_bytes", from.common_bytes(), 0, kMost));
    TRY_VOID(check_joined(from));
    TRY_VOID(in_range("n_experts", from.n_experts(), 0, kMost));
    TRY_VOID(in_range("n_experts_used", from.n_experts_used(), 0, from.n_experts()));
    TRY_VOID(check_window(from));
    return check_layer_sizes(from);
}

}  // namespace

Result<spec::ModelSpec> get(const pb::ModelSpec& from) {
    TRY_VOID(check_model(from));
    spec::ModelSpec model;
    model.name = from.name();
    model.n_layers = from.n_layers();
    model.layer_bytes = from.layer_bytes();
    model.embedding_bytes = from.embedding_bytes();
    model.head_bytes = from.head_bytes();
    model.activation_bytes_per_token = from.activation_bytes_per_token();
    model.token_bytes = from.token_bytes();
    model.kv_bytes_per_token_layer = from.kv_bytes_per_token_layer();
    model.flops_per_token_layer = from.flops_per_token_layer();
    model.context_length = from.context_length();
    model.layer_expert_bytes = from.layer_expert_bytes();
    model.n_experts = from.n_experts();
    model.n_experts_used = from.n_experts_used();
    model.bytes_of_layer.assign(from.bytes_of_layer().begin(), from.bytes_of_layer().end());
    model.encoder = from.encoder();
    model.common_bytes = from.common_bytes();
    model.joined_layers = from.joined_layers();
    model.shared_kv_layers = from.shared_kv_layers();
    model.window.positions = from.window().positions();
    model.window.chunked = from.window().chunked();
    model.window.layers.assign(from.window().layers().begin(), from.window().layers().end());
    return model;
}

Result<spec::SamplingParams> get(const pb::SamplingParams& from) {
    using Grammar = spec::OutputGrammar;
    TRY_VOID(in_range("logit biases", from.bias_values_size(), from.bias_tokens_size(),
                      from.bias_tokens_size()));
    TRY_VOID(in_range("grammar_kind", from.grammar_kind(), 0,
                      static_cast<std::int32_t>(Grammar::Kind::tool_calls)));
    spec::SamplingParams params;
    params.temperature = from.temperature();
    params.top_p = from.top_p();
    params.top_k = from.top_k();
    params.min_p = from.min_p();
    params.repetition_penalty = from.repetition_penalty();
    params.frequency_penalty = from.frequency_penalty();
    params.presence_penalty = from.presence_penalty();
    for (int i = 0; i < from.bias_tokens_size(); ++i) {
        params.logit_bias.emplace_back(from.bias_tokens(i), from.bias_values(i));
    }
    params.seed = from.seed();
    params.n_logprobs = from.n_logprobs();
    params.grammar = {static_cast<Grammar::Kind>(from.grammar_kind()), from.grammar_text(),
                      from.grammar_within_tokens()};
    if (from.has_thought()) {
        const pb::Thought& thought = from.thought();
        params.grammar.thought = {thought.open(),
                                  thought.close(),
                                  {thought.never().begin(), thought.never().end()},
                                  thought.max_tokens()};
    }
    TRY_VOID(check_sampling(params));
    return params;
}

}  // namespace helix::wire

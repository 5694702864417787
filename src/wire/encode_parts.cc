// Parts that several kinds of messages have.

#include "base/check.h"
#include "wire/encode_fields.h"

namespace helix::wire {

std::string cut(const std::string& text) {
    if (text.size() <= kMaxTextBytes) return text;
    std::size_t end = kMaxTextBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    return text.substr(0, end);
}

void put(const core::SequenceKey& key, pb::SequenceKey& out) {
    out.set_request(key.request.value);
    out.set_attempt(key.attempt);
    out.set_member(key.member);
}

void put(const core::LayerRange& range, pb::LayerRange& out) {
    out.set_begin(range.begin);
    out.set_end(range.end);
}

void put(const core::Pipeline& pipeline, Stages& out) {
    for (const core::Stage& stage : pipeline) {
        pb::Stage& to = *out.Add();
        to.set_worker(stage.worker.value);
        put(stage.layers, *to.mutable_layers());
    }
}

void put(const base::Hash128& hash, pb::Hash128& out) {
    out.set_low(hash.low);
    out.set_high(hash.high);
}

namespace {

void put(const spec::Thought& thought, pb::Thought& out) {
    out.set_open(thought.open);
    out.set_close(thought.close);
    for (const std::string& mark : thought.never) out.add_never(mark);
    out.set_max_tokens(thought.max_tokens);
}

}  // namespace

void put(const spec::SamplingParams& params, pb::SamplingParams& out) {
    out.set_temperature(params.temperature);
    out.set_top_p(params.top_p);
    out.set_top_k(params.top_k);
    out.set_min_p(params.min_p);
    out.set_repetition_penalty(params.repetition_penalty);
    out.set_frequency_penalty(params.frequency_penalty);
    out.set_presence_penalty(params.presence_penalty);
    for (const auto& [token, bias] : params.logit_bias) {
        out.add_bias_tokens(token);
        out.add_bias_values(bias);
    }
    out.set_seed(params.seed);
    out.set_n_logprobs(params.n_logprobs);
    CHECK(params.grammar.text.size() <= spec::OutputGrammar::kMaxTextBytes);
    out.set_grammar_kind(static_cast<std::int32_t>(params.grammar.kind));
    out.set_grammar_text(params.grammar.text);
    out.set_grammar_within_tokens(params.grammar.within_tokens);
    if (params.grammar.thought != spec::Thought{}) {
        put(params.grammar.thought, *out.mutable_thought());
    }
}

void put(const core::ProducedToken& token, pb::ProducedToken& out) {
    put(token.key, *out.mutable_key());
    out.set_position(token.position);
    out.set_token(token.token);
    out.set_logprob(token.logprob);
    for (const spec::TokenLogprob& top : token.top) {
        out.add_top_tokens(top.token);
        out.add_top_logprobs(top.logprob);
    }
}

void put(const spec::ModelSpec& model, pb::ModelSpec& out) {
    out.set_name(model.name);
    out.set_n_layers(model.n_layers);
    out.set_layer_bytes(model.layer_bytes);
    out.set_embedding_bytes(model.embedding_bytes);
    out.set_head_bytes(model.head_bytes);
    out.set_activation_bytes_per_token(model.activation_bytes_per_token);
    out.set_token_bytes(model.token_bytes);
    out.set_kv_bytes_per_token_layer(model.kv_bytes_per_token_layer);
    out.set_flops_per_token_layer(model.flops_per_token_layer);
    out.set_context_length(model.context_length);
    out.set_layer_expert_bytes(model.layer_expert_bytes);
    out.set_n_experts(model.n_experts);
    out.set_n_experts_used(model.n_experts_used);
    for (const std::int64_t bytes : model.bytes_of_layer) out.add_bytes_of_layer(bytes);
    out.set_encoder(model.encoder);
    out.set_common_bytes(model.common_bytes);
    out.set_joined_layers(model.joined_layers);
    out.set_shared_kv_layers(model.shared_kv_layers);
    if (!model.window.any()) return;
    pb::AttentionWindow& window = *out.mutable_window();
    window.set_positions(model.window.positions);
    window.set_chunked(model.window.chunked);
    for (const bool has : model.window.layers) window.add_layers(has);
}

void put(const core::RememberedPlacement& placement, pb::RememberedPlacement& out) {
    for (const core::RememberedPlacement::Holder& holder : placement.holders) {
        pb::RememberedHolder& to = *out.add_holders();
        to.set_worker(holder.worker);
        put(holder.layers, *to.mutable_layers());
        to.set_memory_bytes(holder.memory_bytes);
    }
    for (const core::RememberedPlacement::Flow& flow : placement.flows) {
        pb::RememberedFlow& to = *out.add_flows();
        to.set_from(flow.from);
        to.set_to(flow.to);
        to.set_tokens_per_s(flow.tokens_per_s);
    }
}

void put(const core::SequenceHeld& held, pb::SequenceHeld& out) {
    put(held.key, *out.mutable_key());
    put(held.pipeline, *out.mutable_pipeline());
    out.set_arrived(held.arrived);
    out.set_certain(held.certain);
    out.set_swapped(held.swapped);
    out.set_rows_lost(held.rows_lost);
    for (const core::ProducedToken& token : held.drawn) put(token, *out.add_drawn());
}

}  // namespace helix::wire

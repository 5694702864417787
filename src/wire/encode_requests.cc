// What a gateway and the coordinator say to each other.

#include "base/check.h"
#include "wire/encode_fields.h"

namespace helix::wire {
namespace {

using wire::put;  // of parts that several kinds have

template <typename Enum>
std::uint32_t number_of(Enum value) {
    return static_cast<std::uint32_t>(value);
}

void put(const core::Request& request, pb::Request& out) {
    out.set_id(request.id.value);
    out.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
    put(request.sampling, *out.mutable_sampling());
    out.set_max_tokens(request.max_tokens);
    out.set_min_tokens(request.min_tokens);
    out.mutable_stop_tokens()->Assign(request.stop_tokens.begin(), request.stop_tokens.end());
    out.set_priority(request.priority);
    out.set_client(request.client);
    out.set_max_draft_tokens(request.max_draft_tokens);
    out.mutable_prediction()->Assign(request.prediction.begin(), request.prediction.end());
    out.set_n(request.n);
    if (request.beam.has_value()) {
        pb::BeamSearch& beam = *out.mutable_beam();
        beam.set_width(request.beam->width);
        beam.set_length_penalty(request.beam->length_penalty);
        beam.set_early_stopping(number_of(request.beam->early_stopping));
    }
    out.set_score_prompt(request.score_prompt);
    out.set_pooling(number_of(request.pooling));
    out.set_timed(request.timed);
}

void put(const core::Begun& begun, pb::Begun& out) {
    for (const core::Begun::Choice& choice : begun.choices) {
        pb::BegunChoice& to = *out.add_choices();
        to.mutable_output()->Assign(choice.output.begin(), choice.output.end());
        to.set_ended(choice.ended);
    }
    out.set_scored(begun.scored);
    out.set_attempts_before(begun.attempts_before);
}

// One overload per event: fills the right member of it.
struct EventEncoder {
    pb::RequestEvent& out;

    void operator()(const core::AcceptRequest& e) const {
        out.set_id(e.id.value);
        out.mutable_accepted();
    }
    void operator()(const core::RejectRequest& e) const {
        out.set_id(e.id.value);
        pb::RejectRequest& to = *out.mutable_rejected();
        to.set_reason(number_of(e.reason));
        to.set_message(cut(e.message));
        to.set_retry_after_s(e.retry_after_s);
    }
    void operator()(const core::RequestRouted& e) const {
        out.set_id(e.id.value);
        pb::RequestRouted& to = *out.mutable_routed();
        put(e.pipeline, *to.mutable_pipeline());
        to.set_attempt(e.attempt);
        to.set_cached_tokens(e.cached_tokens);
        to.set_reason(number_of(e.reason));
    }
    void operator()(const core::StreamToken& e) const {
        out.set_id(e.id.value);
        pb::StreamToken& to = *out.mutable_token();
        to.set_index(e.index);
        put(e.token, *to.mutable_token());
        to.set_choice(e.choice);
    }
    void operator()(const core::ScoreTokens& e) const {
        out.set_id(e.id.value);
        pb::ScoreTokens& to = *out.mutable_scores();
        for (const core::ProducedToken& token : e.tokens) put(token, *to.add_tokens());
    }
    void operator()(const core::EmbedPrompt& e) const {
        out.set_id(e.id.value);
        out.mutable_embedding()->mutable_values()->Assign(e.values.begin(), e.values.end());
    }
    void operator()(const core::FinishChoice& e) const {
        out.set_id(e.id.value);
        out.mutable_choice_finished()->set_choice(e.choice);
        out.mutable_choice_finished()->set_reason(number_of(e.reason));
    }
    void operator()(const core::FinishRequest& e) const {
        out.set_id(e.id.value);
        pb::FinishRequest& to = *out.mutable_finished();
        to.set_reason(number_of(e.reason));
        to.set_cause(number_of(e.cause));
        to.set_error(cut(e.error));
    }
    void operator()(const core::StageTimed& e) const {
        out.set_id(e.id.value);
        pb::StageTimed& to = *out.mutable_timed();
        to.set_attempt(e.attempt);
        to.set_worker(e.worker.value);
        to.set_batches(e.batches);
        to.set_rows(e.rows);
        to.set_busy_ns(e.busy.ns);
        to.set_first_ns(e.first.ns);
        to.set_last_ns(e.last.ns);
    }
};

}  // namespace

void put(const GatewayHello& message, pb::GatewayHello& out) {
    out.set_protocol(message.protocol);
    out.set_name(message.name);
    out.set_public_key(message.public_key);
    out.set_term(message.term);
}

void put(const GatewayWelcome& message, pb::GatewayWelcome& out) {
    out.set_term(message.term);
    put(message.model, *out.mutable_model());
    put(message.model_hash, *out.mutable_model_hash());
    out.set_hidden_size(message.hidden_size);
    out.set_vocab_size(message.vocab_size);
    out.set_model_id(message.model_id.value);
    for (const std::string& name : message.names) out.add_names(name);
    out.set_created(message.created);
    out.set_chat_template(message.chat_template);
    out.set_tool_parser(message.tool_parser);
    out.set_http_endpoint(message.http_endpoint);
    out.set_kv_type(message.kv_type);
}

void put(const core::RequestNumbers& message, pb::RequestNumbers& out) {
    out.set_first(message.first.value);
    out.set_count(message.count);
}

void put(const core::Submitted& message, pb::SubmitRequest& out) {
    put(message.request, *out.mutable_request());
    if (message.begun.has_value()) put(*message.begun, *out.mutable_begun());
}

void put(const core::Ended& message, pb::EndRequest& out) {
    out.set_id(message.id.value);
    out.set_reason(number_of(message.reason));
    if (message.choice.has_value()) out.set_choice_plus_1(*message.choice + 1);
}

// To the best other pipeline: a gateway knows of no other.
void put(const core::MoveRequest& message, pb::MoveRequest& out) {
    CHECK(message.to.empty());
    out.set_id(message.id.value);
}

void put(const core::RequestEvents& message, pb::RequestEvents& out) {
    out.set_said_ns(message.said.ns);
    for (const core::RequestEvent& event : message.events) {
        std::visit(EventEncoder{*out.add_events()}, event);
    }
}

void put(const GatewayView& message, pb::GatewayView& out) {
    out.set_serving(message.serving);
    out.set_capacity_tokens(message.capacity_tokens);
    out.set_waiting(message.waiting);
    out.set_running(message.running);
}

}  // namespace helix::wire

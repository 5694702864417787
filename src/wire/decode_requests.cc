// What a gateway and the coordinator say to each other.

#include <limits>

#include "wire/decode_fields.h"

namespace helix::wire {
namespace {

using wire::get;  // of parts that several kinds have

constexpr std::int64_t kMost64 = std::numeric_limits<std::int64_t>::max();

template <typename Enum>
Result<Enum> get_enum(const char* field, std::uint32_t from, Enum last) {
    TRY_VOID(in_range(field, from, 0, static_cast<std::int64_t>(last)));
    return static_cast<Enum>(from);
}

// Differences of two such times do not overflow.
Result<base::TimePoint> get_time(const char* field, std::int64_t ns) {
    TRY_VOID(in_range(field, ns, -kMaxTimeNs, kMaxTimeNs));
    return base::TimePoint{ns};
}

Result<std::int32_t> get_choice(std::int32_t from) {
    TRY_VOID(in_range("choice", from, 0, kMaxMembers - 1));
    return from;
}

Result<core::Request> get(const pb::Request& from) {
    core::Request request;
    request.id = core::RequestId{from.id()};
    request.prompt.assign(from.prompt().begin(), from.prompt().end());
    TRY(request.sampling, get(from.sampling()));
    request.max_tokens = from.max_tokens();
    request.min_tokens = from.min_tokens();
    request.stop_tokens.assign(from.stop_tokens().begin(), from.stop_tokens().end());
    request.priority = from.priority();
    request.client = from.client();
    request.max_draft_tokens = from.max_draft_tokens();
    request.prediction.assign(from.prediction().begin(), from.prediction().end());
    request.n = from.n();
    if (from.has_beam()) {
        core::BeamSearch beam{from.beam().width(), from.beam().length_penalty()};
        TRY(beam.early_stopping,
            get_enum("early_stopping", from.beam().early_stopping(), core::kLastEarlyStopping));
        request.beam = beam;
    }
    request.score_prompt = from.score_prompt();
    TRY(request.pooling, get_enum("pooling", from.pooling(), spec::kLastPooling));
    request.timed = from.timed();
    return request;
}

core::Begun get(const pb::Begun& from) {
    core::Begun begun;
    for (const pb::BegunChoice& choice : from.choices()) {
        begun.choices.push_back({{choice.output().begin(), choice.output().end()}, choice.ended()});
    }
    begun.scored = from.scored();
    begun.attempts_before = from.attempts_before();
    return begun;
}

Result<core::RequestEvent> get(core::RequestId id, const pb::RejectRequest& from) {
    TRY_VOID(text("message", from.message()));
    TRY_VOID(in_range("retry_after_s", from.retry_after_s(), 0,
                      std::numeric_limits<std::int32_t>::max()));
    TRY(const core::RejectReason reason,
        get_enum("reason of a refusal", from.reason(), core::kLastRejectReason));
    return core::RequestEvent{
        core::RejectRequest{id, reason, from.message(), from.retry_after_s()}};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::RequestRouted& from,
                               const SessionLimits& limits) {
    core::RequestRouted event{id, {}, from.attempt(), from.cached_tokens()};
    TRY(event.pipeline, get_pipeline(from.pipeline(), limits));
    TRY_VOID(in_range("cached_tokens", from.cached_tokens(), 0, kMaxPosition));
    TRY(event.reason, get_enum("reason of a route", from.reason(), core::kLastRouteReason));
    return core::RequestEvent{std::move(event)};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::StreamToken& from) {
    TRY_VOID(in_range("index", from.index(), 0, kMaxPosition));
    core::StreamToken event{id, from.index(), {}};
    TRY(event.token, get(from.token()));
    TRY(event.choice, get_choice(from.choice()));
    return core::RequestEvent{std::move(event)};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::ScoreTokens& from) {
    TRY_VOID(in_range("scored tokens", from.tokens_size(), 1, kMaxItems));
    core::ScoreTokens event{id, {}};
    for (const pb::ProducedToken& one : from.tokens()) {
        TRY(core::ProducedToken token, get(one));
        event.tokens.push_back(std::move(token));
    }
    return core::RequestEvent{std::move(event)};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::EmbedPrompt& from,
                               const SessionLimits& limits) {
    TRY(std::vector<float> values, get_embedding(from.values(), limits));
    return core::RequestEvent{core::EmbedPrompt{id, std::move(values)}};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::FinishChoice& from) {
    core::FinishChoice event{id};
    TRY(event.choice, get_choice(from.choice()));
    TRY(event.reason, get_enum("reason of an end", from.reason(), core::kLastFinishReason));
    return core::RequestEvent{event};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::FinishRequest& from) {
    core::FinishRequest event{id};
    TRY(event.reason, get_enum("reason of an end", from.reason(), core::kLastFinishReason));
    TRY(event.cause, get_enum("cause of a failure", from.cause(), core::kLastFailureCause));
    TRY_VOID(text("error", from.error()));
    event.error = from.error();
    return core::RequestEvent{std::move(event)};
}

Result<core::RequestEvent> get(core::RequestId id, const pb::StageTimed& from) {
    core::StageTimed event;
    event.id = id;
    event.attempt = from.attempt();
    event.worker = core::WorkerId{from.worker()};
    TRY_VOID(in_range("batches", from.batches(), 1, kMost64));
    event.batches = from.batches();
    TRY_VOID(in_range("rows", from.rows(), 1, kMost64));
    event.rows = from.rows();
    TRY_VOID(in_range("busy_ns", from.busy_ns(), 0, kMost64));
    event.busy = core::Duration{from.busy_ns()};
    TRY(event.first, get_time("first_ns", from.first_ns()));
    TRY(event.last, get_time("last_ns", from.last_ns()));
    TRY_VOID(in_range("last_ns", from.last_ns(), from.first_ns(), kMaxTimeNs));
    return core::RequestEvent{event};
}

Result<core::RequestEvent> get(const pb::RequestEvent& from, const SessionLimits& limits) {
    const core::RequestId id{from.id()};
    switch (from.what_case()) {
        case pb::RequestEvent::kAccepted:
            return core::RequestEvent{core::AcceptRequest{id}};
        case pb::RequestEvent::kRejected:
            return get(id, from.rejected());
        case pb::RequestEvent::kRouted:
            return get(id, from.routed(), limits);
        case pb::RequestEvent::kToken:
            return get(id, from.token());
        case pb::RequestEvent::kScores:
            return get(id, from.scores());
        case pb::RequestEvent::kEmbedding:
            return get(id, from.embedding(), limits);
        case pb::RequestEvent::kChoiceFinished:
            return get(id, from.choice_finished());
        case pb::RequestEvent::kFinished:
            return get(id, from.finished());
        case pb::RequestEvent::kTimed:
            return get(id, from.timed());
        case pb::RequestEvent::WHAT_NOT_SET:
            break;
    }
    return base::invalid("event of no known kind");
}

Result<Message> get(const pb::GatewayHello& from) {
    TRY_VOID(text("name", from.name()));
    TRY_VOID(text("public_key", from.public_key()));
    return Message{GatewayHello{from.protocol(), from.name(), from.public_key(), from.term()}};
}

Result<Message> get(const pb::GatewayWelcome& from) {
    GatewayWelcome message;
    message.term = from.term();
    TRY(message.model, get(from.model()));
    message.model_hash = get(from.model_hash());
    TRY_VOID(in_range("hidden_size", from.hidden_size(), 1, kMaxHiddenSize));
    message.hidden_size = from.hidden_size();
    TRY_VOID(in_range("vocab_size", from.vocab_size(), 1, kMaxVocabSize));
    message.vocab_size = from.vocab_size();
    message.model_id = core::ModelId{from.model_id()};
    TRY_VOID(in_range("names of the model", from.names_size(), 1, kMaxNames));
    for (const std::string& name : from.names()) {
        TRY_VOID(text("name of the model", name));
        message.names.push_back(name);
    }
    TRY_VOID(in_range("created", from.created(), 0, kMost64));
    message.created = from.created();
    TRY_VOID(at_most("chat_template", from.chat_template().size(), kMaxTemplateBytes));
    message.chat_template = from.chat_template();
    TRY_VOID(text("tool_parser", from.tool_parser()));
    message.tool_parser = from.tool_parser();
    TRY_VOID(text("http_endpoint", from.http_endpoint()));
    message.http_endpoint = from.http_endpoint();
    TRY_VOID(text("kv_type", from.kv_type()));
    message.kv_type = from.kv_type();
    return Message{std::move(message)};
}

Result<Message> get(const pb::RequestNumbers& from) {
    if (from.first() != 0) {
        TRY_VOID(in_range("count", from.count(), 1, std::numeric_limits<std::uint32_t>::max()));
        TRY_VOID(at_most("first", from.first(),
                         std::numeric_limits<std::uint64_t>::max() - from.count()));
    }
    return Message{core::RequestNumbers{core::RequestId{from.first()}, from.count()}};
}

Result<Message> get(const pb::SubmitRequest& from) {
    core::Submitted message;
    TRY(message.request, get(from.request()));
    if (from.has_begun()) message.begun = get(from.begun());
    TRY_VOID(check_request(message));
    return Message{std::move(message)};
}

Result<Message> get(const pb::EndRequest& from) {
    core::Ended message{core::RequestId{from.id()}};
    TRY(message.reason, get_enum("reason of an end", from.reason(), core::kLastFinishReason));
    TRY_VOID(in_range("choice_plus_1", from.choice_plus_1(), 0, kMaxMembers));
    if (from.choice_plus_1() != 0) message.choice = from.choice_plus_1() - 1;
    return Message{message};
}

Result<Message> get(const pb::RequestEvents& from, const SessionLimits& limits) {
    core::RequestEvents message;
    TRY(message.said, get_time("said_ns", from.said_ns()));
    TRY_VOID(in_range("events", from.events_size(), 0, kMaxItems));
    for (const pb::RequestEvent& one : from.events()) {
        TRY(core::RequestEvent event, get(one, limits));
        message.events.push_back(std::move(event));
    }
    return Message{std::move(message)};
}

Result<Message> get(const pb::GatewayView& from) {
    TRY_VOID(in_range("capacity_tokens", from.capacity_tokens(), 0, kMost64));
    TRY_VOID(in_range("waiting", from.waiting(), 0, kMost64));
    TRY_VOID(in_range("running", from.running(), 0, kMost64));
    return Message{
        GatewayView{from.serving(), from.capacity_tokens(), from.waiting(), from.running()}};
}

}  // namespace

Result<Message> decode_of_gateways(const pb::Envelope& from, const SessionLimits& limits) {
    switch (from.body_case()) {
        case pb::Envelope::kGatewayHello:
            return get(from.gateway_hello());
        case pb::Envelope::kGatewayWelcome:
            return get(from.gateway_welcome());
        case pb::Envelope::kRequestNumbers:
            return get(from.request_numbers());
        case pb::Envelope::kSubmitRequest:
            return get(from.submit_request());
        case pb::Envelope::kEndRequest:
            return get(from.end_request());
        case pb::Envelope::kMoveRequest:
            return Message{core::MoveRequest{core::RequestId{from.move_request().id()}}};
        case pb::Envelope::kRequestEvents:
            return get(from.request_events(), limits);
        case pb::Envelope::kGatewayView:
            return get(from.gateway_view());
        default:
            return base::invalid("message of no known kind");
    }
}

}  // namespace helix::wire

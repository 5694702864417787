#include <algorithm>
#include <utility>

#include "api/tracing/request_trace.h"
#include "base/check.h"
#include "core/protocol/describe.h"
#include "net/http_message.h"

// What is told of a request: its spans, named as OpenTelemetry's conventions for HTTP and
// generative AI name things, and below "helix." for the rest.

namespace helix::api {
namespace {

constexpr const char* kGoneType = "cancelled";  // error.type where the client left

SpanId new_span_id(base::Random& random) {
    while (true) {
        const std::uint64_t value = random.next();
        if (value != 0) return {value};
    }
}

bool is_whole_state(const std::string& state) {
    return state == "stop" || state == "length";
}

}  // namespace

std::int64_t RequestTrace::unix_ns(base::TimePoint at) const {
    const base::TimePoint within = std::clamp(at, origin_.began, http_end_->at);
    return within.ns + origin_.unix_offset_ns;
}

Span RequestTrace::child(std::string name, base::TimePoint from, base::TimePoint to) {
    Span span;
    span.trace = origin_.trace;
    span.id = new_span_id(ids_);
    span.parent = id_;
    span.trace_state = origin_.trace_state;
    span.name = std::move(name);
    span.start_unix_ns = unix_ns(from);
    span.end_unix_ns = std::max(span.start_unix_ns, unix_ns(to));
    return span;
}

void RequestTrace::say_what_was_asked(std::vector<Attribute>& out) const {
    out.emplace_back("gen_ai.operation.name", origin_.operation);
    out.emplace_back("gen_ai.provider.name", std::string("helix"));
    out.emplace_back("http.request.method", origin_.method);
    out.emplace_back("http.route", origin_.route);
    out.emplace_back("helix.request_id", origin_.request_id);
    if (model_.empty()) return;
    out.emplace_back("gen_ai.request.model", asked_model_.empty() ? model_ : asked_model_);
    out.emplace_back("gen_ai.response.model", model_);
    out.insert(out.end(), asked_.begin(), asked_.end());
}

void RequestTrace::say_what_came(Span& span) const {
    std::int64_t tokens = 0;
    std::int64_t cached = 0;
    std::optional<base::TimePoint> first;
    std::vector<std::string> reasons;
    bool broken = false;
    for (const Choice& choice : choices_) {
        const ChoiceEnd& end = *choice.end;
        tokens += end.tokens;
        cached += end.cached_tokens;
        if (end.tokens > 0) first = std::min(first.value_or(end.first_token), end.first_token);
        reasons.push_back(end.state);
        broken = broken || !is_whole_state(end.state);
    }
    std::vector<Attribute>& out = span.attributes;
    if (!choices_.empty()) {
        out.emplace_back("gen_ai.response.id", answer_id_);
        out.emplace_back("gen_ai.response.finish_reasons", std::move(reasons));
        out.emplace_back("gen_ai.usage.input_tokens", prompt_tokens_);
        out.emplace_back("gen_ai.usage.output_tokens", tokens);
        out.emplace_back("gen_ai.usage.cache_read.input_tokens", cached);
    }
    if (first) {
        out.emplace_back("gen_ai.response.time_to_first_chunk", (*first - origin_.began).seconds());
    }
    const int status = http_end_->status;
    if (status != 0) out.emplace_back("http.response.status_code", std::int64_t{status});
    span.failed = true;
    if (!http_end_->whole) {
        out.emplace_back("error.type", std::string(kGoneType));
        span.problem = "the client left before the answer was whole";
    } else if (status >= 400) {
        out.emplace_back("error.type", std::to_string(status));
        span.problem = net::status_text(status);
    } else if (broken) {
        out.emplace_back("error.type", std::string("error"));
        span.problem = "the answer ended with an error";
    } else {
        span.failed = false;
    }
}

void RequestTrace::say_events(Span& span) const {
    for (const Prompt& prompt : prompts_) {
        for (const Attempt& attempt : prompt.attempts) {
            if (attempt.reason == core::RouteReason::first) continue;
            const bool moved = attempt.reason == core::RouteReason::moved;
            SpanEvent event{moved ? "helix.moved" : "helix.restarted", unix_ns(attempt.at), {}};
            event.attributes.emplace_back("helix.attempt", std::int64_t{attempt.number});
            if (!moved) {
                event.attributes.emplace_back("helix.reason",
                                              std::string(core::name_of(attempt.reason)));
            }
            span.events.push_back(std::move(event));
        }
    }
}

Span RequestTrace::request_span() const {
    Span span;
    span.trace = origin_.trace;
    span.id = id_;
    span.parent = origin_.parent;
    span.trace_state = origin_.trace_state;
    span.name = model_.empty() ? origin_.operation : origin_.operation + " " + model_;
    span.kind = SpanKind::server;
    span.start_unix_ns = unix_ns(origin_.began);
    span.end_unix_ns = unix_ns(http_end_->at);
    say_what_was_asked(span.attributes);
    say_what_came(span);
    say_events(span);
    return span;
}

RequestTrace::PromptTimes RequestTrace::times_of(std::size_t prompt) const {
    PromptTimes times;
    for (const Choice& choice : choices_) {
        if (choice.prompt != prompt) continue;
        const ChoiceEnd& end = *choice.end;
        times.end = std::max(times.end, end.at.value_or(http_end_->at));
        times.failed = times.failed || !is_whole_state(end.state);
        if (end.tokens == 0) continue;
        times.first_token = std::min(times.first_token.value_or(end.first_token), end.first_token);
    }
    return times;
}

Span RequestTrace::stage_span(const TimedStage& one, std::size_t index, base::TimePoint from,
                              base::TimePoint to) {
    const Stage& stage = one.stage;
    if (one.times) {
        from = one.times->first;
        to = one.times->last;
    }
    const std::string known =
        stage.worker_name.empty() ? std::to_string(stage.worker.value) : stage.worker_name;
    Span span = child("stage " + known, from, to);
    std::vector<Attribute>& out = span.attributes;
    out.emplace_back("helix.worker.id", std::int64_t{stage.worker.value});
    out.emplace_back("helix.worker.name", stage.worker_name);
    out.emplace_back("helix.stage.index", static_cast<std::int64_t>(index));
    out.emplace_back("helix.stage.first_layer", std::int64_t{stage.layers.begin});
    out.emplace_back("helix.stage.end_layer", std::int64_t{stage.layers.end});
    if (one.times) {
        out.emplace_back("helix.stage.busy_s", one.times->busy.seconds());
        out.emplace_back("helix.stage.batches", one.times->batches);
        out.emplace_back("helix.stage.rows", one.times->rows);
    }
    return span;
}

// end: of the prompt's last choice.
void RequestTrace::add_stage_spans(const Prompt& prompt, base::TimePoint end,
                                   std::vector<Span>& out) {
    for (std::size_t a = 0; a < prompt.attempts.size(); ++a) {
        const Attempt& attempt = prompt.attempts[a];
        const bool last = a + 1 == prompt.attempts.size();
        const base::TimePoint left = last ? end : prompt.attempts[a + 1].at;
        for (std::size_t i = 0; i < attempt.stages.size(); ++i) {
            out.push_back(stage_span(attempt.stages[i], i, attempt.at, left));
            out.back().attributes.emplace_back("helix.attempt", std::int64_t{attempt.number});
        }
    }
}

void RequestTrace::add_prompt_spans(std::size_t index, std::vector<Span>& out) {
    const Prompt& prompt = prompts_[index];
    const PromptTimes times = times_of(index);
    const std::size_t first = out.size();
    const bool routed = !prompt.attempts.empty();
    const base::TimePoint placed = routed ? prompt.attempts.front().at : times.end;
    out.push_back(child("queue", prepared_at_.value_or(origin_.began), placed));
    out.back().failed = !routed && times.failed;
    if (routed) {
        out.push_back(child("prefill", placed, times.first_token.value_or(times.end)));
        out.back().failed = !times.first_token && times.failed;
        add_stage_spans(prompt, times.end, out);
    }
    for (std::size_t i = prompt.first_choice; i < choices_.size(); ++i) {
        const Choice& choice = choices_[i];
        if (choice.prompt != index) break;
        if (choice.end->tokens == 0) continue;
        out.push_back(child("decode", choice.end->first_token, choice.end->last_token));
        out.back().failed = !is_whole_state(choice.end->state);
        out.back().attributes.emplace_back("helix.output_tokens", choice.end->tokens);
        if (choices_.size() > 1) {
            out.back().attributes.emplace_back("helix.choice", static_cast<std::int64_t>(i));
        }
    }
    if (prompts_.size() == 1) return;
    for (std::size_t i = first; i < out.size(); ++i) {
        out[i].attributes.emplace_back("helix.prompt", static_cast<std::int64_t>(index));
    }
}

std::vector<Span> RequestTrace::spans() {
    CHECK(ended());
    id_ = new_span_id(ids_);
    std::vector<Span> out;
    out.push_back(request_span());
    if (prepared_at_) out.push_back(child("prepare", origin_.began, *prepared_at_));
    for (std::size_t i = 0; i < std::min(prompts_.size(), kMostPrompts); ++i) {
        add_prompt_spans(i, out);
    }
    return out;
}

}  // namespace helix::api

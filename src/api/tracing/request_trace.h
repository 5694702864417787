#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/tracing/span.h"
#include "base/random.h"
#include "base/time.h"
#include "core/protocol/coordinator_actions.h"

namespace helix::api {

struct CompletionRequest;

// What was seen of one HTTP request, and the spans that tell it:
//
//   the request      kind server, from its arrival as a whole to the end of its answer; parent: the
//                    caller's span
//     prepare        its body is parsed, its prompts are rendered and tokenised
//     queue          from there until it first has a pipeline, or its end
//     prefill        from there to its first token, or its end
//     stage WORKER   of each pipeline that it ran on, one for each stage: from the beginning of the
//                    first batch that had rows of it to the end of the last one, as the worker says
//                    it, on the coordinator's clock; late by as long as that message was under way.
//                    helix.stage.busy_s is what those batches took, rows of other requests in them
//                    included. Where the worker said nothing (it was lost, or computed nothing) the
//                    span is the time that the request had that pipeline, without busy_s.
//     decode         of each choice, from its first token to its last
//
// prepare and those above stage are timed where the answer is written: as tokens come to the API. A
// request of several prompts has queue, prefill, stages and decode for each of the first ones.
// Nothing that anybody wrote is in a span: neither prompts nor answers, nor errors' texts.
class RequestTrace {
  public:
    static constexpr std::size_t kMostPrompts = 16;   // that have spans of their own
    static constexpr std::size_t kMostAttempts = 16;  // of a prompt

    struct Origin {
        TraceId trace;
        SpanId parent;            // zero: the trace begins here
        std::string trace_state;  // of the caller
        std::string operation;    // "chat", "text_completion", "embeddings", ...
        std::string method;
        std::string route;
        std::string request_id;
        base::TimePoint began;
        std::int64_t unix_offset_ns = 0;  // what is added to a TimePoint for the calendar's time
    };
    struct Stage {
        core::WorkerId worker;
        std::string worker_name;  // "" = not known
        core::LayerRange layers;
    };
    struct ChoiceEnd {
        std::string state;                  // as RequestRecord::state
        std::optional<base::TimePoint> at;  // absent: with the answer
        std::int64_t tokens = 0;
        base::TimePoint first_token;  // of no meaning without tokens
        base::TimePoint last_token;
        std::int64_t cached_tokens = 0;  // of its prompt, where it counts them
    };
    struct HttpEnd {
        base::TimePoint at;
        int status = 0;      // 0: no answer was begun
        bool whole = false;  // the answer came to its end
    };

    // ids: where its spans' ids come from.
    RequestTrace(Origin origin, base::Random ids) : origin_(std::move(origin)), ids_(ids) {}

    // Its model is found and its prompts are tokens.
    void prepared(base::TimePoint at, const std::string& model);
    void asked(const CompletionRequest& request);
    // Adds a choice; begins_prompt: the first of the next prompt. Returns its number.
    std::size_t add_choice(const std::string& answer_id, std::int64_t prompt_tokens,
                           bool begins_prompt);
    // Those that follow are told of the prompt by any of its choices.
    void attempt(std::size_t choice, std::uint32_t number, core::RouteReason reason);
    void routed(std::size_t choice, base::TimePoint at, std::vector<Stage> stages);
    void stage_timed(std::size_t choice, const core::StageTimed& times);
    void choice_ended(std::size_t choice, ChoiceEnd end);
    void http_ended(HttpEnd end);

    bool ended() const { return http_end_.has_value() && open_choices_ == 0; }
    base::TimePoint ended_at() const { return http_end_->at; }
    // Whether all stages have said their times.
    bool stages_are_timed() const;
    // Call it once, when it has ended.
    std::vector<Span> spans();

  private:
    struct TimedStage {
        Stage stage;
        std::optional<core::StageTimed> times;
    };
    struct Attempt {
        std::uint32_t number = 0;
        core::RouteReason reason = core::RouteReason::first;
        base::TimePoint at;
        std::vector<TimedStage> stages;
    };
    struct Prompt {
        std::vector<Attempt> attempts;
        std::uint32_t next_number = 0;  // of the attempt that is about to begin
        core::RouteReason next_reason = core::RouteReason::first;
        std::size_t first_choice = 0;
    };
    struct Choice {
        std::size_t prompt = 0;
        std::optional<ChoiceEnd> end;
    };
    struct PromptTimes {
        std::optional<base::TimePoint> first_token;
        base::TimePoint end;
        bool failed = false;
    };

    std::int64_t unix_ns(base::TimePoint at) const;  // within the request
    Span child(std::string name, base::TimePoint from, base::TimePoint to);
    Span request_span() const;
    void say_what_was_asked(std::vector<Attribute>& out) const;
    void say_what_came(Span& span) const;
    void say_events(Span& span) const;
    PromptTimes times_of(std::size_t prompt) const;
    void add_prompt_spans(std::size_t prompt, std::vector<Span>& out);
    void add_stage_spans(const Prompt& prompt, base::TimePoint end, std::vector<Span>& out);
    Span stage_span(const TimedStage& one, std::size_t index, base::TimePoint from,
                    base::TimePoint to);

    Origin origin_;
    base::Random ids_;
    SpanId id_;  // of the request's span, from spans() on
    std::optional<base::TimePoint> prepared_at_;
    std::string model_;
    std::string asked_model_;
    std::string answer_id_;
    std::vector<Attribute> asked_;
    std::vector<Prompt> prompts_;
    std::vector<Choice> choices_;
    std::size_t open_choices_ = 0;
    std::int64_t prompt_tokens_ = 0;
    std::optional<HttpEnd> http_end_;
};

}  // namespace helix::api

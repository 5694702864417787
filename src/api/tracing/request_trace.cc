#include "api/tracing/request_trace.h"

#include <algorithm>
#include <utility>

#include "api/completion_request.h"
#include "base/check.h"

// How a request's facts are taken down; what is told of them: api/tracing/request_spans.cc.

namespace helix::api {

void RequestTrace::prepared(base::TimePoint at, const std::string& model) {
    prepared_at_ = at;
    model_ = model;
}

void RequestTrace::asked(const CompletionRequest& request) {
    asked_model_ = request.model;
    if (request.max_tokens > 0) {
        asked_.emplace_back("gen_ai.request.max_tokens", std::int64_t{request.max_tokens});
    }
    const spec::SamplingParams& sampling = request.sampling;
    asked_.emplace_back("gen_ai.request.temperature", double{sampling.temperature});
    asked_.emplace_back("gen_ai.request.top_p", double{sampling.top_p});
    if (sampling.top_k > 0)
        asked_.emplace_back("gen_ai.request.top_k", std::int64_t{sampling.top_k});
    if (request.seed) {
        asked_.emplace_back("gen_ai.request.seed", static_cast<std::int64_t>(*request.seed));
    }
    if (request.n > 1) asked_.emplace_back("gen_ai.request.choice.count", std::int64_t{request.n});
}

std::size_t RequestTrace::add_choice(const std::string& answer_id, std::int64_t prompt_tokens,
                                     bool begins_prompt) {
    answer_id_ = answer_id;
    if (begins_prompt) {
        prompts_.emplace_back();
        prompts_.back().first_choice = choices_.size();
        prompt_tokens_ += prompt_tokens;
    }
    CHECK(!prompts_.empty());
    choices_.push_back({prompts_.size() - 1, {}});
    ++open_choices_;
    return choices_.size() - 1;
}

void RequestTrace::attempt(std::size_t choice, std::uint32_t number, core::RouteReason reason) {
    Prompt& prompt = prompts_[choices_[choice].prompt];
    prompt.next_number = number;
    prompt.next_reason = reason;
}

void RequestTrace::routed(std::size_t choice, base::TimePoint at, std::vector<Stage> stages) {
    const std::size_t index = choices_[choice].prompt;
    Prompt& prompt = prompts_[index];
    if (index >= kMostPrompts || prompt.attempts.size() >= kMostAttempts) return;
    Attempt attempt{prompt.next_number, prompt.next_reason, at, {}};
    for (Stage& stage : stages) attempt.stages.push_back({std::move(stage), {}});
    prompt.attempts.push_back(std::move(attempt));
}

void RequestTrace::stage_timed(std::size_t choice, const core::StageTimed& times) {
    for (Attempt& attempt : prompts_[choices_[choice].prompt].attempts) {
        if (attempt.number != times.attempt) continue;
        for (TimedStage& one : attempt.stages) {
            if (one.stage.worker == times.worker && !one.times) one.times = times;
        }
    }
}

void RequestTrace::choice_ended(std::size_t choice, ChoiceEnd end) {
    if (choices_[choice].end) return;
    choices_[choice].end = std::move(end);
    --open_choices_;
}

void RequestTrace::http_ended(HttpEnd end) {
    http_end_ = end;
}

bool RequestTrace::stages_are_timed() const {
    for (const Prompt& prompt : prompts_) {
        for (const Attempt& attempt : prompt.attempts) {
            const bool all = std::all_of(attempt.stages.begin(), attempt.stages.end(),
                                         [](const TimedStage& one) { return one.times; });
            if (!all) return false;
        }
    }
    return true;
}

}  // namespace helix::api

#include "core/coordinator/request_life.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

void RequestLife::reject(RequestId id, RejectReason reason, const std::string& message) {
    const auto it = requests_.find(id);
    CHECK(it != requests_.end() && !it->second.accepted && !it->second.running);
    queue_.dequeue(it->second);
    requests_.erase(it);
    queue_.forget_unaccepted();
    ++rejected_;
    out_.push(RejectRequest{id, reason, message, reason == RejectReason::unavailable ? 5 : 0});
}

void RequestLife::begin_attempt(TimePoint now, RequestState& state, std::uint32_t attempt,
                                Pipeline pipeline, Path path) {
    queue_.start(state);
    state.running = true;
    state.attempt = attempt;
    state.moved = false;
    state.hands_over_again.clear();
    state.pipeline = std::move(pipeline);
    state.path = std::move(path);
    state.last_progress = now;
    state.started = now;
    for (const Stage& stage : state.pipeline) {
        fleet_.at(stage.worker).kv.add(state.request.id, room_.expected_pages(state, stage));
    }
}

void RequestLife::start(TimePoint now, RequestState& state, Path path) {
    Pipeline pipeline = placements_.router()->graph().pipeline(path);
    begin_attempt(now, state, ++state.last_attempt, std::move(pipeline), std::move(path));
    state.prompt_rows = length(state) - state.prefix.cached;
    stages_.going(state, state.prompt_rows);
    prompts_.start(state.prompt_rows);
    StageInput input;
    input.key = {state.request.id, state.attempt};
    input.tokens = state.request.prompt;
    input.tokens.append(state.output.begin(), state.output.end());
    if (base::planted(base::PlantedBug::recompute_off_by_one) && !state.output.empty()) {
        std::copy_backward(
            input.tokens.end() - static_cast<std::ptrdiff_t>(state.output.size()) - 1,
            input.tokens.end() - 1, input.tokens.end());
    }
    input.sample = true;
    SequenceStart begin{state.pipeline, static_cast<std::int32_t>(state.request.prompt.size()),
                        stages_.sampling_of(state)};
    input.first_position = state.prefix.cached;
    begin.cached.assign(input.tokens.begin(), input.tokens.begin() + state.prefix.cached);
    input.tokens.erase_front(begin.cached.size());
    if (base::planted(base::PlantedBug::sampling_seed_lost) && !state.output.empty())
        begin.sampling.seed = 0;
    if (unscored(state) > 0) begin.scored = state.request.prompt;
    begin.high_priority = is_high(state);
    begin.pooling = state.request.pooling;
    begin.timed = state.request.timed;
    begin.forks = state.group != nullptr;
    if (state.group) begin_group(state, input);
    input.start = std::move(begin);
    out_.add_rows(state.pipeline.front().worker, std::move(input));
    speculation_.prepare_drafts(state);
    out_.push(RequestRouted{state.request.id, state.pipeline, state.attempt, state.prefix.cached,
                            state.route_reason});
}

void RequestLife::restart(RequestState& state, RouteReason reason) {
    leave_pipeline(state);
    state.route_reason = reason;
    queue_.enqueue(state);
}

// The worker has thrown away what we thought it had, or what a migration had brought. This is no
// preemption: nothing was lost but the way to the workers and back.
void RequestLife::restart_without_prefix(RequestState& state) {
    const Path path = state.path;
    restart(state, RouteReason::cache_forgotten);
    prefixes_.forget(state, path);
    state.prefix.lost = true;
}

void RequestLife::fail_over(TimePoint now, RequestState& state, RouteReason reason) {
    ++failovers_;
    restart(state, reason);
    state.last_progress = now;
}

void RequestLife::finish(RequestId id, FinishReason reason) {
    end(id, reason, FailureCause::none, "");
}

void RequestLife::fail(RequestId id, FinishReason reason, FailureCause cause,
                       const std::string& error) {
    CHECK(!is_whole(reason) && cause != FailureCause::none);
    end(id, reason, cause, error);
}

void RequestLife::end(RequestId id, FinishReason reason, FailureCause cause,
                      const std::string& error) {
    const auto it = requests_.find(id);
    CHECK(it != requests_.end());
    RequestState& state = it->second;
    if (state.running) {
        leave_pipeline(state);
    } else {
        queue_.dequeue(state);
        if (!state.accepted) queue_.forget_unaccepted();
    }
    suspects_.forget(state);
    if (is_whole(reason)) {
        ++finished_;
        const bool answers = !state.group && !state.request.wants_embedding();
        if (answers) demand_.note_output(state.output.size());
    } else if (reason != FinishReason::cancelled) {
        ++failed_;
    }
    if (state.drafting && state.drafting->told > 0) out_.push(ForgetDrafts{id});
    out_.push(FinishRequest{id, reason, cause, error});
    requests_.erase(it);
}

void RequestLife::leave_pipeline(RequestState& state) {
    CHECK(state.running);
    if (state.migration)
        migrations_.drop_migration(state, {MigrationCause::left_pipeline, "it left its pipeline"});
    if (state.prompt_rows == 0) prefixes_.remember_prefix(state, length(state) - 1);
    prompts_.abandon(state.prompt_rows);
    state.prompt_rows = 0;
    speculation_.forget_drafts(state);
    if (state.swapped) swaps_.end_swap(state);
    swaps_.forget(state.request.id);
    for (const Stage& stage : state.pipeline) fleet_.at(stage.worker).kv.remove(state.request.id);
    stages_.to_stages(state, FreeSequences{stages_.keys_at_workers(state)});
    out_.drop_unsent(state.pipeline.front().worker, [&](const StageInput& input) {
        return input.key.request == state.request.id && input.key.attempt == state.attempt;
    });
    queue_.stop(state);
    placements_.router()->on_ended(state.path, state.rows_going);
    state.path.clear();
    state.rows_going = 0;
    state.draws_on = false;
    state.pipeline.clear();
    state.running = false;
    roles_.note_place(state);
}

void RequestLife::begin_group(RequestState& state, StageInput& input) {
    state.group->restart(state.request);
    if (state.group->beams) {
        state.group->beams->set_max_output(state.max_output);
    } else {
        // Choices that have ended are drawn, too, so that the others stay what they were.
        input.draws = state.request.n;
    }
}

}  // namespace helix::core

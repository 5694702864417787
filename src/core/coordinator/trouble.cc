// Requests whose pipeline broke, stands still or is not there any more: tried again, and ended with
// an error only when that does not help (RELIABILITY P1, P6).

#include <algorithm>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

constexpr std::int32_t kScoringAttempts = 3;

std::string seconds_text(Duration duration) {
    return std::to_string(duration.ns / 1'000'000'000) + " s";
}

}  // namespace

// Accepted when there was more room: better late, or an error, than fewer tokens than were asked
// for.
bool Coordinator::Impl::still_fits(TimePoint now, RequestState& state, std::int64_t capacity_now,
                                   std::int64_t lasting, std::vector<CoordinatorAction>& actions) {
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    // Without a limit of its own it takes what it will also have tomorrow, if that is enough.
    state.max_output = output_limit(state, state.request.max_tokens > 0 ? capacity_now : lasting);
    if (static_cast<std::int64_t>(longest) >= state.max_output)
        state.max_output = output_limit(state, capacity_now);
    if (state.max_output >= state.request.max_tokens &&
        static_cast<std::int64_t>(longest) < state.max_output) {
        state.unfit_since.reset();
        return true;
    }
    // A placement that can hold it is on its way.
    const bool soon = pending && pending->stepping && pending_holds(blocks_to_end(state)) &&
                      now - pending->step_since < config.stall_timeout;
    if (soon) state.unfit_since.reset();
    if (!state.unfit_since) state.unfit_since = now;
    if (now - *state.unfit_since > config.unserved_timeout) {
        finish(
            state.request.id, FinishReason::error,
            "the cluster has shrunk: this request does not fit any more, and no worker came for " +
                seconds_text(config.unserved_timeout),
            actions);
    }
    return false;
}

void Coordinator::Impl::fail_over(TimePoint now, RequestState& state,
                                  std::vector<CoordinatorAction>& actions) {
    ++failovers;
    restart(state, actions);
    state.last_progress = now;
}

bool Coordinator::Impl::came_unscored(TimePoint now, RequestState& state,
                                      std::vector<CoordinatorAction>& actions) {
    if (unscored(state) == 0) return false;
    if (++state.unscored_ends < kScoringAttempts) {
        fail_over(now, state, actions);
    } else {
        finish(state.request.id, FinishReason::error,
               "workers answered without the log-probabilities of the prompt, tried " +
                   std::to_string(kScoringAttempts) + " times",
               actions);
    }
    return true;
}

// Rows are under way, but long after they were sent no stage has any that wait: they were lost
// with a link.
bool Coordinator::Impl::lost_rows(TimePoint now, const RequestState& state) const {
    if (state.rows_going == 0 || now - state.last_progress < config.lost_rows_timeout) return false;
    const TimePoint long_after = state.last_progress + Duration{config.lost_rows_timeout.ns / 2};
    return std::all_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
        const WorkerState& worker = workers.at(stage.worker);
        return worker.reported_at > long_after && worker.last_report.waiting_rows == 0;
    });
}

void Coordinator::Impl::end_stalled(TimePoint now, std::vector<CoordinatorAction>& actions) {
    // Progress only puts it off, so nobody is late before the first who was due at the last look.
    if (now < no_stall_before) return;
    TimePoint oldest = now;
    std::vector<RequestId> stalled;
    for (const auto& [id, state] : requests) {
        const bool stands = !state.running || state.swapped;
        if (stands && !planted(PlantedBug::timer_not_stopped)) continue;
        if (now - state.last_progress > config.stall_timeout || lost_rows(now, state)) {
            stalled.push_back(id);
        } else {
            oldest = std::min(oldest, state.last_progress);
        }
    }
    no_stall_before = oldest + std::min(config.stall_timeout, config.lost_rows_timeout);
    for (const RequestId id : stalled) {
        RequestState& state = requests.at(id);
        if (!state.trouble_since) state.trouble_since = state.last_progress;
        const Duration silent = now - *state.trouble_since;
        if (state.running && silent < config.stall_timeout + config.stall_timeout) {
            fail_over(now, state, actions);
            continue;
        }
        finish(id, FinishReason::error,
               "no token for " + seconds_text(silent) +
                   " although it was tried again: the pipelines are stuck",
               actions);
    }
}

// No placement serves: nobody is left waiting for ever.
void Coordinator::Impl::end_unserved(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (waiting.empty() || (epoch_in_force != 0 && capacity() > 0)) return;
    // One comes, however long its workers take to become free and to load.
    if (pending && pending->stepping && now - pending->step_since < config.stall_timeout) {
        served_last = now;
        return;
    }
    std::vector<RequestId> late;
    for (const auto& [key, id] : waiting) {
        // What waited while others ran has not waited for a placement.
        const TimePoint since = std::max(served_last, requests.at(id).last_progress);
        if (now - since > config.unserved_timeout) late.push_back(id);
    }
    const std::string message = "no placement can serve: " + std::to_string(workers.size()) +
                                " worker(s) joined, " +
                                (link_health.any_down() ? "and some of them do not reach each other"
                                                        : "not enough to hold the model");
    for (const RequestId id : late) {
        if (requests.at(id).accepted) {
            finish(id, FinishReason::error, message, actions);
        } else {
            reject(id, RejectReason::unavailable, message, actions);
        }
    }
}

}  // namespace helix::core

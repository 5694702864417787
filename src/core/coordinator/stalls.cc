#include "core/coordinator/stalls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/planted_bug.h"

namespace helix::core {
namespace {

std::string seconds_text(Duration duration) {
    return std::to_string(duration.ns / 1'000'000'000) + " s";
}

}  // namespace

// The request may have been accepted when there was more room. It had better end late, or with an
// error, than with fewer tokens than were asked for.
bool Stalls::still_fits(TimePoint now, RequestState& state, std::int64_t capacity_now,
                        std::int64_t lasting) {
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    // Without a limit of its own it takes what it will also have in the placement that comes next,
    // if that is enough.
    state.max_output =
        room_.output_limit(state, state.request.max_tokens > 0 ? capacity_now : lasting);
    if (static_cast<std::int64_t>(longest) >= state.max_output)
        state.max_output = room_.output_limit(state, capacity_now);
    if (state.max_output >= state.request.max_tokens &&
        static_cast<std::int64_t>(longest) < state.max_output) {
        state.unfit_since.reset();
        return true;
    }
    // A placement that can hold it is on its way.
    const bool soon = placements_.pending() && placements_.pending()->stepping &&
                      room_.pending_holds(KvDemand::of(state, demand_.blocks_to_end(state))) &&
                      now - placements_.pending()->step_since < config_.stall_timeout;
    if (soon) state.unfit_since.reset();
    if (!state.unfit_since) state.unfit_since = now;
    if (now - *state.unfit_since > config_.unserved_timeout) {
        life_.fail(
            state.request.id, FinishReason::error, FailureCause::shrunk,
            "the cluster has shrunk: this request does not fit any more, and no worker came for " +
                seconds_text(config_.unserved_timeout));
    }
    return false;
}

// Progress only puts a stall off, so apart from those that were overdue at the last look at all
// nobody is late before the first who was due then.
std::vector<RequestId> Stalls::stalled(TimePoint now) {
    const auto may_stall = [](const RequestState& state) {
        const bool stands = !state.running || state.swapped;
        return !stands || base::planted(base::PlantedBug::timer_not_stopped);
    };
    const auto is_stalled = [&](const RequestState& state) {
        return now - state.last_progress > config_.stall_timeout || lost_rows(now, state);
    };
    std::vector<RequestId> found;
    if (now < no_stall_before_) {
        for (const RequestId id : overdue_) {
            const RequestState* state = requests_.by_id(id);
            if (state != nullptr && may_stall(*state) && is_stalled(*state)) found.push_back(id);
        }
        return found;
    }
    const Duration soonest = std::min(config_.stall_timeout, config_.lost_rows_timeout);
    TimePoint oldest = now;
    overdue_.clear();
    for (const auto& [id, state] : requests_) {
        if (!may_stall(state)) continue;
        if (is_stalled(state)) {
            found.push_back(id);
        } else if (now - state.last_progress < soonest) {
            oldest = std::min(oldest, state.last_progress);
        } else {
            overdue_.push_back(id);
        }
    }
    no_stall_before_ = oldest + soonest;
    return found;
}

void Stalls::end_stalled(TimePoint now) {
    for (const RequestId id : stalled(now)) {
        RequestState& state = requests_.at(id);
        if (!state.trouble_since) state.trouble_since = state.last_progress;
        const Duration silent = now - *state.trouble_since;
        if (state.running && silent < config_.stall_timeout + config_.stall_timeout) {
            life_.fail_over(now, state, RouteReason::no_token);
            continue;
        }
        life_.fail(id, FinishReason::error, FailureCause::stalled,
                   "no token for " + seconds_text(silent) +
                       " although it was tried again: the pipelines are stuck");
    }
}

// No placement serves, but nobody is left waiting for ever.
void Stalls::end_unserved(TimePoint now) {
    if (queue_.waiting().empty() || (placements_.epoch() != 0 && room_.capacity() > 0)) return;
    // A placement comes, however long its workers take to become free and to load.
    if (placements_.pending() && placements_.pending()->stepping &&
        now - placements_.pending()->step_since < config_.stall_timeout) {
        served_last_ = now;
        return;
    }
    std::vector<RequestId> late;
    for (const auto& [key, id] : queue_.waiting()) {
        // A request that waited while others ran has not waited for a placement.
        const TimePoint since = std::max(served_last_, requests_.at(id).last_progress);
        if (now - since > config_.unserved_timeout) late.push_back(id);
    }
    const std::string message = "no placement can serve: " + std::to_string(fleet_.size()) +
                                " worker(s) joined, " +
                                (links_.any_down() ? "and some of them do not reach each other"
                                                   : "not enough to hold the model");
    for (const RequestId id : late) {
        if (requests_.at(id).accepted) {
            life_.fail(id, FinishReason::error, FailureCause::unserved, message);
        } else {
            life_.reject(id, RejectReason::unavailable, message);
        }
    }
}

void Stalls::pass_verdicts(TimePoint now) {
    for (const RequestId id : suspects_.guilty(now)) {
        life_.fail(
            id, FinishReason::kills_workers, FailureCause::kills_workers,
            std::to_string(kMostDeaths) +
                " workers died while they ran this request, one after the other, the last with "
                "nothing else to do: it is not tried again");
    }
}

// Rows are under way, but long after they were sent no stage has any that wait: they were lost with
// a link.
bool Stalls::lost_rows(TimePoint now, const RequestState& state) const {
    if (state.rows_going == 0 || now - state.last_progress < config_.lost_rows_timeout)
        return false;
    const TimePoint long_after = state.last_progress + Duration{config_.lost_rows_timeout.ns / 2};
    return std::all_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
        const WorkerState& worker = fleet_.at(stage.worker);
        return worker.reported_at > long_after && worker.last_report.waiting_rows == 0;
    });
}

}  // namespace helix::core

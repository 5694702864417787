#include "core/coordinator/preempter.h"

#include <algorithm>
#include <utility>

namespace helix::core {

void Preempter::on_stuck(TimePoint now, WorkerId worker, const SequenceStuck& message) {
    const auto it = requests_.find(message.key.request);
    if (it == requests_.end() || !it->second.running || it->second.attempt != message.key.attempt) {
        return;
    }
    // The worker must be a stage of it.
    if (!fleet_.at(worker).kv.charge_of(message.key.request)) return;
    if (message.cause == StuckCause::out_of_pages) {
        preempt_one(now, worker);
    } else if (message.cause == StuckCause::no_swap_space) {
        if (it->second.swapped) set_back(it->second);
    } else if (message.cause == StuckCause::prefix_lost) {
        life_.restart_without_prefix(it->second);
    } else {
        const bool invalid = message.cause == StuckCause::invalid_request;
        life_.fail(message.key.request,
                   invalid ? FinishReason::invalid_request : FinishReason::error,
                   FailureCause::worker_failed,
                   "worker " + fleet_.at(worker).joined.node.name + ": " + message.reason);
    }
}

// Swapped requests come back in order until the first that finds no room.
void Preempter::swap_in(TimePoint now) {
    while (!swaps_.all().empty() && !preempted_in_step_) {
        RequestState& state = requests_.at(swaps_.all().begin()->second);
        const bool fits =
            std::all_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
                return fleet_.at(stage.worker)
                    .kv.can_add(room_.expected_pages(state, stage), config_.policy.kv_high_water);
            });
        if (!fits) return;
        swaps_.end_swap(state);
        swapped_in_in_step_ = true;
        migrations_.charge(state);
        state.last_progress = now;
        swaps_.tell_back(now, state);
        if (state.group) {
            tokens_.resume_group(now, state);
        } else if (state.rows_going == 0 && !speculation_.runs_ahead(state)) {
            speculation_.continue_decoding(now, state);
        }
    }
}

// The request of the lowest priority, and among these the latest to arrive, gives its pages back.
void Preempter::preempt_one(TimePoint now, WorkerId worker) {
    const auto last = last_preemption_.find(worker);
    if (last != last_preemption_.end() && now - last->second < config_.preemption_pause) return;
    if (migrations_.give_up_move_to(now, worker)) {
        last_preemption_[worker] = now;
        preempted_in_step_ = true;
        return;
    }
    const KvEstimate& kv = fleet_.at(worker).kv;
    RequestState* victim = nullptr;
    for (const auto& [id, pages] : kv.charges()) {
        RequestState& state = requests_.at(id);
        if (state.swapped) continue;
        if (victim == nullptr || queue_key(*victim) < queue_key(state)) victim = &state;
    }
    if (victim == nullptr) return;  // all are on their way out
    last_preemption_[worker] = now;
    const bool has_output =
        !victim->output.empty() || (victim->group && victim->group->longest_output() > 0);
    if (kv.requests() - kv.swapped() == 1 && has_output) {
        // The request is alone and still out of pages: pages of ended requests are on their way
        // back, or the worker has less than it said. Recomputing would not help, so the request
        // stays and is tried again at the next report.
        return;
    }
    if (swaps_.can_swap_out(*victim)) {
        if (victim->migration)
            migrations_.abort_migration(now, *victim,
                                        {MigrationCause::preempted, "it was preempted"});
        swap_out(*victim);
    } else {
        set_back(*victim);
    }
}

// The request goes back to its place in the queue, and will recompute.
void Preempter::set_back(RequestState& state) {
    ++preemptions_;
    preempted_in_step_ = true;
    life_.restart(state, RouteReason::preempted);
}

void Preempter::swap_out(RequestState& state) {
    ++preemptions_;
    preempted_in_step_ = true;
    if (state.drafting) state.drafting->asked = false;  // anew when it is back
    swaps_.swap_out(state);
}

std::optional<TimePoint> Preempter::last_at(WorkerId worker) const {
    const auto last = last_preemption_.find(worker);
    if (last == last_preemption_.end()) return {};
    return last->second;
}

std::string Preempter::check() const {
    const bool both = preempted_in_step_ && swapped_in_in_step_;
    return both ? "swapped in and preempted in one step" : "";
}

}  // namespace helix::core

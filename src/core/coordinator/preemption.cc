// Who gives KV pages back when a worker has none left, how, and how it comes back (FEATURES
// V8-V10).

#include <algorithm>

#include "base/check.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {

// What it has in pages now, for one layer; beams, which share more, have less.
std::int64_t Coordinator::Impl::blocks_held(const RequestState& state) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    if (!state.group) {
        return blocks_for(prompt + static_cast<std::int64_t>(state.output.size()));
    }
    const std::int64_t shared = prompt / config.block_size;
    std::int64_t blocks = shared;
    for (const GroupMember& member : state.group->members) {
        const std::int64_t tokens = prompt + static_cast<std::int64_t>(member.output.size());
        blocks += blocks_for(tokens) - shared;
    }
    return blocks;
}

bool Coordinator::Impl::can_swap_out(const RequestState& state) const {
    if (config.preemption == Preemption::recompute) return false;
    const bool several = state.group && state.group->members.size() > 1;
    if (config.preemption == Preemption::automatic && !several) return false;
    // Before its first token not every stage knows it.
    if (state.prompt_rows > 0) return false;
    const std::int64_t blocks = blocks_held(state);
    return std::all_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
        const WorkerState& worker = workers.at(stage.worker);
        return worker.swap_used + blocks * stage.layers.size() <= worker.swap_total;
    });
}

// The request of the lowest priority, among them the latest to arrive, gives its pages back.
void Coordinator::Impl::preempt_one(TimePoint now, WorkerId worker,
                                    std::vector<CoordinatorAction>& actions) {
    const auto last = last_preemption.find(worker);
    if (last != last_preemption.end() && now - last->second < config.preemption_pause) return;
    if (give_up_move_to(now, worker, actions)) {
        last_preemption[worker] = now;
        preempted_in_step = true;
        return;
    }
    const KvEstimate& kv = workers.at(worker).kv;
    RequestState* victim = nullptr;
    for (const auto& [id, pages] : kv.charges()) {
        RequestState& state = requests.at(id);
        if (state.swapped) continue;
        if (victim == nullptr || queue_key(*victim) < queue_key(state)) victim = &state;
    }
    if (victim == nullptr) return;  // all on their way out
    last_preemption[worker] = now;
    const bool has_output =
        !victim->output.empty() || (victim->group && victim->group->longest_output() > 0);
    if (kv.requests() - kv.swapped() == 1 && has_output) {
        // Alone and still out of pages: pages of ended requests are on their way back, or the
        // worker has less than it said. Recomputing would not help; it stays and is tried again at
        // the next report.
        return;
    }
    if (can_swap_out(*victim)) {
        if (victim->migration) abort_migration(now, *victim, "it was preempted", actions);
        swap_out(*victim, actions);
    } else {
        set_back(*victim, actions);
    }
}

// Back to its place in the queue: it will recompute.
void Coordinator::Impl::set_back(RequestState& state, std::vector<CoordinatorAction>& actions) {
    ++preemptions;
    preempted_in_step = true;
    restart(state, actions);
}

void Coordinator::Impl::swap_out(RequestState& state, std::vector<CoordinatorAction>& actions) {
    ++preemptions;
    preempted_in_step = true;
    state.swapped = true;
    if (state.guessing) state.guessing->asked = false;  // anew when it is back
    state.swapped_blocks = blocks_held(state);
    swapped.emplace(queue_key(state), state.request.id);
    for (const Stage& stage : state.pipeline) {
        WorkerState& worker = workers.at(stage.worker);
        worker.kv.set(state.request.id, 0);
        worker.swap_used += state.swapped_blocks * stage.layers.size();
    }
    to_stages(state, SwapSequences{true, keys_at_workers(state)}, actions);
}

void Coordinator::Impl::end_swap(RequestState& state) {
    CHECK(state.swapped);
    state.swapped = false;
    swapped.erase(queue_key(state));
    for (const Stage& stage : state.pipeline) {
        workers.at(stage.worker).swap_used -= state.swapped_blocks * stage.layers.size();
    }
    state.swapped_blocks = 0;
}

// In order, until the first that finds no room.
void Coordinator::Impl::swap_in(TimePoint now, std::vector<CoordinatorAction>& actions) {
    while (!swapped.empty() && !preempted_in_step) {
        RequestState& state = requests.at(swapped.begin()->second);
        const bool fits =
            std::all_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
                return workers.at(stage.worker)
                    .kv.can_add(expected_pages(state, stage), config.kv_high_water);
            });
        if (!fits) return;
        end_swap(state);
        swapped_in_in_step = true;
        charge(state);
        state.last_progress = now;
        swapped_in[state.request.id] = now;
        to_stages(state, SwapSequences{false, keys_at_workers(state)}, actions);
        if (state.group) {
            resume_group(now, state, actions);
        } else if (state.rows_going == 0 && !runs_ahead(state)) {
            continue_decoding(now, state, actions);
        }
    }
}

// Where the message was lost, or an older one was delivered again after it, the sequences would
// stay in host memory for ever.
void Coordinator::Impl::repeat_swap_in(TimePoint now, std::vector<CoordinatorAction>& actions) {
    for (auto& [id, said] : swapped_in) {
        const RequestState& state = requests.at(id);
        if (state.swapped || now - std::max(said, state.last_progress) < config.assign_repeat) {
            continue;
        }
        said = now;
        to_stages(state, SwapSequences{false, keys_at_workers(state)}, actions);
    }
}

}  // namespace helix::core

#include "core/coordinator/swaps.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace helix::core {

bool Swaps::can_swap_out(const RequestState& state) const {
    if (config_.preemption == Preemption::recompute) return false;
    const bool several = state.group && state.group->members.size() > 1;
    if (config_.preemption == Preemption::automatic && !several) return false;
    // Before its first token not every stage knows the request.
    if (state.prompt_rows > 0) return false;
    return fits(state, state.pipeline);
}

bool Swaps::fits(const RequestState& state, const Pipeline& pipeline) const {
    const BlockDemand held = KvDemand::of(state, demand_.blocks_held(state));
    return std::all_of(pipeline.begin(), pipeline.end(), [&](const Stage& stage) {
        const WorkerState& worker = fleet_.at(stage.worker);
        return worker.swap_used + demand_.pages(held, stage.layers) <= worker.swap_total;
    });
}

std::int64_t Swaps::pages_swapped(const RequestState& state, const Stage& stage) const {
    return demand_.pages(KvDemand::of(state, state.swapped_blocks), stage.layers);
}

void Swaps::end_swap(RequestState& state) {
    CHECK(state.swapped);
    state.swapped = false;
    swapped_.erase(queue_key(state));
    for (const Stage& stage : state.pipeline) {
        fleet_.at(stage.worker).swap_used -= pages_swapped(state, stage);
    }
    state.swapped_blocks = 0;
}

// If the message was lost, or an older one was delivered again after it, the sequences would stay
// in host memory for ever without this.
void Swaps::repeat_swap_in(TimePoint now) {
    for (auto& [id, said] : swapped_in_) {
        const RequestState& state = requests_.at(id);
        if (state.swapped || now - std::max(said, state.last_progress) < config_.assign_repeat) {
            continue;
        }
        said = now;
        stages_.to_stages(state, SwapSequences{false, stages_.keys_at_workers(state)});
    }
}

void Swaps::swap_out(RequestState& state) {
    state.swapped = true;
    state.swapped_blocks = demand_.blocks_held(state);
    swapped_.emplace(queue_key(state), state.request.id);
    for (const Stage& stage : state.pipeline) {
        WorkerState& worker = fleet_.at(stage.worker);
        worker.kv.set(state.request.id, 0);
        worker.swap_used += pages_swapped(state, stage);
    }
    stages_.to_stages(state, SwapSequences{true, stages_.keys_at_workers(state)});
}

void Swaps::tell_back(TimePoint now, const RequestState& state) {
    swapped_in_[state.request.id] = now;
    stages_.to_stages(state, SwapSequences{false, stages_.keys_at_workers(state)});
}

std::string Swaps::check() const {
    std::map<WorkerId, std::int64_t> used;
    std::size_t count = 0;
    for (const auto& [id, request] : requests_) count += request.swapped ? 1U : 0U;
    if (count != swapped_.size()) return "a swapped request is not listed";
    for (const auto& [key, id] : swapped_) {
        const RequestState* request = requests_.by_id(id);
        if (request == nullptr || !request->swapped || !request->running ||
            queue_key(*request) != key) {
            return "a swapped request that is not";
        }
        for (const Stage& stage : request->pipeline) {
            used[stage.worker] += pages_swapped(*request, stage);
        }
    }
    for (const auto& [id, worker] : fleet_) {
        if (worker.swap_used != used[id]) return "swap space does not add up";
    }
    for (const auto& [id, said] : swapped_in_) {
        const RequestState* request = requests_.by_id(id);
        if (request == nullptr || !request->running) return "swapped in, but does not run";
    }
    return "";
}

}  // namespace helix::core

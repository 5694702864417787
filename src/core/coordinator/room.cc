// What accepted requests may still need, and whether the placements to come have it: a worker is
// not emptied, and no placement begins, while that would leave one of them without a place. New
// requests are measured by the smaller of the two.

#include <algorithm>
#include <limits>

#include "core/coordinator/coordinator_state.h"
#include "core/kv/admission.h"

namespace helix::core {

// As workers are now: those that are drained too, but not those that are about to load.
bool Coordinator::Impl::holds_now(std::int64_t blocks, bool drained_too) const {
    return router->can_route([&](WorkerId id, LayerRange layers) {
        const auto it = workers.find(id);
        if (it == workers.end() || !it->second.ready || !it->second.layers.contains(layers))
            return false;
        if (pending && pending->step.contains(id)) return false;
        if (it->second.draining && !drained_too) return false;
        return blocks * layers.size() <= most_pages(id);
    });
}

// Workers that have not loaded their new layers are believed to have what the planner says.
bool Coordinator::Impl::pending_holds(std::int64_t blocks) const {
    if (pending->ways == nullptr) return true;  // the first one, from before a restart
    return pending->ways->can_route([&](WorkerId id, LayerRange layers) {
        const std::int64_t total = pages_in_pending(id);
        return blocks * layers.size() <= total - kv_watermark(total);
    });
}

std::int64_t Coordinator::Impl::pages_in_pending(WorkerId id) const {
    const auto at = std::find(pending->workers.begin(), pending->workers.end(), id);
    const auto i = static_cast<std::size_t>(at - pending->workers.begin());
    const std::int64_t has = workers.at(id).kv.total();
    if (!pending->changed.contains(id)) return has;
    if (i < pending->kv_pages.size()) return pending->kv_pages[i];
    return has > 0 ? has : std::numeric_limits<std::int32_t>::max();
}

std::int64_t Coordinator::Impl::blocks_to_end(const RequestState& state) const {
    if (state.running) return blocks_needed(state, state.max_output);
    if (state.request.max_tokens > 0) return blocks_needed(state, state.request.max_tokens);
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    return blocks_needed(state, static_cast<std::int64_t>(longest) + 1);
}

std::optional<RequestId> Coordinator::Impl::left_without_room(const HoldsBlocks& later) const {
    std::int64_t most = 0;
    for (const auto& [id, state] : requests) {
        if (state.accepted) most = std::max(most, blocks_to_end(state));
    }
    if (most == 0 || later(most)) return {};
    std::optional<RequestId> found;
    std::int64_t need = 0;
    for (const auto& [id, state] : requests) {
        if (!state.accepted) continue;
        const std::int64_t blocks = blocks_to_end(state);
        // What has no place as it is loses none.
        if (blocks <= need || later(blocks) || !holds_now(blocks, true)) continue;
        found = id;
        need = blocks;
    }
    return found;
}

bool Coordinator::Impl::waits_for_room(std::vector<CoordinatorAction>& actions) {
    if (pending->waits_for && requests.contains(*pending->waits_for)) return true;
    const bool told = pending->waits_for.has_value();
    pending->waits_for.reset();
    if (epoch_in_force == 0 || capacity() == 0) return false;
    pending->waits_for =
        left_without_room([this](std::int64_t blocks) { return pending_holds(blocks); });
    if (pending->waits_for && !told) {
        actions.push_back(
            Report{"a new placement waits: " + waits_text(*pending->waits_for), false});
    }
    return pending->waits_for.has_value();
}

std::string Coordinator::Impl::waits_text(RequestId id) const {
    const RequestState& state = *requests.by_id(id);
    return "a request of up to " +
           std::to_string(blocks_to_end(state) * static_cast<std::int64_t>(config.block_size)) +
           " tokens has to end first: nothing else could hold it";
}

// A request accepted now must also fit what comes next.
bool Coordinator::Impl::holds_later(std::int64_t blocks) const {
    if (pending && !pending_holds(blocks)) return false;
    return !drains_wait_for || holds_now(blocks, false);
}

std::int64_t Coordinator::Impl::lasting_capacity(std::int64_t capacity_now) const {
    if (!pending && !drains_wait_for) return capacity_now;
    std::int64_t low = 0;
    std::int64_t high = blocks_for(capacity_now);
    while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (holds_later(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return std::min<std::int64_t>(low * config.block_size, capacity_now);
}

}  // namespace helix::core

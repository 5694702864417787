#include "core/coordinator/room.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/kv/admission.h"

namespace helix::core {

namespace {

using spec::NodeRole;

// This many tokens come where only prompts are computed until the request has been handed over.
constexpr std::int64_t kBeforeMove = 32;

}  // namespace

bool Room::could_hold(WorkerId worker, LayerRange layers, const BlockDemand& demand) const {
    return placements_.usable(worker, layers) &&
           demand_.most_pages(demand, layers) <= fleet_.most_pages(worker);
}

StageFits Room::could_hold(const RequestState& state) const {
    const BlockDemand full = KvDemand::of(state, demand_.blocks_needed(state, state.max_output));
    const bool apart = prefilled_apart(state);
    return [this, full, apart](WorkerId worker, LayerRange layers) {
        if (apart && fleet_.has_role(worker, NodeRole::decode)) return false;
        return could_hold(worker, layers, full);
    };
}

bool Room::holds(const BlockDemand& demand) const {
    return placements_.router()->can_route(
        [&](WorkerId worker, LayerRange layers) { return could_hold(worker, layers, demand); });
}

const PlacementAbility& Room::ability() const {
    const bool known = derived_ && derived_->fleet == fleet_.version() &&
                       derived_->placements == placements_.version();
    if (!known) {
        const PlacementAbility now = {capacity_tokens(), find_roles_kept()};
        derived_ = Derived{fleet_.version(), placements_.version(), now};
    }
    return derived_->ability;
}

bool Room::roles_kept() const {
    return fleet_.any_roles() && placements_.epoch() != 0 && ability().roles;
}

bool Room::only_prefills(WorkerId worker) const {
    return fleet_.any_roles() && fleet_.has_role(worker, NodeRole::prefill) && roles_kept();
}

bool Room::prefilled_apart(const RequestState& state) const {
    if (!roles_kept()) return false;
    const BlockDemand full = KvDemand::of(state, demand_.blocks_needed(state, state.max_output));
    return placements_.router()->can_route([&](WorkerId worker, LayerRange layers) {
        return !fleet_.has_role(worker, NodeRole::decode) && could_hold(worker, layers, full);
    });
}

std::int64_t Room::expected_pages(const RequestState& state, const Stage& stage) const {
    std::int64_t blocks = demand_.expected_blocks(state, state.prefix.cached);
    if (only_prefills(stage.worker)) {
        const auto so_far = static_cast<std::int64_t>(state.group ? state.group->longest_output()
                                                                  : state.output.size());
        const std::int64_t output = std::min<std::int64_t>(state.max_output, so_far + kBeforeMove);
        blocks = std::min(blocks, demand_.blocks_needed(state, output) -
                                      state.prefix.cached / config_.block_size);
    }
    return demand_.pages(KvDemand::of(state, blocks), stage.layers);
}

std::int32_t Room::output_limit(const RequestState& state, std::int64_t capacity_now) const {
    const auto prompt = static_cast<std::int64_t>(state.request.prompt.size());
    const std::int64_t room = capacity_now - prompt;
    std::int64_t high = std::min<std::int64_t>(
        state.request.max_tokens > 0 ? state.request.max_tokens : room, room);
    const auto fits = [&](std::int64_t output) {
        return holds(KvDemand::of(state, demand_.blocks_needed(state, output)));
    };
    if (!state.group || high <= 0 || fits(high)) return static_cast<std::int32_t>(high);
    std::int64_t low = 0;  // the prompt alone fits
    while (low + 1 < high) {
        const std::int64_t middle = (low + high) / 2;
        (fits(middle) ? low : high) = middle;
    }
    return static_cast<std::int32_t>(low);
}

std::optional<RequestId> Room::left_without_room(const HoldsBlocks& later) const {
    std::int64_t most = 0;       // of requests of one sequence,
    std::int64_t most_kept = 0;  // and of those that keep all
    for (const auto& [id, state] : requests_) {
        if (!state.accepted) continue;
        std::int64_t& most_of_kind = state.group ? most_kept : most;
        most_of_kind = std::max(most_of_kind, demand_.blocks_to_end(state));
    }
    const bool all_fit =
        (most == 0 || later(most)) && (most_kept == 0 || later(BlockDemand(most_kept, true)));
    if (all_fit) return {};
    std::optional<RequestId> found;
    std::int64_t need = 0;
    for (const auto& [id, state] : requests_) {
        if (!state.accepted) continue;
        const BlockDemand demand = KvDemand::of(state, demand_.blocks_to_end(state));
        const std::int64_t pages = demand_.most_pages(demand, {0, config_.n_layers});
        // A request that has no place as things are loses none.
        if (pages <= need || later(demand) || !holds_now(demand, true)) continue;
        found = id;
        need = pages;
    }
    return found;
}

bool Room::waits_for_room() {
    PendingPlacement& next = placements_.transition();
    if (next.waits_for && requests_.contains(*next.waits_for)) return true;
    const bool told = next.waits_for.has_value();
    next.waits_for.reset();
    if (placements_.epoch() == 0 || capacity() == 0) return false;
    next.waits_for =
        left_without_room([this](const BlockDemand& demand) { return pending_holds(demand); });
    if (next.waits_for && !told) {
        out_.push(Report{"a new placement waits: " + waits_text(*next.waits_for), false});
    }
    return next.waits_for.has_value();
}

std::string Room::waits_text(RequestId id) const {
    const RequestState& state = *requests_.by_id(id);
    return "a request of up to " +
           std::to_string(demand_.blocks_to_end(state) *
                          static_cast<std::int64_t>(config_.block_size)) +
           " tokens has to end first: nothing else could hold it";
}

// A request that is accepted now must also fit what comes next.
bool Room::holds_later(const BlockDemand& demand) const {
    if (placements_.pending() && !pending_holds(demand)) return false;
    return !fleet_.drain_waits_for() || holds_now(demand, false);
}

// This takes workers as they are now: drained ones too, but not those that are about to load.
bool Room::holds_now(const BlockDemand& demand, bool drained_too) const {
    return placements_.router()->can_route([&](WorkerId id, LayerRange layers) {
        const auto it = fleet_.find(id);
        if (it == fleet_.end() || !it->second.ready || !it->second.layers.contains(layers))
            return false;
        if (placements_.pending() && placements_.pending()->step.contains(id)) return false;
        if (it->second.draining && !drained_too) return false;
        return demand_.most_pages(demand, layers) <= fleet_.most_pages(id);
    });
}

// Workers that have not loaded their new layers are believed to have what the planner says.
bool Room::pending_holds(const BlockDemand& demand) const {
    const PendingPlacement& next = *placements_.pending();
    if (next.ways == nullptr) return true;  // it is the first, from before a restart
    return next.ways->can_route([&](WorkerId id, LayerRange layers) {
        const std::int64_t total = pages_in_pending(id);
        return demand_.most_pages(demand, layers) <= total - kv_watermark(total);
    });
}

std::int64_t Room::lasting_capacity(std::int64_t capacity_now) const {
    if (!placements_.pending() && !fleet_.drain_waits_for()) return capacity_now;
    std::int64_t low = 0;
    std::int64_t high = demand_.blocks_for(capacity_now);
    while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (holds_later(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return std::min<std::int64_t>(low * config_.block_size, capacity_now);
}

std::int64_t Room::capacity_tokens() const {
    std::int64_t low = 0;
    std::int64_t high = demand_.blocks_for(config_.context_length);
    if (!holds(1)) return 0;
    while (low < high) {
        const std::int64_t middle = (low + high + 1) / 2;
        if (holds(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return std::min<std::int64_t>(low * config_.block_size, config_.context_length);
}

std::int64_t Room::pages_in_pending(WorkerId id) const {
    const PendingPlacement& next = *placements_.pending();
    const auto at = std::find(next.workers.begin(), next.workers.end(), id);
    const auto i = static_cast<std::size_t>(at - next.workers.begin());
    const std::int64_t has = fleet_.at(id).kv.total();
    if (!next.changed.contains(id)) return has;
    if (i < next.kv_pages.size()) return next.kv_pages[i];
    return has > 0 ? has : std::numeric_limits<std::int32_t>::max();
}

bool Room::find_roles_kept() const {
    if (!fleet_.any_roles()) return false;
    const auto path_without = [&](NodeRole role) {
        return placements_.router()->can_route([&](WorkerId worker, LayerRange layers) {
            return placements_.usable(worker, layers) && !fleet_.has_role(worker, role);
        });
    };
    return path_without(NodeRole::decode) && path_without(NodeRole::prefill);
}

}  // namespace helix::core

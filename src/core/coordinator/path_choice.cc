#include "core/coordinator/path_choice.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace helix::core {
namespace {

constexpr std::int64_t kPagesFromGroups = 8;  // an eighth of a worker's KV memory

}  // namespace

// The request must stay where it is while the result is used: what may change of it is looked up
// when a stage is asked about.
StageFits PathChoice::fits_for(const RequestState& state) const {
    return [this, could = room_.could_hold(state), &state](WorkerId worker, LayerRange layers) {
        if (!could(worker, layers) || !suspects_.keeps_apart(state, worker)) return false;
        const std::int64_t kept = std::max(is_high(state) ? 0 : headroom_pages(worker),
                                           pages_left_by_groups(state, worker));
        const KvEstimate& kv = fleet_.at(worker).kv;
        const bool idle = kv.requests() == 0;
        return kv.can_add(room_.expected_pages(state, {worker, layers}) + (idle ? 0 : kept),
                          config_.policy.kv_high_water);
    };
}

// A group may lose members while it waits, and what a suspect may do follows from others. For all
// else it is who has how much memory where.
std::optional<PathChoice::NoWay> PathChoice::what_decides(
    const RequestState& state, const std::vector<PrefixHit>& hits) const {
    if (!hits.empty() || state.group || is_suspect(state) || suspects_.quarantine()) {
        return std::nullopt;
    }
    return NoWay{state.request.id, state.max_output, fleet_.touched(), placements_.version(),
                 demand_.mean_output()};
}

Path PathChoice::route(TimePoint now, RequestState& state) {
    const std::vector<PrefixHit> hits = prefixes_.prefix_hits(state);
    const std::optional<NoWay> decides = what_decides(state, hits);
    if (decides && decides == no_way_) return {};
    const StageFits fits = fits_for(state);
    Path path = prefixes_.prefer_prefix(state, hits, fits);
    if (path.empty()) {
        const RoutedRequest request{state.request.id, now, length(state), state.request.priority,
                                    queue_.sequences_running() > 0};
        const WorkerLoads loads = loads_.for_router();
        if (room_.roles_kept())
            path = placements_.router()->route(request, roles_.prefill_only(fits), loads);
        if (path.empty()) path = placements_.router()->route(request, fits, loads);
        for (const PrefixHit& hit : hits) {
            if (hit.path == path) state.prefix.cached = hit.blocks * config_.block_size;
        }
    }
    no_way_ = path.empty() ? decides : std::nullopt;
    CHECK(path.empty() || placements_.router()->graph().is_path(path));
    return path;
}

std::int64_t PathChoice::headroom_pages(WorkerId worker) const {
    const WorkerState& state = fleet_.at(worker);
    const bool here = std::any_of(queue_.high_running().begin(), queue_.high_running().end(),
                                  [&](RequestId id) { return state.kv.charge_of(id).has_value(); });
    if (!here) return 0;
    return static_cast<std::int64_t>(config_.balance.headroom *
                                     static_cast<double>(state.kv.total()));
}

std::int64_t PathChoice::pages_left_by_groups(const RequestState& state, WorkerId worker) const {
    return state.group ? fleet_.at(worker).kv.total() / kPagesFromGroups : 0;
}

}  // namespace helix::core

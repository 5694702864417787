// Workers with roles (prefill/decode disaggregation): prompts are computed on some, what comes
// after the first token on others.
//
// A request starts on workers that may prefill, by preference on those that do nothing else. When
// its first token has come it is handed over: a migration like any other, to a path of workers that
// may decode, of the router's choice. It decodes where it is until that is committed. A hand-over
// that finds no room, or that fails, is tried again.
//
// Roles are kept while there is both a path of workers that may prefill and one of workers that may
// decode. While there is not, every worker computes whatever the router gives it. A request that no
// path of workers that may prefill could ever hold starts anywhere, too.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"
#include "core/coordinator/coordinator_state.h"

namespace helix::core {
namespace {

using spec::NodeRole;

constexpr Duration kLookAgain = base::from_ms(100);  // where there was no room
constexpr int kMostRoleTries = 64;                   // to find a way, in one look
// A hand-over that failed is tried again after so long, then after twice that, ...
constexpr Duration kFirstPause = base::from_ms(100);
constexpr Duration kLongestPause = base::from_ms(3200);

// With more to come than the token that is under way.
bool goes_on(const RequestState& state) {
    const std::size_t longest = state.group ? state.group->longest_output() : state.output.size();
    return static_cast<std::int64_t>(longest) + 1 < state.max_output;
}

}  // namespace

// ---- whether roles are kept
// ---------------------------------------------------------------------------

bool Coordinator::Impl::has_role(WorkerId worker, NodeRole role) const {
    const auto it = workers.find(worker);
    return it != workers.end() && it->second.joined.node.role == role;
}

bool Coordinator::Impl::find_roles_kept() const {
    if (!any_roles) return false;
    const auto path_without = [&](NodeRole role) {
        return router->can_route([&](WorkerId worker, LayerRange layers) {
            return usable(worker, layers) && !has_role(worker, role);
        });
    };
    return path_without(NodeRole::decode) && path_without(NodeRole::prefill);
}

bool Coordinator::Impl::roles_kept() const {
    return any_roles && epoch_in_force != 0 && ability().roles;
}

bool Coordinator::Impl::only_prefills(WorkerId worker) const {
    return any_roles && has_role(worker, NodeRole::prefill) && roles_kept();
}

bool Coordinator::Impl::gains_roles(const Planned& event) const {
    if (!any_roles || roles_kept()) return false;
    std::vector<PipelineNode> nodes;
    for (std::size_t i = 0; i < plan_workers.size(); ++i) {
        nodes.push_back({plan_workers[i], event.placement.layers[i]});
    }
    std::vector<PipelineEdge> edges;
    for (const spec::LinkFlow& flow : event.flows) {
        edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
    }
    const PipelineGraph graph(config.n_layers, std::move(nodes), edges);
    const auto path_without = [&](NodeRole role) {
        return graph.reachable(
            [&](WorkerId worker, LayerRange) { return !has_role(worker, role); });
    };
    return path_without(NodeRole::decode) && path_without(NodeRole::prefill);
}

void Coordinator::Impl::note_roles() {
    any_roles = std::any_of(workers.begin(), workers.end(), [](const auto& worker) {
        return worker.second.joined.node.role != NodeRole::both;
    });
    if (!any_roles) roles_said.reset();
}

void Coordinator::Impl::tell_roles(std::vector<CoordinatorAction>& actions) {
    if (!any_roles || epoch_in_force == 0 || roles_said == roles_kept()) return;
    roles_said = roles_kept();
    if (*roles_said) {
        actions.push_back(Report{"workers keep to their roles: prompts are computed apart", false});
        return;
    }
    const bool prefill = router->can_route([&](WorkerId worker, LayerRange layers) {
        return usable(worker, layers) && !has_role(worker, NodeRole::decode);
    });
    actions.push_back(
        Report{std::string("roles are not kept: the workers that may ") +
                   (prefill ? "decode" : "prefill") +
                   " do not hold the whole model; every worker computes prompts and what follows",
               true, ReportCause::roles_not_kept});
}

// ---- where a request starts
// ---------------------------------------------------------------------------

bool Coordinator::Impl::prefilled_apart(const RequestState& state) const {
    if (!roles_kept()) return false;
    const std::int64_t full = blocks_needed(state, state.max_output);
    return router->can_route([&](WorkerId worker, LayerRange layers) {
        return usable(worker, layers) && !has_role(worker, NodeRole::decode) &&
               full * layers.size() <= most_pages(worker);
    });
}

StageFits Coordinator::Impl::prefill_only(const StageFits& fits) const {
    return [this, fits](WorkerId worker, LayerRange layers) {
        return has_role(worker, NodeRole::prefill) && fits(worker, layers);
    };
}

// ---- where it goes on
// ---------------------------------------------------------------------------------

bool Coordinator::Impl::is_where_prompts_are(const RequestState& state) const {
    return std::any_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
        return has_role(stage.worker, NodeRole::prefill);
    });
}

void Coordinator::Impl::note_prefilled(TimePoint now, const RequestState& state) {
    if (!any_roles || !state.running) return;
    // Workers of both roles keep what they began unless the router would rather have it decoded by
    // those that do nothing else.
    const bool may_stay = !is_where_prompts_are(state);
    const bool stays = std::none_of(workers.begin(), workers.end(), [](const auto& worker) {
        return worker.second.joined.node.role == NodeRole::decode;
    });
    if (may_stay && stays) return;
    handovers.emplace(queue_key(state), state.request.id);
    next_handover = now;
}

void Coordinator::Impl::note_place(const RequestState& state) {
    if (state.running && is_where_prompts_are(state)) {
        handovers.emplace(queue_key(state), state.request.id);
    } else {
        handovers.erase(queue_key(state));
    }
    next_handover = step_at;  // there is room where it was
}

void Coordinator::Impl::note_handover_failed(RequestState& state) {
    state.hands_over_again.failed(step_at, kFirstPause, kLongestPause);
    note_place(state);
    if (base::planted(base::PlantedBug::handover_forgotten)) handovers.erase(queue_key(state));
}

StageFits Coordinator::Impl::decode_fits(const RequestState& state) const {
    return [this, &state](WorkerId worker, LayerRange layers) {
        return why_not_at(state, {worker, layers}, MigrationReason::handover).empty();
    };
}

bool Coordinator::Impl::can_hand_over(const RequestState& state) const {
    return roles_kept() && goes_on(state) && movable(state) &&
           router->can_route(decode_fits(state));
}

void Coordinator::Impl::hand_over(TimePoint now, std::vector<CoordinatorAction>& actions) {
    if (handovers.empty() || now < next_handover || !roles_kept()) return;
    next_handover = now + kLookAgain;
    const std::map<QueueKey, RequestId> all = handovers;
    int tries = kMostRoleTries;
    for (const auto& [key, id] : all) {
        RequestState& state = requests.at(id);
        if (!state.hands_over_again.may_try(now) || !goes_on(state) || !movable(state)) continue;
        if (tries-- == 0) return;
        const RoutedRequest request{id, now, length(state), state.request.priority};
        const Path path = router->route(request, decode_fits(state),
                                        [&](WorkerId worker) { return load_of(worker); });
        if (!path.empty()) {
            begin_migration(now, state, path, MigrationReason::handover, actions);
        }
        if (!state.migration && !is_where_prompts_are(state)) handovers.erase(key);  // it stays
    }
}

}  // namespace helix::core

#include "core/coordinator/roles.h"

#include <algorithm>
#include <utility>

#include "base/planted_bug.h"

namespace helix::core {
namespace {

using spec::NodeRole;

// A hand-over that failed is tried again after this time, then after twice that, and so on.
constexpr Duration kFirstPause = base::from_ms(100);
constexpr Duration kLongestPause = base::from_ms(3200);

}  // namespace

bool Roles::gains_roles(const std::vector<WorkerId>& planned, const Planned& event) const {
    if (!fleet_.any_roles() || room_.roles_kept()) return false;
    std::vector<PipelineNode> nodes;
    for (std::size_t i = 0; i < planned.size(); ++i) {
        nodes.push_back({planned[i], event.placement.layers[i]});
    }
    std::vector<PipelineEdge> edges;
    for (const spec::LinkFlow& flow : event.flows) {
        edges.push_back({flow.from, flow.to, flow.tokens_per_s, 0, 0});
    }
    const PipelineGraph graph(config_.n_layers, std::move(nodes), edges);
    const auto path_without = [&](NodeRole role) {
        return graph.reachable(
            [&](WorkerId worker, LayerRange) { return !fleet_.has_role(worker, role); });
    };
    return path_without(NodeRole::decode) && path_without(NodeRole::prefill);
}

void Roles::tell_roles() {
    if (!fleet_.any_roles() || placements_.epoch() == 0 || said_ == room_.roles_kept()) return;
    said_ = room_.roles_kept();
    if (*said_) {
        out_.push(Report{"workers keep to their roles: prompts are computed apart", false});
        return;
    }
    const bool prefill = placements_.router()->can_route([&](WorkerId worker, LayerRange layers) {
        return placements_.usable(worker, layers) && !fleet_.has_role(worker, NodeRole::decode);
    });
    out_.push(
        Report{std::string("roles are not kept: the workers that may ") +
                   (prefill ? "decode" : "prefill") +
                   " do not hold the whole model; every worker computes prompts and what follows",
               true, ReportCause::roles_not_kept});
}

StageFits Roles::prefill_only(const StageFits& fits) const {
    return [this, fits](WorkerId worker, LayerRange layers) {
        return fleet_.has_role(worker, NodeRole::prefill) && fits(worker, layers);
    };
}

bool Roles::is_where_prompts_are(const RequestState& state) const {
    return std::any_of(state.pipeline.begin(), state.pipeline.end(), [&](const Stage& stage) {
        return fleet_.has_role(stage.worker, NodeRole::prefill);
    });
}

void Roles::note_prefilled(TimePoint now, const RequestState& state) {
    if (!fleet_.any_roles() || !state.running) return;
    // Workers of both roles keep what they began unless the router would rather have it decoded by
    // those that do nothing else.
    const bool may_stay = !is_where_prompts_are(state);
    const bool stays = std::none_of(fleet_.begin(), fleet_.end(), [](const auto& worker) {
        return worker.second.joined.node.role == NodeRole::decode;
    });
    if (may_stay && stays) return;
    due_.emplace(queue_key(state), state.request.id);
    next_look_ = now;
}

void Roles::note_place(const RequestState& state) {
    if (state.running && is_where_prompts_are(state)) {
        due_.emplace(queue_key(state), state.request.id);
    } else {
        due_.erase(queue_key(state));
    }
    next_look_ = out_.now();  // there is room where it was
}

void Roles::note_handover_failed(RequestState& state) {
    state.hands_over_again.failed(out_.now(), kFirstPause, kLongestPause);
    note_place(state);
    if (base::planted(base::PlantedBug::handover_forgotten)) due_.erase(queue_key(state));
}

// A request that runs where only prompts are computed, and has its first token, is to be handed
// over.
std::string Roles::check(const RequestTable& requests) const {
    for (const auto& [key, id] : due_) {
        const RequestState* request = requests.by_id(id);
        if (request == nullptr || !request->running || queue_key(*request) != key) {
            return "a request is to be handed over that does not run";
        }
    }
    if (!fleet_.any_roles()) return "";
    for (const auto& [id, request] : requests) {
        const bool due =
            request.running && request.prompt_rows == 0 && is_where_prompts_are(request);
        if (due && !due_.contains(queue_key(request))) {
            return "request " + std::to_string(id.value) +
                   ": runs where prompts are computed, and nobody hands it over";
        }
    }
    return "";
}

}  // namespace helix::core

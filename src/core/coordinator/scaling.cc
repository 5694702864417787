#include "core/coordinator/scaling.h"

#include <algorithm>
#include <utility>

namespace helix::core {

void Scaling::on(TimePoint now, const WorkerNotAdded& event) {
    if (scaler_) scaler_->could_not(now);
    out_.push(Report{"no worker was added: " + event.reason, true});
}

std::optional<DrainWorker> Scaling::scale(TimePoint now) {
    if (!scaler_ || placements_.epoch() == 0 || placements_.pending() || !planning_.is_idle()) {
        return {};
    }
    const BalanceView loads = balancer_.node_view(now);
    const std::vector<PipelineNode>& nodes = loads.graph->nodes();
    // All that waits wants room: the first request at one place, and all together spread evenly. A
    // queue that grows while memory is not yet full is too little room as well.
    const RequestState* head = balancer_.head_without_room();
    std::int64_t waits = 0;
    const auto expected = [&](const RequestState& state) {
        return demand_.mean_blocks(KvDemand::of(state, demand_.expected_blocks(state, 0)));
    };
    for (const auto& [key, id] : queue_.waiting()) waits += expected(requests_.at(id));
    waits /= std::max<std::int64_t>(1, static_cast<std::int64_t>(nodes.size()));
    if (head != nullptr) waits = std::max(waits, expected(*head));
    waits *= config_.block_size;
    ScaleView view;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto it = fleet_.find(nodes[i].worker);
        if (it == fleet_.end()) continue;
        view.nodes.push_back({nodes[i].worker, loads.nodes[i]});
        const std::int32_t layers = std::max(1, demand_.kv_layers(nodes[i].layers));
        const Usage demand = {UsageKind::head_of_line, waits, layers};
        if (waits > 0) view.nodes.back().load.add(demand);
        // Whether the others can hold the model is seen when it is planned without this
        // worker.
        view.spare.push_back(it->second.drain_refused.empty() ? 1 : 0);
    }
    const std::optional<ScaleDecision> decision = scaler_->step(now, view);
    if (!decision) return {};
    if (decision->add) {
        out_.push(Report{"more room is needed: a worker is added", false});
        out_.push(AddWorker{});
        return {};
    }
    return DrainWorker{decision->stop, true, false};
}

}  // namespace helix::core

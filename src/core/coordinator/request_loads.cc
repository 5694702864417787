#include "core/coordinator/request_loads.h"

#include <algorithm>

namespace helix::core {

void RequestLoads::update(const PipelineGraph& graph, std::uint64_t router,
                          const RequestTable& requests, const KvDemand& demand) {
    if (router != router_ || nodes_.size() != graph.nodes().size()) {
        nodes_.assign(graph.nodes().size(), {});
        counted_.clear();
        router_ = router;
    }
    std::vector<Counted> now;
    now.reserve(counted_.size());
    auto before = counted_.begin();
    for (const auto& [id, state] : requests) {
        if (!state.running || state.swapped) continue;
        const Look look{id,
                        state.order,
                        state.migration ? state.migration->attempt : state.attempt,
                        demand.tokens_held(state),
                        static_cast<std::int32_t>(live_sequences(state)),
                        is_high(state)};
        for (; before != counted_.end() && before->look.id < id; ++before) count(*before, false);
        if (before != counted_.end() && before->look == look) {
            now.push_back(std::move(*before++));
            continue;
        }
        Counted one{look, {}};
        if (before != counted_.end() && before->look.id == id) {
            count(*before, false);
            const bool same_way =
                before->look.order == look.order && before->look.attempt == look.attempt;
            if (same_way) one.stages = std::move(before->stages);
            ++before;
        }
        if (one.stages.empty()) {
            for (const Stage& stage : pipeline_of(state)) {
                const std::int32_t node = graph.node_of(stage.worker);
                if (node >= 0) one.stages.emplace_back(node, demand.kv_layers(stage.layers));
            }
        }
        count(one, true);
        now.push_back(std::move(one));
    }
    for (; before != counted_.end(); ++before) count(*before, false);
    counted_ = std::move(now);
}

void RequestLoads::count(const Counted& one, bool add) {
    Usage usage{UsageKind::running, one.look.tokens, 0, one.look.sequences, one.look.high};
    for (const auto& [node, layers] : one.stages) {
        usage.layers = layers;
        NodeLoad& load = nodes_[static_cast<std::size_t>(node)];
        if (add) {
            load.add(usage);
        } else {
            load.remove(usage);
        }
    }
}

}  // namespace helix::core

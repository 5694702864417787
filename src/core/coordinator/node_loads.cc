#include "core/coordinator/node_loads.h"

#include <algorithm>
#include <cstddef>

namespace helix::core {

std::vector<NodeLoad> NodeLoads::now() {
    const PipelineGraph& graph = placements_.router()->graph();
    loads_.update(graph, placements_.routers_made(), requests_, demand_);
    std::vector<NodeLoad> nodes;
    for (const PipelineNode& node : graph.nodes()) {
        const auto it = fleet_.find(node.worker);
        const std::int64_t pages = it == fleet_.end() ? 0 : it->second.kv.total();
        const std::int64_t memory = pages * config_.block_size;
        const auto headroom =
            static_cast<std::int64_t>(config_.balance.headroom * static_cast<double>(memory));
        const std::int32_t layers = std::max(1, demand_.kv_layers(node.layers));
        NodeLoad& load = nodes.emplace_back(layers, memory, headroom);
        load.add(loads_.nodes()[nodes.size() - 1]);
        if (it != fleet_.end() && it->second.draining) load.add({UsageKind::draining});
    }
    return nodes;
}

WorkerLoads NodeLoads::for_router() {
    const RequestRouter& router = *placements_.router();
    if (!router.wants_freeness()) {
        return [this](WorkerId worker) { return fleet_.load_of(worker); };
    }
    return [this, &graph = router.graph(), nodes = now()](WorkerId worker) {
        WorkerLoad load = fleet_.load_of(worker);
        const std::int32_t node = graph.node_of(worker);
        if (node >= 0) load.freeness = nodes[static_cast<std::size_t>(node)].freeness();
        return load;
    };
}

}  // namespace helix::core

#include "core/coordinator/freeness.h"

#include <algorithm>
#include <limits>

namespace helix::core {

void NodeLoad::count(const Usage& usage, std::int64_t times) {
    if (usage.kind == UsageKind::draining) draining_ += times;
    if (usage.kind == UsageKind::draining || usage.kind == UsageKind::queued) return;
    own_ += times * usage.tokens * usage.layers;
    if (usage.kind == UsageKind::head_of_line) return;
    batch_ += times * usage.sequences * usage.layers;
    if (usage.high) high_ += times;
}

std::int64_t NodeLoad::used() const {
    return own_ + (high_ > 0 ? headroom_ : 0);
}

double NodeLoad::freeness() const {
    if (draining_ > 0) return -std::numeric_limits<double>::infinity();
    const auto left = static_cast<double>(memory_ - used());
    if (left < 0) return left;
    return left / static_cast<double>(std::max<std::int64_t>(layers_, batch_));
}

double freeness(const PipelineGraph& graph, const Path& path, const std::vector<NodeLoad>& nodes) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::int32_t e : path) {
        const std::int32_t node = graph.edge(e).to;
        if (node == spec::kCoordinator) continue;
        least = std::min(least, nodes[static_cast<std::size_t>(node)].freeness());
    }
    return least;
}

}  // namespace helix::core

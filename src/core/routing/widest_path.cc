#include "core/routing/widest_path.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace helix::core {
namespace {

struct Best {
    std::int32_t edge = -1;  // the edge to go on with; -1: there is no way
    double width = 0;        // width of the way from here to the end
};

}  // namespace

double width_of(double freeness) {
    return freeness >= 0 ? 1 + freeness : 1 / (1 - freeness);
}

WidePath widest_path(const PipelineGraph& graph, const EdgeWidth& width) {
    std::vector<Best> best(graph.nodes().size());
    const auto best_out = [&](std::int32_t node) {
        Best found;
        for (const std::int32_t e : graph.out(node)) {
            double rest = std::numeric_limits<double>::infinity();
            const std::int32_t to = graph.edge(e).to;
            if (to != spec::kCoordinator) {
                const Best& after = best[static_cast<std::size_t>(to)];
                if (after.edge < 0) continue;
                rest = after.width;
            }
            const double own = width(e);
            if (own < 0) continue;
            const double whole = std::min(own, rest);
            if (found.edge < 0 || whole > found.width) found = {e, whole};
        }
        return found;
    };
    // In this order whatever a path meets after a node comes before it.
    for (const std::int32_t node : graph.last_first()) {
        best[static_cast<std::size_t>(node)] = best_out(node);
    }
    Best next = best_out(spec::kCoordinator);
    WidePath wide{{}, next.width};
    while (next.edge >= 0) {
        wide.path.push_back(next.edge);
        const std::int32_t at = graph.edge(next.edge).to;
        if (at == spec::kCoordinator) break;
        next = best[static_cast<std::size_t>(at)];
    }
    return wide;
}

}  // namespace helix::core

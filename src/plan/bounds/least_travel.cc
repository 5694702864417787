#include "plan/bounds/least_travel.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/index.h"
#include "plan/bounds/outward.h"

namespace helix::plan {
namespace {

using base::at;

constexpr double kNoWay = std::numeric_limits<double>::infinity();

double message_s(const spec::LinkSpec& link, std::int64_t bytes) {
    const double sent_s = link.bandwidth_bytes_per_s > 0
                              ? divide_down(static_cast<double>(bytes), link.bandwidth_bytes_per_s)
                              : 0;
    return std::max(add_down(link.latency_s, sent_s), 0.0);
}

}  // namespace

double least_travel_s(const Problem& problem) {
    const std::int32_t n_layers = problem.model.n_layers;
    const std::size_t n = problem.cluster.nodes.size();
    // Until the row is at the node and so many layers are run, those of the node included.
    std::vector<std::vector<double>> until(at(n_layers) + 1, std::vector<double>(n, kNoWay));
    for (std::int32_t layers = 0; layers < n_layers; ++layers) {
        std::vector<double> arrived(n, kNoWay);  // with so many layers run before
        for (const spec::LinkSpec& link : problem.cluster.links) {
            if (link.to == spec::kCoordinator) continue;
            const bool first = link.from == spec::kCoordinator;
            if (first != (layers == 0)) continue;
            const double began_s = first ? 0 : until[at(layers)][at(link.from)];
            if (began_s == kNoWay) continue;
            const std::int64_t bytes =
                first ? problem.model.token_bytes : problem.model.activation_bytes_per_token;
            double& known = arrived[at(link.to)];
            known = std::min(known, std::max(add_down(began_s, message_s(link, bytes)), 0.0));
        }
        for (std::size_t node = 0; node < n; ++node) {
            if (arrived[node] == kNoWay) continue;
            const std::int32_t most =
                std::min(problem.capacities.nodes[node].most(), n_layers - layers);
            for (std::int32_t run = 1; run <= most; ++run) {
                double& known = until[at(layers + run)][node];
                known = std::min(known, arrived[node]);
            }
        }
    }
    double least = kNoWay;
    for (const spec::LinkSpec& link : problem.cluster.links) {
        if (link.from == spec::kCoordinator || link.to != spec::kCoordinator) continue;
        const double began_s = until[at(n_layers)][at(link.from)];
        if (began_s == kNoWay) continue;
        const double back_s = message_s(link, problem.model.token_bytes);
        least = std::min(least, std::max(add_down(began_s, back_s), 0.0));
    }
    return least == kNoWay ? 0 : least;
}

}  // namespace helix::plan

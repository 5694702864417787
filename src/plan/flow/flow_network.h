#pragma once

#include <cstdint>
#include <vector>

namespace helix::plan {

// A directed network with capacities in tokens/s, and its maximum flow. Nothing in here knows what
// the vertices stand for; FlowGraph does.
struct FlowNetwork {
    struct Edge {
        std::int32_t from = 0;
        std::int32_t to = 0;
        double capacity = 0;  // infinity is allowed
    };

    std::int32_t n_vertices = 0;
    std::int32_t source = 0;
    std::int32_t sink = 0;
    std::vector<Edge> edges;
};

struct MaxFlow {
    double value = 0;
    std::vector<double> edge_flow;  // parallel to FlowNetwork::edges
    std::vector<std::int32_t>
        cut_edges;  // one minimum cut, in edge order; its capacities sum to value
};

// Flows are computed in whole units of 2^-20 tokens/s, so that they are exact.
inline constexpr double kUnitsPerToken = 1048576.0;

// Capacities are rounded down to whole units and solved in integers (LEMON's push-relabel), so the
// flow is exact, its cut is tight and every machine finds the same one.
double round_capacity(double tokens_per_s);
MaxFlow solve_max_flow(const FlowNetwork& network);
double max_flow_value(const FlowNetwork& network);

// Cost per unit of flow, parallel to the edges; piecewise costs are parallel edges.
// A cheapest flow of `value` tokens/s (network simplex). `value` must be at most the maximum flow
// and costs must not be negative.
std::vector<double> cheapest_flow(const FlowNetwork& network,
                                  const std::vector<std::int64_t>& costs, double value);

}  // namespace helix::plan

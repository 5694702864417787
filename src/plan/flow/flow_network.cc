#include "plan/flow/flow_network.h"

#include <lemon/network_simplex.h>
#include <lemon/preflow.h>
#include <lemon/smart_graph.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace helix::plan {
namespace {

using Graph = lemon::SmartDigraph;
using Units = std::int64_t;

// So large that no sensible capacity reaches it, so small that a sum over all edges cannot
// overflow.
Units units_limit(std::size_t n_edges) {
    const Units sum_limit = std::numeric_limits<Units>::max() / 2;
    return sum_limit / static_cast<Units>(std::max<std::size_t>(n_edges, 64));
}

Units to_units(double tokens_per_s, Units limit) {
    CHECK(tokens_per_s >= 0);
    const double units = std::floor(tokens_per_s * kUnitsPerToken);
    return units >= static_cast<double>(limit) ? limit : static_cast<Units>(units);
}

double to_tokens(Units units) {
    return static_cast<double>(units) / kUnitsPerToken;
}

struct IntegerGraph {
    explicit IntegerGraph(const FlowNetwork& network) : capacity(graph) {
        graph.reserveNode(network.n_vertices);
        graph.reserveArc(static_cast<int>(network.edges.size()));
        for (std::int32_t v = 0; v < network.n_vertices; ++v) graph.addNode();
        const Units limit = units_limit(network.edges.size());
        arcs.reserve(network.edges.size());
        for (const FlowNetwork::Edge& edge : network.edges) {
            CHECK(edge.from >= 0 && edge.from < network.n_vertices);
            CHECK(edge.to >= 0 && edge.to < network.n_vertices);
            const Graph::Arc arc =
                graph.addArc(Graph::nodeFromId(edge.from), Graph::nodeFromId(edge.to));
            capacity[arc] = to_units(edge.capacity, limit);
            arcs.push_back(arc);
        }
    }

    Graph graph;
    Graph::ArcMap<Units> capacity;
    std::vector<Graph::Arc> arcs;
};

using Preflow = lemon::Preflow<Graph, Graph::ArcMap<Units>>;

}  // namespace

double round_capacity(double tokens_per_s) {
    return to_tokens(to_units(tokens_per_s, units_limit(0)));
}

MaxFlow solve_max_flow(const FlowNetwork& network) {
    CHECK(network.source != network.sink);
    IntegerGraph integer(network);
    Preflow preflow(integer.graph, integer.capacity, Graph::nodeFromId(network.source),
                    Graph::nodeFromId(network.sink));
    preflow.run();
    MaxFlow result;
    result.value = to_tokens(preflow.flowValue());
    result.edge_flow.reserve(network.edges.size());
    for (std::size_t e = 0; e < network.edges.size(); ++e) {
        result.edge_flow.push_back(to_tokens(preflow.flow(integer.arcs[e])));
        const bool from_in = preflow.minCut(Graph::nodeFromId(network.edges[e].from));
        const bool to_in = preflow.minCut(Graph::nodeFromId(network.edges[e].to));
        if (from_in && !to_in) result.cut_edges.push_back(static_cast<std::int32_t>(e));
    }
    return result;
}

double max_flow_value(const FlowNetwork& network) {
    IntegerGraph integer(network);
    Preflow preflow(integer.graph, integer.capacity, Graph::nodeFromId(network.source),
                    Graph::nodeFromId(network.sink));
    preflow.runMinCut();
    return to_tokens(preflow.flowValue());
}

std::vector<double> cheapest_flow(const FlowNetwork& network,
                                  const std::vector<std::int64_t>& costs, double value) {
    CHECK(costs.size() == network.edges.size());
    IntegerGraph integer(network);
    Graph::ArcMap<std::int64_t> cost(integer.graph);
    const Units wanted = to_units(value, units_limit(network.edges.size()));
    for (std::size_t e = 0; e < costs.size(); ++e) {
        CHECK(costs[e] >= 0);
        cost[integer.arcs[e]] = costs[e];
        Units& capacity = integer.capacity[integer.arcs[e]];
        capacity = std::min(capacity, wanted);
    }
    using Simplex = lemon::NetworkSimplex<Graph, Units, std::int64_t>;
    Simplex simplex(integer.graph);
    simplex.upperMap(integer.capacity).costMap(cost);
    simplex.stSupply(Graph::nodeFromId(network.source), Graph::nodeFromId(network.sink), wanted);
    CHECK(simplex.run() == Simplex::OPTIMAL);
    std::vector<double> flow;
    flow.reserve(costs.size());
    for (const Graph::Arc arc : integer.arcs) flow.push_back(to_tokens(simplex.flow(arc)));
    return flow;
}

}  // namespace helix::plan

#include <algorithm>
#include <map>
#include <string>

#include "base/check.h"
#include "base/index.h"
#include "plan/flow/flow_graph.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;

// A node's capacity in equal parts, each costlier than the one before: a convex cost of load.
constexpr std::int64_t kLoadFactor[] = {10, 12, 15, 20, 28, 40, 70, 150};
constexpr double kParts = std::size(kLoadFactor);
constexpr double kMicros = 1e6;
constexpr double kPathDust = 1e-6;  // of the flow: paths below are rounding

using base::at;

// The flow per edge of graph.network that plan_flow promises.
std::vector<double> spread_flow(const spec::ClusterSpec& cluster, const FlowGraph& graph,
                                double value) {
    FlowNetwork split = graph.network;
    split.edges.clear();
    std::vector<std::int64_t> costs;
    std::vector<std::size_t> origin;
    for (std::size_t e = 0; e < graph.network.edges.size(); ++e) {
        FlowNetwork::Edge edge = graph.network.edges[e];
        const FlowGraph::Meaning meaning = graph.meaning[e];
        if (meaning.kind != FlowGraph::Kind::compute) {
            const double latency_s = meaning.kind == FlowGraph::Kind::link
                                         ? cluster.links[at(meaning.index)].latency_s
                                         : 0.0;
            split.edges.push_back(edge);
            costs.push_back(
                static_cast<std::int64_t>(std::clamp(latency_s, 0.0, 1e3) * kMicros * 10));
            origin.push_back(e);
            continue;
        }
        const double token_us = std::clamp(kMicros / std::max(edge.capacity, 1e-9), 1.0, 1e9);
        const double part = round_capacity(edge.capacity / kParts);
        for (const std::int64_t factor : kLoadFactor) {
            // The last part takes what rounding left over: together they hold exactly the capacity.
            const bool last = factor == kLoadFactor[std::size(kLoadFactor) - 1];
            split.edges.push_back(
                {edge.from, edge.to, last ? edge.capacity - part * (kParts - 1) : part});
            costs.push_back(static_cast<std::int64_t>(token_us * static_cast<double>(factor)));
            origin.push_back(e);
        }
    }
    const std::vector<double> parts = cheapest_flow(split, costs, value);
    std::vector<double> flow(graph.network.edges.size(), 0.0);
    for (std::size_t p = 0; p < parts.size(); ++p) flow[origin[p]] += parts[p];
    return flow;
}

// Takes the flow apart, following the largest remaining edge from the source. The graph has no
// cycle.
std::vector<std::pair<std::vector<std::size_t>, double>> take_apart(const FlowNetwork& network,
                                                                    std::vector<double> flow) {
    std::vector<std::vector<std::size_t>> out(at(network.n_vertices));
    for (std::size_t e = 0; e < network.edges.size(); ++e)
        out[at(network.edges[e].from)].push_back(e);
    std::vector<std::pair<std::vector<std::size_t>, double>> paths;
    while (true) {
        std::vector<std::size_t> path;
        double width = 0;
        for (std::int32_t v = network.source; v != network.sink;
             v = network.edges[path.back()].to) {
            const std::vector<std::size_t>& edges = out[at(v)];
            const auto widest = std::max_element(edges.begin(), edges.end(),
                                                 [&](auto a, auto b) { return flow[a] < flow[b]; });
            if (widest == edges.end() || flow[*widest] <= 0) break;
            width = path.empty() ? flow[*widest] : std::min(width, flow[*widest]);
            path.push_back(*widest);
        }
        if (path.empty()) return paths;
        CHECK(network.edges[path.back()].to == network.sink);  // flow is conserved
        for (const std::size_t e : path) flow[e] -= width;
        paths.emplace_back(std::move(path), width);
    }
}

const std::string& region_of(const spec::ClusterSpec& cluster, std::int32_t node) {
    return node == kCoordinator ? cluster.coordinator_region : cluster.nodes[at(node)].region;
}

// Scales the plan to what every trunk carries; the one that binds most becomes the cut.
void fit_trunks(const spec::ClusterSpec& cluster, const FlowGraph& graph, FlowPlan& plan) {
    double factor = 1;
    for (std::size_t t = 0; t < cluster.trunks.size(); ++t) {
        const spec::TrunkSpec& trunk = cluster.trunks[t];
        double bytes_per_s = 0;
        for (const spec::LinkFlow& flow : plan.links) {
            if (region_of(cluster, flow.from) != trunk.from_region ||
                region_of(cluster, flow.to) != trunk.to_region) {
                continue;
            }
            const bool outside = flow.from == kCoordinator || flow.to == kCoordinator;
            bytes_per_s += flow.tokens_per_s * (outside ? graph.token_bytes : graph.hop_bytes);
        }
        if (bytes_per_s * factor <= trunk.bandwidth_bytes_per_s) continue;
        factor = trunk.bandwidth_bytes_per_s / bytes_per_s;
        plan.cut = {{FlowGraph::Kind::trunk, static_cast<std::int32_t>(t)}};
    }
    if (factor >= 1) return;
    plan.tokens_per_s *= factor;
    for (spec::LinkFlow& flow : plan.links) flow.tokens_per_s *= factor;
    for (double& flow : plan.node_flow) flow *= factor;
    for (FlowPath& path : plan.paths) path.tokens_per_s *= factor;
}

}  // namespace

FlowPlan plan_flow(const spec::ClusterSpec& cluster, const FlowGraph& graph) {
    const MaxFlow max_flow = solve_max_flow(graph.network);
    FlowPlan plan;
    plan.tokens_per_s = max_flow.value;
    plan.node_flow.assign(cluster.nodes.size(), 0.0);
    for (const std::int32_t e : max_flow.cut_edges) plan.cut.push_back(graph.meaning[at(e)]);
    if (max_flow.value <= 0) return plan;
    std::map<std::pair<std::int32_t, std::int32_t>, double> link_flow;
    double stages = 0;
    double kept = 0;
    for (const auto& [edges, width] :
         take_apart(graph.network, spread_flow(cluster, graph, max_flow.value))) {
        if (width < kPathDust * max_flow.value) continue;
        FlowPath path{.nodes = {}, .tokens_per_s = width};
        for (const std::size_t e : edges) {
            const FlowGraph::Meaning meaning = graph.meaning[e];
            if (meaning.kind == FlowGraph::Kind::compute) {
                path.nodes.push_back(meaning.index);
                plan.node_flow[at(meaning.index)] += width;
            } else if (meaning.kind == FlowGraph::Kind::link) {
                const spec::LinkSpec& link = cluster.links[at(meaning.index)];
                link_flow[{link.from, link.to}] += width;
            }
        }
        stages += width * static_cast<double>(path.nodes.size());
        kept += width;
        plan.paths.push_back(std::move(path));
    }
    plan.mean_depth = stages / kept;
    std::stable_sort(
        plan.paths.begin(), plan.paths.end(),
        [](const FlowPath& a, const FlowPath& b) { return a.tokens_per_s > b.tokens_per_s; });
    for (const auto& [ends, tokens_per_s] : link_flow) {
        plan.links.push_back({ends.first, ends.second, tokens_per_s});
    }
    fit_trunks(cluster, graph, plan);
    return plan;
}

}  // namespace helix::plan

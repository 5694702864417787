#include "plan/flow/flow_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

#include "base/random.h"
#include "plan/flow/evaluator.h"
#include "plan_fixtures.h"
#include "spec/measured_node.h"

namespace helix::plan::flow_graph_test {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

// An independent solver: shortest augmenting paths (Edmonds and Karp) on a matrix of residual
// capacities.
double augmenting_path_flow(const FlowNetwork& network) {
    const auto n = static_cast<std::size_t>(network.n_vertices);
    std::vector<std::vector<double>> residual(n, std::vector<double>(n, 0.0));
    for (const FlowNetwork::Edge& edge : network.edges) {
        residual[static_cast<std::size_t>(edge.from)][static_cast<std::size_t>(edge.to)] +=
            edge.capacity;
    }
    const auto source = static_cast<std::size_t>(network.source);
    const auto sink = static_cast<std::size_t>(network.sink);
    double flow = 0;
    while (true) {
        std::vector<std::size_t> before(n, n);
        before[source] = source;
        std::queue<std::size_t> open({source});
        while (!open.empty() && before[sink] == n) {
            const std::size_t v = open.front();
            open.pop();
            for (std::size_t w = 0; w < n; ++w) {
                if (before[w] != n || residual[v][w] <= 1e-9) continue;
                before[w] = v;
                open.push(w);
            }
        }
        if (before[sink] == n) return flow;
        double width = std::numeric_limits<double>::infinity();
        for (std::size_t v = sink; v != source; v = before[v])
            width = std::min(width, residual[before[v]][v]);
        for (std::size_t v = sink; v != source; v = before[v]) {
            residual[before[v]][v] -= width;
            residual[v][before[v]] += width;
        }
        flow += width;
    }
}

void expect_feasible_and_tight(const FlowNetwork& network, const MaxFlow& flow) {
    std::vector<double> balance(static_cast<std::size_t>(network.n_vertices), 0.0);
    for (std::size_t e = 0; e < network.edges.size(); ++e) {
        ASSERT_GE(flow.edge_flow[e], 0);
        ASSERT_LE(flow.edge_flow[e], network.edges[e].capacity);
        balance[static_cast<std::size_t>(network.edges[e].from)] -= flow.edge_flow[e];
        balance[static_cast<std::size_t>(network.edges[e].to)] += flow.edge_flow[e];
    }
    for (std::int32_t v = 0; v < network.n_vertices; ++v) {
        const double expected = v == network.source ? -flow.value
                                : v == network.sink ? flow.value
                                                    : 0;
        ASSERT_NEAR(balance[static_cast<std::size_t>(v)], expected, 1e-9);
    }
    double cut = 0;
    for (const std::int32_t e : flow.cut_edges)
        cut += network.edges[static_cast<std::size_t>(e)].capacity;
    ASSERT_NEAR(cut, flow.value, 1e-5 * std::max(1.0, cut));
}

TEST(MaxFlow, EqualsAnAugmentingPathSolverOnRandomGraphs) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        FlowNetwork network;
        network.n_vertices = static_cast<std::int32_t>(random.between(2, 12));
        network.source = 0;
        network.sink = 1;
        const std::int64_t edges = random.between(0, 40);
        for (std::int64_t e = 0; e < edges; ++e) {
            const auto from = static_cast<std::int32_t>(random.between(0, network.n_vertices - 1));
            const auto to = static_cast<std::int32_t>(random.between(0, network.n_vertices - 1));
            if (from == to) continue;
            const double width = random.chance(0.1) ? 0 : std::pow(10.0, 6 * random.uniform() - 2);
            network.edges.push_back({from, to, width});
        }
        const MaxFlow flow = solve_max_flow(network);
        const double expected = augmenting_path_flow(network);
        ASSERT_NEAR(flow.value, expected, 1e-6 * std::max(1.0, expected) + 1e-4);
        ASSERT_EQ(flow.value, max_flow_value(network));
        expect_feasible_and_tight(network, flow);
    }
}

TEST(MaxFlow, InfiniteCapacitiesAreNoLimit) {
    const double infinity = std::numeric_limits<double>::infinity();
    const FlowNetwork network{
        .n_vertices = 3, .source = 0, .sink = 2, .edges = {{0, 1, infinity}, {1, 2, 5.5}}};
    EXPECT_EQ(solve_max_flow(network).value, 5.5);
}

TEST(MaxFlow, NeverAboveAnyCutOfUpToEightVertices) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        base::Random random(seed);
        FlowNetwork network{.n_vertices = 8, .source = 0, .sink = 7, .edges = {}};
        for (int e = 0; e < 20; ++e) {
            const auto from = static_cast<std::int32_t>(random.below(8));
            const auto to = static_cast<std::int32_t>(random.below(8));
            if (from != to)
                network.edges.push_back({from, to, static_cast<double>(random.below(50))});
        }
        double least = std::numeric_limits<double>::infinity();
        for (unsigned set = 0; set < 256; ++set) {
            if ((set & 1U) == 0 || (set & 128U) != 0)
                continue;  // the source inside, the sink outside
            double cut = 0;
            for (const FlowNetwork::Edge& edge : network.edges) {
                if (((set >> static_cast<unsigned>(edge.from)) & 1U) != 0 &&
                    ((set >> static_cast<unsigned>(edge.to)) & 1U) == 0) {
                    cut += edge.capacity;
                }
            }
            least = std::min(least, cut);
        }
        ASSERT_EQ(solve_max_flow(network).value, least) << "seed " << seed;
    }
}

TEST(MaxFlow, CheapestFlowPrefersTheCheaperEdgeAndFillsIt) {
    const FlowNetwork network{
        .n_vertices = 2, .source = 0, .sink = 1, .edges = {{0, 1, 10}, {0, 1, 10}, {0, 1, 10}}};
    EXPECT_EQ(cheapest_flow(network, {5, 1, 3}, 15), (std::vector<double>{0, 10, 5}));
}

// Node 0 [0,2) T=10, node 1 [2,4) T=6, node 2 [1,4) T=3; L = 4. All links wide but 0 -> 1 with 5
// tokens/s.
struct ThreeNodes {
    spec::ModelSpec model = small_model(4);
    spec::ClusterSpec cluster =
        cluster_of({machine("a", 4, 1), machine("b", 4, 1), machine("c", 4, 1)});
    CapacityTable capacities;
    spec::Placement placement{{{0, 2}, {2, 4}, {1, 4}}};

    ThreeNodes() {
        const double speeds[] = {10, 6, 3};
        for (std::size_t i = 0; i < 3; ++i) {
            NodeCapacity node;
            for (auto& row : node.max_layers) row = {4, 4};
            node.tokens_per_s = {0, speeds[i], speeds[i], speeds[i], speeds[i]};
            node.kv_tokens = {0, 100, 100, 100, 100};
            capacities.nodes.push_back(node);
        }
        for (spec::LinkSpec& link : cluster.links) {
            if (link.from == 0 && link.to == 1)
                link.bandwidth_bytes_per_s = 5 * 1000;  // activation: 1000 B
        }
    }
};

TEST(FlowGraph, HandComputedThreeNodes) {
    ThreeNodes t;
    // With partial inference node 2 may run [2, 4) for what leaves node 0: min(10, 5 + 3) = 8.
    const FlowGraph partial = build_flow_graph({t.cluster, t.model, t.capacities}, t.placement, {});
    const FlowPlan plan = plan_flow(t.cluster, partial);
    EXPECT_EQ(plan.tokens_per_s, 8);
    std::map<std::pair<int, int>, double> flows;
    for (const spec::LinkFlow& flow : plan.links) flows[{flow.from, flow.to}] = flow.tokens_per_s;
    EXPECT_EQ(flows, (std::map<std::pair<int, int>, double>{
                         {{-1, 0}, 8}, {{0, 1}, 5}, {{0, 2}, 3}, {{1, -1}, 5}, {{2, -1}, 3}}));
    EXPECT_EQ(plan.mean_depth, 2);
    EXPECT_EQ(describe_cut(t.cluster, t.placement, plan), "c (layers 1-3) and the link a -> b");
    // Without it only a -> b is valid.
    const FlowGraph exact =
        build_flow_graph({t.cluster, t.model, t.capacities}, t.placement, {.partial = false});
    EXPECT_EQ(plan_flow(t.cluster, exact).tokens_per_s, 5);
}

TEST(FlowGraph, NicsLimitNodesInBothConventions) {
    ThreeNodes t;
    t.cluster.nodes[2].nic_in_bytes_per_s = 1000;  // one token/s
    const FlowGraph paper = build_flow_graph({t.cluster, t.model, t.capacities}, t.placement, {});
    EXPECT_EQ(solve_max_flow(paper.network).value, 6);
    const FlowGraph reference =
        build_flow_graph({t.cluster, t.model, t.capacities}, t.placement,
                         {.partial = true, .convention = Convention::reference});
    EXPECT_NEAR(solve_max_flow(reference.network).value, (5000.0 + 1000.0) / 1004.0, 1e-5);
}

TEST(FlowGraph, HopsAreValidExactlyAsDefined) {
    for (std::int32_t n_layers = 1; n_layers <= 6; ++n_layers) {
        std::vector<LayerRange> ranges{{}};
        for (std::int32_t s = 0; s < n_layers; ++s) {
            for (std::int32_t e = s + 1; e <= n_layers; ++e) ranges.push_back({s, e});
        }
        for (const LayerRange a : ranges) {
            for (const LayerRange b : ranges) {
                const bool both = a.size() > 0 && b.size() > 0;
                EXPECT_EQ(valid_hop(a, b, false), both && a.end == b.begin);
                EXPECT_EQ(valid_hop(a, b, true), both && b.begin <= a.end && a.end < b.end);
                spec::ClusterSpec cluster = cluster_of({machine("a", 9, 1), machine("b", 9, 1)});
                CapacityTable capacities;
                NodeCapacity node;
                for (auto& row : node.max_layers) row = {6, 6};
                node.tokens_per_s = {0, 1, 1, 1, 1, 1, 1};
                node.kv_tokens = node.tokens_per_s;
                capacities.nodes = {node, node};
                const bool whole = (both || a.size() > 0) && a == LayerRange{0, n_layers};
                const bool whole_b = b == LayerRange{0, n_layers};
                const auto chain = [&](LayerRange x, LayerRange y) {
                    return x.begin == 0 && y.end == n_layers && valid_hop(x, y, true);
                };
                const spec::Placement placement{{a, b}};
                const double flow =
                    solve_max_flow(build_flow_graph({cluster, small_model(n_layers), capacities},
                                                    placement, {})
                                       .network)
                        .value;
                const double expected = (whole ? 1 : 0) + (whole_b ? 1 : 0) > 0
                                            ? (whole ? 1 : 0) + (whole_b ? 1 : 0)
                                            : (chain(a, b) || chain(b, a) ? 1 : 0);
                EXPECT_EQ(flow, expected)
                    << a.begin << '-' << a.end << ' ' << b.begin << '-' << b.end;
            }
        }
    }
}

TEST(FlowGraph, PlansConserveFlowReachTheMaximumAndAgreeWithTheirPaths) {
    int positive = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 8));
        const auto cluster =
            random_cluster(random, static_cast<std::int32_t>(random.between(1, 9)), 0.2);
        const auto capacities =
            random_capacities(random, static_cast<std::int32_t>(cluster.nodes.size()), n_layers);
        const auto placement = random_placement(random, capacities, n_layers);
        const FlowOptions options{
            .partial = random.chance(0.5),
            .convention = random.chance(0.5) ? Convention::paper : Convention::reference,
            .only_links = {}};
        const FlowGraph graph =
            build_flow_graph({cluster, small_model(n_layers), capacities}, placement, options);
        const FlowPlan plan = plan_flow(cluster, graph);
        const double expected = augmenting_path_flow(graph.network);
        ASSERT_NEAR(plan.tokens_per_s, expected, 1e-4);
        positive += expected > 0 ? 1 : 0;
        std::map<std::int32_t, double> balance;
        for (const spec::LinkFlow& flow : plan.links) {
            balance[flow.from] -= flow.tokens_per_s;
            balance[flow.to] += flow.tokens_per_s;
        }
        for (const auto& [node, sum] : balance) ASSERT_NEAR(sum, 0, 1e-6);
        double total = 0;
        for (const FlowPath& path : plan.paths) {
            total += path.tokens_per_s;
            std::int32_t done = 0;
            for (const std::int32_t node : path.nodes) {
                const LayerRange range = placement.layers[static_cast<std::size_t>(node)];
                ASSERT_LE(range.begin, done);
                ASSERT_GT(range.end, done);
                ASSERT_TRUE(options.partial || range.begin == done);
                done = range.end;
            }
            ASSERT_EQ(done, n_layers);
        }
        ASSERT_NEAR(total, plan.tokens_per_s, 1e-4 * plan.tokens_per_s);
        const FlowPlan again = plan_flow(cluster, graph);
        ASSERT_EQ(again.node_flow, plan.node_flow);
    }
    EXPECT_GT(positive, 50);
}

TEST(FlowGraph, EqualReplicasShareTheFlowEvenly) {
    // The last stage limits; the two equal first stages must not be used one-sidedly.
    auto cluster = cluster_of({machine("a", 9, 1), machine("b", 9, 1), machine("c", 9, 1)});
    CapacityTable capacities;
    for (const double speed : {100.0, 100.0, 80.0}) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {2, 2};
        node.tokens_per_s = {0, speed, speed};
        node.kv_tokens = {0, 1, 1};
        capacities.nodes.push_back(node);
    }
    const spec::Placement placement{{{0, 2}, {0, 2}, {2, 4}}};
    const FlowPlan plan =
        plan_flow(cluster, build_flow_graph({cluster, small_model(4), capacities}, placement, {}));
    EXPECT_EQ(plan.tokens_per_s, 80);
    EXPECT_NEAR(plan.node_flow[0], 40, 13);
    EXPECT_NEAR(plan.node_flow[0] + plan.node_flow[1], 80, 1e-6);
}

TEST(Evaluator, QuickWaysEqualTheFullGraph) {
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 10));
        auto cluster = random_cluster(random, static_cast<std::int32_t>(random.between(1, 7)), 0);
        const bool narrow = random.chance(0.3);
        for (spec::LinkSpec& link : cluster.links) {
            if (!narrow) link.bandwidth_bytes_per_s = 1e9;  // above every T
        }
        const auto capacities =
            random_capacities(random, static_cast<std::int32_t>(cluster.nodes.size()), n_layers);
        const auto model = small_model(n_layers);
        const FlowOptions options{
            .partial = random.chance(0.5), .convention = Convention::paper, .only_links = {}};
        const Evaluator evaluator({cluster, model, capacities}, options);
        for (int k = 0; k < 5; ++k) {
            const auto placement = random_placement(random, capacities, n_layers);
            const double full = max_flow_value(
                build_flow_graph({cluster, model, capacities}, placement, options).network);
            ASSERT_NEAR(evaluator.flow(placement.layers), full, 1e-4);
            std::vector<double> coverage;
            evaluator.coverage(placement.layers, coverage);
            ASSERT_LE(full, *std::min_element(coverage.begin(), coverage.end()) + 1e-9);
        }
    }
}

TEST(FlowPlan, ATrunkBindsAllLinksBetweenItsRegionsTogether) {
    auto cluster = cluster_of({machine("a", 6, 1e-4), machine("b", 6, 1e-4), machine("c", 6, 1e-4),
                               machine("d", 6, 1e-4)});
    for (std::size_t i = 0; i < 4; ++i) cluster.nodes[i].region = i < 2 ? "west" : "east";
    const auto model = small_model(8);
    const auto capacities =
        capacity_from_costs(cluster, model, spec::MeasuredNode(), Workload{}, MemoryRule{});
    const spec::Placement placement{{{0, 4}, {0, 4}, {4, 8}, {4, 8}}};
    const auto flow = [&] {
        return plan_flow(cluster,
                         build_flow_graph({cluster, model, capacities}, placement, FlowOptions{}));
    };
    const double free = flow().tokens_per_s;
    ASSERT_GT(free, 0);
    const double bytes = static_cast<double>(model.activation_bytes_per_token);
    cluster.trunks = {{"west", "east", 0.25 * free * bytes, 0.01}};
    const FlowPlan bound = flow();
    EXPECT_NEAR(bound.tokens_per_s, 0.25 * free, 1e-6 * free);
    double crossing = 0;
    for (const spec::LinkFlow& link : bound.links) {
        if (link.from >= 0 && link.from < 2 && link.to >= 2) crossing += link.tokens_per_s;
    }
    EXPECT_NEAR(crossing, bound.tokens_per_s, 1e-6 * free);
    EXPECT_EQ(describe_cut(cluster, placement, bound), "the trunk from region west to east");
    cluster.trunks[0].bandwidth_bytes_per_s = 2 * free * bytes;
    EXPECT_EQ(flow().tokens_per_s, free);
    std::swap(cluster.trunks[0].from_region, cluster.trunks[0].to_region);
    cluster.trunks[0].bandwidth_bytes_per_s = 1;  // nothing flows that way
    EXPECT_EQ(flow().tokens_per_s, free);
}

}  // namespace
}  // namespace helix::plan::flow_graph_test

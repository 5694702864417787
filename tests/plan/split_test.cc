#include "plan/flow/split.h"

#include <gtest/gtest.h>

#include <map>

#include "plan/plan_fixtures.h"
#include "plan/predict/performance.h"
#include "plan/reference_data.h"

namespace helix::plan::split_test {
namespace {

constexpr double kPrompt = 100;

// That what enters each node leaves it, that nodes and links bear it, that all hops are valid.
void expect_flow(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const CapacityTable& capacities, const std::vector<spec::LayerRange>& layers,
                 const std::vector<spec::LinkFlow>& flows, double value, bool partial) {
    std::map<std::int32_t, double> in;
    std::map<std::int32_t, double> out;
    for (const spec::LinkFlow& flow : flows) {
        EXPECT_GT(flow.tokens_per_s, 0);
        out[flow.from] += flow.tokens_per_s;
        in[flow.to] += flow.tokens_per_s;
        const auto link = std::find_if(
            cluster.links.begin(), cluster.links.end(),
            [&](const spec::LinkSpec& l) { return l.from == flow.from && l.to == flow.to; });
        ASSERT_NE(link, cluster.links.end());
        const bool outside = flow.from == spec::kCoordinator || flow.to == spec::kCoordinator;
        const double bytes =
            static_cast<double>(outside ? model.token_bytes : model.activation_bytes_per_token);
        EXPECT_LE(flow.tokens_per_s, link->bandwidth_bytes_per_s / bytes * (1 + 1e-9));
        if (!outside) {
            EXPECT_TRUE(valid_hop(layers[static_cast<std::size_t>(flow.from)],
                                  layers[static_cast<std::size_t>(flow.to)], partial));
        }
    }
    EXPECT_NEAR(out[spec::kCoordinator], value, 1e-6 * value);
    EXPECT_NEAR(in[spec::kCoordinator], value, 1e-6 * value);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto node = static_cast<std::int32_t>(i);
        EXPECT_NEAR(in[node], out[node], 1e-6 * value);
        const double most = layers[i].empty() ? 0 : capacities.nodes[i].throughput(layers[i]);
        EXPECT_LE(in[node], most * (1 + 1e-9));
    }
}

TEST(Splitter, GivesFlowsThatTheClusterBearsAndNeverMoreThanTheMaximum) {
    int split = 0;
    double part = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        base::Random random(seed);
        const bool partial = seed % 2 == 0;
        const spec::ClusterSpec cluster = random_cluster(random, 7, 0.1);
        const CapacityTable capacities = random_capacities(random, 7, 4);
        const spec::ModelSpec model = small_model(5);
        const spec::Placement placement = random_placement(random, capacities, 5);
        const FlowOptions options{.partial = partial};
        const double most = max_flow_value(
            build_flow_graph({cluster, model, capacities}, placement, options).network);
        const Splitter splitter({cluster, model, capacities}, options, kPrompt);
        Splitter::Scratch scratch;
        std::vector<spec::LinkFlow> flows;
        const double quick = splitter.split(placement.layers, scratch, flows);
        EXPECT_EQ(quick > 0, most > 0) << "seed " << seed;
        EXPECT_LE(quick, most * (1 + 1e-6)) << "seed " << seed;
        const double value = scale_to_capacity(
            TrafficBuilder(cluster), {cluster, model, capacities}, placement.layers, flows);
        EXPECT_EQ(value > 0, most > 0) << "seed " << seed;
        if (most <= 0) continue;
        expect_flow(cluster, model, capacities, placement.layers, flows, value, partial);
        ++split;
        part += value / most;
    }
    ASSERT_GT(split, 50);
    EXPECT_GT(part / split, 0.85);
}

TEST(Splitter, EqualMachinesCarryEqualParts) {
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 4, 0.01), machine("b", 4, 0.01), machine("c", 4, 0.01)});
    base::Random random(1);
    CapacityTable capacities = random_capacities(random, 1, 4);
    capacities.nodes[0].max_layers = {{{4, 4}, {4, 4}}};
    capacities.nodes[0].tokens_per_s = {0, 400, 200, 130, 100};
    capacities.nodes.resize(3, capacities.nodes[0]);
    const Splitter splitter({cluster, small_model(8), capacities}, {}, kPrompt);
    Splitter::Scratch scratch;
    std::vector<spec::LinkFlow> flows;
    EXPECT_NEAR(
        splitter.split(std::vector<spec::LayerRange>{{0, 4}, {4, 8}, {4, 8}}, scratch, flows), 100,
        1e-9);
    ASSERT_EQ(flows.size(), 5U);
    for (const spec::LinkFlow& flow : flows)
        EXPECT_NEAR(flow.tokens_per_s, flow.from == spec::kCoordinator ? 100 : 50, 1e-9);
}

TEST(ImproveSplit, NeverLowersThePredictionAndHelpsPublishedLayouts) {
    const ReferenceProblem problem = reference_problem("highhet42");
    const auto layout = published_layout("highhet42__llama2-70b__petals");
    const auto& layers = layout.placement.layers;
    const PerformanceModel model({problem.cluster, problem.model(), problem.capacities},
                                 problem.tables, {.batching = Batching::reference});
    const FlowPlan solver = plan_flow(
        problem.cluster, build_flow_graph({problem.cluster, problem.model(), problem.capacities},
                                          layout.placement, {}));
    const Splitter splitter({problem.cluster, problem.model(), problem.capacities}, {}, 763);
    Splitter::Scratch scratch;
    PerformanceScratch room;
    std::vector<spec::LinkFlow> flows;
    ASSERT_GT(splitter.split(layers, scratch, flows), 0.8 * solver.tokens_per_s);
    const auto score = [&](std::span<const spec::LinkFlow> some) {
        return model.estimate(layers, some, room).decode_tokens_per_s;
    };
    const double by_solver = score(solver.links);
    const double quick = score(flows);
    const double improved = improve_split(score, 400, flows);
    EXPECT_GT(improved, quick);
    EXPECT_GT(improved, 1.05 * by_solver);
    EXPECT_NEAR(score(flows), improved, 1e-9 * improved);
}

}  // namespace
}  // namespace helix::plan::split_test

#include "plan/pack/block_links.h"
#include "base/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "plan/bounds/config_bound.h"
#include "plan/exhaustive.h"
#include "plan/flow/evaluator.h"
#include "plan/plan_fixtures.h"
#include "plan/problem/problem.h"
#include "plan/published_problems.h"

namespace helix::plan::block_links_test {
namespace {

const FlowOptions kWhole{.partial = false};

void expect_sound(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                  const CapacityTable& capacities, const BlockPlan& plan,
                  const std::string& context) {
    const auto fits = check_placement({cluster, model, capacities}, plan.placement);
    ASSERT_TRUE(fits.ok()) << context << ": " << fits.error().message;
    const Evaluator evaluator({cluster, model, capacities}, kWhole);
    EXPECT_NEAR(evaluator.flow(plan.placement.layers), plan.flow, 1e-4) << context;
    for (const PlacedBlock& block : plan.blocks) {
        for (const PlacedBlock::Part& part : block.parts)
            EXPECT_EQ(plan.placement.layers[static_cast<std::size_t>(part.node)], part.layers);
    }
}

// Two sites with wide links inside and links of 30 to 60 tokens/s between them.
spec::ClusterSpec two_sites(base::Random& random, std::int32_t n) {
    spec::ClusterSpec cluster{.name = "two sites", .nodes = {}, .links = {}};
    for (std::int32_t i = 0; i < n; ++i) {
        spec::NodeSpec node;
        node.name = "n" + std::to_string(i);
        cluster.nodes.push_back(node);
    }
    link_all(cluster, 1e9, 0.001);
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
        if (link.from % 2 != link.to % 2)
            link.bandwidth_bytes_per_s = 1000 * (30 + 30 * random.uniform());
    }
    return cluster;
}

// Nodes of one kind in pairs, so that both sites have them.
CapacityTable paired_types(base::Random& random, std::int32_t n) {
    CapacityTable table = random_capacities(random, n, 3);
    for (std::size_t i = 1; i < table.nodes.size(); i += 2) table.nodes[i] = table.nodes[i - 1];
    for (NodeCapacity& node : table.nodes) {
        for (double& tokens_per_s : node.tokens_per_s) tokens_per_s /= 4;
    }
    return table;
}

TEST(BlockLinks, PlansOfTwoSitesAreSound) {
    constexpr int kSeeds = kSanitized ? 8 : 40;
    int planned = 0;
    int good = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(2, 4));
        const spec::ModelSpec model =
            small_model(static_cast<std::int32_t>(random.between(2, n == 4 ? 4 : 5)));
        const spec::ClusterSpec cluster = two_sites(random, n);
        const CapacityTable capacities = paired_types(random, n);
        const double bound = config_bound({cluster, model, capacities}, {});
        const auto plan = best_linked_blocks({cluster, model, capacities}, bound, {});
        if (!plan) continue;
        ++planned;
        const std::string context = "seed " + std::to_string(seed);
        expect_sound(cluster, model, capacities, *plan, context);
        EXPECT_LE(plan->flow, bound * (1 + 1e-9)) << context;
        const double best = exhaustive_flow(Evaluator({cluster, model, capacities}, kWhole));
        EXPECT_LE(plan->flow, best * (1 + 1e-9)) << context;
        good += plan->flow >= 0.8 * best ? 1 : 0;
    }
    EXPECT_GE(planned, kSeeds * 3 / 8);
    EXPECT_GE(good, planned / 3);  // of so few nodes a plan in pure blocks is often not the best
}

TEST(BlockLinks, ExchangesNodesForTheWiderLink) {
    // One layer each; nodes 0 and 1 alike at one site, 2 at the other with a wide link to 1 only.
    const spec::ModelSpec model = small_model(2);
    base::Random random(1);
    spec::ClusterSpec cluster = two_sites(random, 4);
    CapacityTable capacities;
    for (int i = 0; i < 4; ++i) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {1, 1};
        node.tokens_per_s = {0, i % 2 == 0 ? 100.0 : 101.0};
        node.kv_tokens = {0, 1};
        capacities.nodes.push_back(node);
    }
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 2 && link.to == 3) link.bandwidth_bytes_per_s = 80 * 1000.0;
    }
    BlockPlan plan;
    plan.placement.layers = {{0, 1}, {1, 2}, {}, {}};
    plan.flow = 100;
    plan.blocks = {{.layers = {0, 1}, .parts = {{0, {0, 1}}}},
                   {.layers = {1, 2}, .parts = {{1, {1, 2}}}}};
    assign_to_links({cluster, model, capacities}, {}, plan);
    EXPECT_NEAR(plan.flow, 80, 1e-4);
    EXPECT_EQ(plan.placement.layers[2], (spec::LayerRange{0, 1}));
    EXPECT_EQ(plan.placement.layers[3], (spec::LayerRange{1, 2}));
    expect_sound(cluster, model, capacities, plan, "exchanged");
}

TEST(BlockLinks, HasNothingToSayWhereAllLinksAreWide) {
    base::Random random(3);
    const spec::ClusterSpec cluster = cluster_of({machine("a", 4, 1), machine("b", 4, 1)}, 1e12);
    const CapacityTable capacities = random_capacities(random, 2, 4);
    const spec::ModelSpec model = small_model(4);
    const double bound = config_bound({cluster, model, capacities}, {});
    EXPECT_FALSE(best_linked_blocks({cluster, model, capacities}, bound, {}).has_value());
}

TEST(BlockLinks, CrossesTheRegionsOfThePublishedClusters) {
    if (kSanitized) GTEST_SKIP() << "a minute's search; plans of two sites take the same ways";
    const struct {
        const char* model;
        double least;
        bool optimal;
    } known[] = {{"llama2-70b", 1754.38, true}, {"llama1-30b", 1419.9, false}};
    for (const auto& [name, least, optimal] : known) {
        const PublishedProblem problem = published_problem("distributed24", name, "single24");
        const double bound = config_bound({problem.cluster, problem.model, problem.capacities}, {});
        BlockOptions options;
        options.relative_tolerance = 1e-4;
        const auto plan = best_linked_blocks({problem.cluster, problem.model, problem.capacities},
                                             bound, options);
        ASSERT_TRUE(plan.has_value()) << name;
        expect_sound(problem.cluster, problem.model, problem.capacities, *plan, name);
        EXPECT_GE(plan->flow, least) << name;
        EXPECT_EQ(bound <= plan->flow * (1 + 3e-6), optimal) << name;
    }
}

}  // namespace
}  // namespace helix::plan::block_links_test

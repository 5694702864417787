#include "plan/pack/block_pack.h"
#include "base/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "plan/bounds/config_bound.h"
#include "plan/exhaustive.h"
#include "plan/flow/evaluator.h"
#include "plan/flow/flow_graph.h"
#include "plan/plan_fixtures.h"
#include "plan/problem/problem.h"
#include "plan/published_problems.h"

namespace helix::plan::block_pack_test {
namespace {

const FlowOptions kWhole{.partial = false};  // without partial inference

// The plan is what it says: fits, its flow, its depth, its blocks.
void expect_sound(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                  const CapacityTable& capacities, const BlockPlan& plan,
                  const std::string& context) {
    const auto fits = check_placement({cluster, model, capacities}, plan.placement);
    ASSERT_TRUE(fits.ok()) << context << ": " << fits.error().message;
    const Evaluator evaluator({cluster, model, capacities}, kWhole);
    EXPECT_NEAR(evaluator.flow(plan.placement.layers), plan.flow, 1e-4) << context;
    std::int32_t begin = 0;
    std::size_t placed = 0;
    for (const PlacedBlock& block : plan.blocks) {
        EXPECT_EQ(block.layers.begin, begin) << context;
        begin = block.layers.end;
        for (const PlacedBlock::Part& part : block.parts) {
            EXPECT_TRUE(block.layers.contains(part.layers)) << context;
            EXPECT_EQ(plan.placement.layers[static_cast<std::size_t>(part.node)], part.layers);
            ++placed;
        }
    }
    EXPECT_EQ(begin, model.n_layers) << context;
    EXPECT_EQ(placed, static_cast<std::size_t>(
                          std::count_if(plan.placement.layers.begin(), plan.placement.layers.end(),
                                        [](spec::LayerRange range) { return !range.empty(); })))
        << context;
    const FlowPlan flow =
        plan_flow(cluster, build_flow_graph({cluster, model, capacities}, plan.placement, kWhole));
    EXPECT_NEAR(flow.tokens_per_s, plan.flow, 1e-3) << context;
    for (const FlowPath& path : flow.paths)
        EXPECT_LE(path.nodes.size(), static_cast<std::size_t>(plan.depth)) << context;
}

CapacityTable random_types(base::Random& random, std::int32_t n, std::int32_t most, bool ends) {
    CapacityTable table = random_capacities(random, n, most);
    for (std::size_t i = 1; i < table.nodes.size(); ++i) {
        if (random.chance(0.5)) table.nodes[i] = table.nodes[random.below(i)];
    }
    for (NodeCapacity& node : table.nodes) {
        if (!ends || !random.chance(0.5)) continue;
        auto& fits = node.max_layers;  // embedding and head take the room of a layer each
        fits[1][0] = std::max(0, fits[0][0] - static_cast<std::int32_t>(random.between(0, 1)));
        fits[0][1] = std::max(0, fits[0][0] - static_cast<std::int32_t>(random.between(0, 2)));
        fits[1][1] = std::max(0, fits[1][0] + fits[0][1] - fits[0][0]);
    }
    return table;
}

TEST(BlockPricer, BlocksCarryWhatTheySay) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        base::Random random(seed);
        const spec::ClusterSpec cluster = random_cluster(random, 4, 0);
        const CapacityTable capacities = random_capacities(random, 4, 6);
        const std::vector<NodeType> types = node_types({cluster, small_model(20), capacities});
        const double target = 50 + 800 * random.uniform();
        BlockPrices prices{.type = {}, .depth = random.chance(0.5) ? 0.3 : 0.0};
        for (std::size_t t = 0; t < types.size(); ++t) prices.type.push_back(random.uniform());
        BlockPricer pricer(types, 0, target, 12, 64);
        for (const Block& block : pricer.price(prices)) {
            EXPECT_GE(block.flow, target * (1 - 1e-9)) << "seed " << seed;
            // Rows side by side that meet within carry more than the pricer knows.
            EXPECT_GE(block_flow(block, types), block.flow - 1e-4) << "seed " << seed;
            for (std::size_t t = 0; t < types.size(); ++t)
                EXPECT_LE(block.count[t], types[t].count()) << "seed " << seed;
            EXPECT_EQ(block_depth(block), block.depth) << "seed " << seed;
        }
    }
}

TEST(BlockShape, CuttingALayerOutShortensItsHoldersAndJoinsTheRest) {
    const std::vector<NodeType> types = {
        {.tokens_per_s = {0, 90, 40, 25}, .max_layers = {}, .group = 0, .nodes = {0, 1, 2}}};
    Block block{.length = 3,
                .depth = 2,
                .group = 0,
                .flow = 40,
                .parts = {{0, 1, 0}, {0, 3, 0}, {1, 2, 0}},
                .count = {3}};
    const Block without_first = without_layer(block, 0, types);
    EXPECT_EQ(without_first.length, 2);
    EXPECT_EQ(without_first.count[0], 2);
    EXPECT_NEAR(without_first.flow, 80, 1e-4);
    EXPECT_EQ(without_first.depth, 1);
    const Block without_last = without_layer(block, 2, types);
    EXPECT_EQ(without_last.count[0], 3);
    EXPECT_NEAR(without_last.flow, 130, 1e-4);
    EXPECT_EQ(without_last.depth, 2);
}

TEST(BlockPack, PlansAreSoundAndMostlyOptimalOnSmallClusters) {
    constexpr std::uint64_t kSeeds = kSanitized ? 15 : 120;
    int optimal = 0;
    int solvable = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 4));
        const auto n_layers = static_cast<std::int32_t>(random.between(1, n == 4 ? 4 : 5));
        const spec::ModelSpec model = small_model(n_layers);
        spec::ClusterSpec cluster = random_cluster(random, n, 0);
        for (spec::LinkSpec& link : cluster.links) link.bandwidth_bytes_per_s *= 1e6;
        const CapacityTable capacities = random_types(random, n, 4, seed % 2 == 0);
        const Evaluator evaluator({cluster, model, capacities}, kWhole);
        const double best = exhaustive_flow(evaluator);
        const auto plan = best_blocks({cluster, model, capacities}, {});
        const std::string context = "seed " + std::to_string(seed);
        if (best <= 0) {
            EXPECT_FALSE(plan.has_value()) << context;
            continue;
        }
        ++solvable;
        if (!plan) {
            ADD_FAILURE() << context << ": no plan, best " << best;
            continue;
        }
        expect_sound(cluster, model, capacities, *plan, context);
        EXPECT_LE(plan->flow, best * (1 + 1e-9)) << context;
        if (plan->flow >= best * (1 - 1e-4)) ++optimal;
    }
    EXPECT_GE(solvable, kSeeds / 2);
    EXPECT_GE(optimal, solvable * 80 / 100) << "of " << solvable;
}

TEST(BlockPack, StopsWhenAsked) {
    const spec::ClusterSpec cluster = cluster_of({machine("a", 4, 1), machine("b", 4, 1)});
    base::Random random(1);
    const CapacityTable capacities = random_capacities(random, 2, 4);
    int asked = 0;
    BlockOptions options;
    options.stop = [&] { return ++asked > 0; };
    EXPECT_FALSE(best_blocks({cluster, small_model(4), capacities}, options).has_value());
    EXPECT_GT(asked, 0);
    EXPECT_LT(asked, 20);
}

// Only types count, not nodes.
TEST(BlockPack, HundredsOfNodesComeCloseToTheirBound) {
    base::Random random(11);
    CapacityTable few = random_capacities(random, 5, 12);
    std::vector<NodeType> types;
    std::int32_t nodes = 0;
    for (const NodeCapacity& node : few.nodes) {
        NodeType type{.tokens_per_s = node.tokens_per_s,
                      .max_layers = node.max_layers,
                      .group = 0,
                      .nodes = {}};
        for (std::int32_t i = 0; i < (kSanitized ? 8 : 60); ++i) type.nodes.push_back(nodes++);
        types.push_back(std::move(type));
    }
    const std::int32_t n_layers = 40;
    double paper = 0;  // sum of max_j j T_j, per layer
    for (const NodeType& type : types) {
        double most = 0;
        for (std::int32_t j = 1; j <= type.most(); ++j)
            most = std::max(most, j * type.throughput(j));
        paper += type.count() * most / n_layers;
    }
    BlockOptions options;
    options.relative_tolerance = 1e-2;
    const auto plan = BlockPacker(types, nodes, n_layers).best(paper, options);
    ASSERT_TRUE(plan.has_value());
    EXPECT_FALSE(proves_no_flow(types, n_layers, {}, plan->flow, {}));
    EXPECT_TRUE(proves_no_flow(types, n_layers, {}, plan->flow * 1.1, {}));
}

TEST(BlockPack, ReachesThePublishedProblemsOptima) {
    const struct {
        const char* cluster;
        const char* model;
        double least;
        bool optimal;
    } known[] = {{"ablation10", "llama1-30b", 286.587, true},
                 {"single24", "llama2-70b", 2045.64, true},
                 {"single24", "llama1-30b", 1517.73, true},
                 {"highhet42", "llama2-70b", 5990, false}};
    for (const auto& [cluster, model, least, optimal] : known) {
        if (kSanitized && cluster == std::string_view("highhet42")) continue;
        const PublishedProblem problem = published_problem(cluster, model, cluster);
        const auto plan = best_blocks({problem.cluster, problem.model, problem.capacities}, {});
        ASSERT_TRUE(plan.has_value()) << cluster;
        expect_sound(problem.cluster, problem.model, problem.capacities, *plan, cluster);
        EXPECT_GE(plan->flow, least) << cluster;
        const double bound = config_bound({problem.cluster, problem.model, problem.capacities},
                                          {.known_flow = plan->flow});
        EXPECT_EQ(bound <= plan->flow * (1 + 2e-6), optimal) << cluster;
    }
}

TEST(BlockPack, DepthLimitsCostLittleFlow) {
    const struct {
        const char* cluster;
        std::int32_t depth;
        double least;
    } known[] = {{"single24", 12, 1392.5},
                 {"highhet42", 12, 4750},
                 {"highhet42", 15, 5250},
                 {"highhet42", 18, 5600}};
    for (const auto& [cluster, depth, least] : known) {
        if (kSanitized && depth > 12) continue;
        const PublishedProblem problem = published_problem(cluster, "llama2-70b", cluster);
        BlockOptions options;
        options.max_depth = depth;
        options.relative_tolerance = 1e-3;
        const auto plan =
            best_blocks({problem.cluster, problem.model, problem.capacities}, options);
        ASSERT_TRUE(plan.has_value()) << cluster;
        expect_sound(problem.cluster, problem.model, problem.capacities, *plan, cluster);
        EXPECT_LE(plan->depth, depth) << cluster;
        EXPECT_GE(plan->flow, least) << cluster << " at depth " << depth;
    }
}

TEST(BlockPack, AnyBeginningOfTheOrderOfDepthsIsSpreadOverAll) {
    EXPECT_EQ(spread_order(9, 9), std::vector<std::int32_t>());
    EXPECT_EQ(spread_order(9, 10), std::vector<std::int32_t>({9}));
    EXPECT_EQ(spread_order(0, 8), std::vector<std::int32_t>({7, 3, 5, 1, 6, 4, 2, 0}));
    for (std::int32_t end = 10; end < 40; ++end) {
        std::vector<std::int32_t> order = spread_order(9, end);
        std::ranges::sort(order);
        ASSERT_EQ(order.size(), static_cast<std::size_t>(end - 9));
        for (std::size_t k = 0; k < order.size(); ++k) {
            EXPECT_EQ(order[k], 9 + static_cast<std::int32_t>(k));
        }
    }
}

// What is packed when the time is over, one depth after the other, is not only shallow.
TEST(BlockPack, ACurveThatIsCutShortHasDeepPlansAndOthers) {
    const PublishedProblem published = published_problem("single24", "llama2-70b", "single24");
    const Problem problem{published.cluster, published.model, published.capacities};
    BlockOptions options;
    options.relative_tolerance = 3e-2;
    const std::int32_t deepest = 24;
    const auto all = blocks_by_depth(problem, deepest, options);
    ASSERT_GE(all.size(), 3U);
    std::int64_t asked = 0;
    options.stop = [&] {
        ++asked;
        return false;
    };
    blocks_by_depth(problem, deepest, options);
    const std::int64_t most = asked * 2 / 3;
    asked = 0;
    options.stop = [&] { return ++asked > most; };
    const auto some = blocks_by_depth(problem, deepest, options);
    ASSERT_GE(some.size(), 2U);
    EXPECT_LT(some.size(), all.size());
    EXPECT_GE(some.back().flow, all.back().flow * 0.97);
    EXPECT_GT(some.back().depth, some.front().depth + 4);
}

TEST(BlockPack, TheCurveByDepthIsTheSameOnAnyNumberOfThreads) {
    const PublishedProblem published = published_problem("single24", "llama2-70b", "single24");
    const Problem problem{published.cluster, published.model, published.capacities};
    BlockOptions options;
    options.relative_tolerance = kSanitized ? 3e-2 : 1e-2;
    const std::int32_t deepest = 14;
    const auto one = blocks_by_depth(problem, deepest, options);
    const auto many =
        blocks_by_depth(problem, deepest, options, [](int n, const std::function<void(int)>& job) {
            std::vector<std::thread> threads;
            for (int k = n - 1; k >= 0; --k) threads.emplace_back(job, k);
            for (std::thread& thread : threads) thread.join();
        });
    ASSERT_FALSE(one.empty());
    ASSERT_EQ(one.size(), many.size());
    for (std::size_t k = 0; k < one.size(); ++k) {
        EXPECT_EQ(one[k].placement.layers, many[k].placement.layers);
        EXPECT_LE(one[k].depth, deepest);
        if (k > 0) {
            EXPECT_GT(one[k].flow, one[k - 1].flow);
        }
        expect_sound(problem.cluster, problem.model, problem.capacities, one[k], "by depth");
    }
    options.max_depth = deepest;
    const auto best = best_blocks(problem, options);
    ASSERT_TRUE(best.has_value());
    EXPECT_GE(one.back().flow, best->flow * (1 - options.relative_tolerance));
}

}  // namespace
}  // namespace helix::plan::block_pack_test

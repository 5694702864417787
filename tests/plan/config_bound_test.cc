#include "plan/bounds/config_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/effort.h"
#include "plan/bounds/bounds.h"
#include "plan/bounds/config_cover.h"
#include "plan/exhaustive.h"
#include "plan/flow/evaluator.h"
#include "plan/plan_fixtures.h"
#include "plan/published_problems.h"

namespace helix::plan::config_bound_test {
namespace {

// A few kinds of nodes, some of them several times, T falling in j or not.
CapacityTable random_types(base::Random& random, std::int32_t n, std::int32_t most) {
    CapacityTable table = random_capacities(random, n, most);
    for (std::size_t i = 1; i < table.nodes.size(); ++i) {
        if (random.chance(0.5)) table.nodes[i] = table.nodes[random.below(i)];
    }
    for (NodeCapacity& node : table.nodes) {
        if (node.most() > 1 && random.chance(0.2)) {
            std::swap(node.tokens_per_s[1], node.tokens_per_s.back());
        }
    }
    return table;
}

TEST(CheapestCover, IsTheCheapestOfAllMultisets) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        base::Random random(seed);
        std::vector<CoverItem> items;
        const std::int64_t n = random.between(1, 4);
        for (std::int64_t i = 0; i < n; ++i)
            items.push_back({random.between(1, 20), random.between(0, 30)});
        const std::int64_t demand = random.between(1, 60);
        const auto least_items = static_cast<std::int32_t>(random.between(1, 4));
        // [flow][items so far]: the cheapest way there.
        std::function<std::int64_t(std::size_t, std::int64_t, std::int32_t)> best =
            [&](std::size_t item, std::int64_t missing, std::int32_t count) -> std::int64_t {
            if (missing <= 0 && count >= least_items) return 0;
            if (item == items.size()) return 1'000'000;
            const std::int64_t skip = best(item + 1, missing, count);
            return std::min(skip, items[item].price + best(item, missing - items[item].flow,
                                                           std::min(count + 1, least_items)));
        };
        const Cover cover = cheapest_cover(items, demand, least_items, 100);
        ASSERT_FALSE(cover.rounded);
        EXPECT_EQ(cover.price, best(0, demand, 0)) << "seed " << seed;
        std::int64_t flow = 0;
        std::int64_t price = 0;
        std::int32_t count = 0;
        for (std::size_t i = 0; i < items.size(); ++i) {
            flow += cover.count[i] * items[i].flow;
            price += cover.count[i] * items[i].price;
            count += cover.count[i];
        }
        EXPECT_GE(flow, demand) << "seed " << seed;
        EXPECT_GE(count, least_items) << "seed " << seed;
        EXPECT_EQ(price, cover.price) << "seed " << seed;
    }
}

TEST(CheapestCover, FallsBackToABoundWhereTheSearchIsTooLong) {
    // Prices proportional to flow but for a remainder: nothing can be pruned.
    std::vector<CoverItem> items;
    base::Random random(7);
    for (int i = 0; i < 40; ++i) {
        const std::int64_t flow = random.between(1'000, 3'000);
        items.push_back({flow, flow * 1'000});
    }
    const std::int64_t demand = 200'000'003;
    const Cover cover = cheapest_cover(items, demand, 1, 200'000);
    EXPECT_TRUE(cover.rounded);
    EXPECT_LE(cover.price, (demand + 3'000) * 1'000);
    EXPECT_GE(cover.price, demand * 400);
}

// What the bound promises, against all placements of small clusters.
void expect_bounds(std::uint64_t seed, double missing_links, bool wide_links) {
    base::Random random(seed);
    const auto n = static_cast<std::int32_t>(random.between(1, 4));
    const auto n_layers = static_cast<std::int32_t>(random.between(1, n == 4 ? 3 : 5));
    const spec::ModelSpec model = small_model(n_layers);
    spec::ClusterSpec cluster = random_cluster(random, n, missing_links);
    if (wide_links) {
        for (spec::LinkSpec& link : cluster.links) link.bandwidth_bytes_per_s *= 1e6;
    }
    const CapacityTable capacities = random_types(random, n, 4);
    for (const bool partial : {false, true}) {
        const FlowOptions flow{.partial = partial};
        const Evaluator evaluator({cluster, model, capacities}, flow);
        const double best = exhaustive_flow(evaluator);
        const double bound = config_bound({cluster, model, capacities}, {});
        ASSERT_GE(bound, best * (1 - 1e-9)) << "seed " << seed << " partial " << partial;
        const double sharp = config_bound({cluster, model, capacities}, {.known_flow = best});
        ASSERT_GE(sharp, best * (1 - 1e-12)) << "seed " << seed << " partial " << partial;
        ASSERT_LE(bound, flow_bounds({cluster, model, capacities}).best * (1 + 1e-9));
        ConfigBoundOptions no_links;
        no_links.links = false;
        ASSERT_LE(bound, config_bound({cluster, model, capacities}, no_links) * (1 + 3e-6));
    }
}

TEST(ConfigBound, IsNeverBelowTheBestPlacement) {
    for (std::uint64_t seed = 1; seed <= sweep(150U); ++seed) expect_bounds(seed, 0.0, true);
}

TEST(ConfigBound, IsNeverBelowTheBestPlacementWhereLinksBind) {
    for (std::uint64_t seed = 1001; seed <= 1000 + sweep(80U); ++seed)
        expect_bounds(seed, 0.0, false);
    for (std::uint64_t seed = 2001; seed <= 2000 + sweep(80U); ++seed)
        expect_bounds(seed, 0.3, false);
}

// Two sites of fast nodes with one narrow kind of link between them.
TEST(ConfigBound, KnowsThatSomethingMustCrossANarrowLink) {
    const std::int32_t n_layers = 4;
    const spec::ModelSpec model = small_model(n_layers);
    spec::ClusterSpec cluster{.name = "two sites", .nodes = {}, .links = {}};
    CapacityTable capacities;
    for (int i = 0; i < 4; ++i) {
        cluster.nodes.push_back(machine("n" + std::to_string(i), 2, 1));
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {1, 1};
        node.tokens_per_s = {0, 100};
        node.kv_tokens = {0, 1};
        capacities.nodes.push_back(node);
    }
    link_all(cluster, 1e9, 0.001);
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator || link.to == spec::kCoordinator) continue;
        if (link.from / 2 != link.to / 2) link.bandwidth_bytes_per_s = 40 * 1000.0;  // 40 tokens/s
    }
    ConfigBoundOptions no_links;
    no_links.links = false;
    EXPECT_NEAR(config_bound({cluster, model, capacities}, no_links), 100, 1e-3);
    // Four nodes of one layer each are one path, and it crosses.
    EXPECT_NEAR(config_bound({cluster, model, capacities}, {}), 40, 1e-3);
    const LinkRow row = link_row(cluster, model, node_types({cluster, model, capacities}), 90);
    EXPECT_TRUE(row.not_all_single);
    EXPECT_TRUE(row.wide_crossing);
    EXPECT_EQ(row.crossing_links, 3);
}

TEST(ConfigBound, ProvesThePublishedProblems) {
    const struct {
        const char* cluster;
        const char* model;
        const char* mix;
        double bound;
    } known[] = {{"ablation10", "llama1-30b", "ablation10", 286.5872},
                 {"single24", "llama2-70b", "single24", 2045.6410},
                 {"distributed24", "llama2-70b", "single24", 1754.3806},
                 {"single24", "llama1-30b", "single24", 1517.7365},
                 {"distributed24", "llama1-30b", "single24", 1517.7365},
                 {"highhet42", "llama2-70b", "highhet42", 6051.36}};
    for (const auto& [cluster, model, mix, bound] : known) {
        const PublishedProblem problem = published_problem(cluster, model, mix);
        EXPECT_NEAR(config_bound({problem.cluster, problem.model, problem.capacities}, {}), bound,
                    bound * 3e-6)
            << cluster << ' ' << model;
    }
}

}  // namespace
}  // namespace helix::plan::config_bound_test

#include "plan/rules/heuristics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "plan/planner.h"
#include "plan/problem/problem.h"
#include "plan_fixtures.h"

namespace helix::plan::heuristics_test {
namespace {

using spec::LayerRange;

// T(j) = speed / j.
NodeCapacity node_of(std::int32_t most, double speed) {
    NodeCapacity node;
    for (auto& row : node.max_layers) row = {most, most};
    node.tokens_per_s.push_back(0);
    node.kv_tokens.push_back(0);
    for (std::int32_t j = 1; j <= most; ++j) {
        node.tokens_per_s.push_back(speed / j);
        node.kv_tokens.push_back(100);
    }
    return node;
}

std::vector<std::int32_t> counting(std::size_t n) {
    std::vector<std::int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    return order;
}

TEST(Petals, EachNodeTakesWhereTheSortedThroughputsAreSmallest) {
    // 6 layers. Node 0 (3 layers, 30): all zero, so [0,3) at 10. Node 1 (2 layers, 10): the first
    // pair of zeros, [3,5) at 5. Node 2 (3 layers, 12): [3,6) holds {0,5,5}, smaller than {5,5,10}:
    // [3,6) at 4. Node 3 (1 layer, 7): the smallest is layer 5 with 4. Then [10,10,10,9,9,11]: node
    // 4 (2 layers) [3,5).
    const CapacityTable capacities{
        {node_of(3, 30), node_of(2, 10), node_of(3, 12), node_of(1, 7), node_of(2, 2)}};
    const auto placement = petals_placement(capacities, 6, counting(5));
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers, (std::vector<LayerRange>{{0, 3}, {3, 5}, {3, 6}, {5, 6}, {3, 5}}));
}

TEST(Petals, FindsNoPlacementWhereLayersStayBare) {
    const CapacityTable capacities{{node_of(3, 30), node_of(2, 10)}};
    EXPECT_FALSE(petals_placement(capacities, 6, counting(2)).has_value());
}

TEST(Petals, TheJoiningOrderIsDrawnBySeed) {
    const auto order = shuffled_order(50, 1);
    EXPECT_EQ(order, shuffled_order(50, 1));
    EXPECT_NE(order, shuffled_order(50, 2));
    EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), counting(50).begin()));
    EXPECT_TRUE(shuffled_order(0, 1).empty());
    // Every place is as likely for every node, about.
    std::vector<int> first(4, 0);
    for (std::uint64_t seed = 0; seed < 4000; ++seed)
        ++first[static_cast<std::size_t>(shuffled_order(4, seed)[0])];
    for (const int count : first) EXPECT_NEAR(count, 1000, 120);
}

// The rule, checked from outside: nowhere were the sorted throughputs smaller when a node joined.
TEST(Petals, EachNodeStandsWhereTheLayersWereSlowestOnRandomClusters) {
    int placed = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(2, 9));
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 12));
        const CapacityTable capacities = random_capacities(random, n, 8);
        const auto order = shuffled_order(n, seed);
        const auto placement = petals_placement(capacities, n_layers, order);
        if (!placement) continue;
        ++placed;
        std::vector<double> speed(static_cast<std::size_t>(n_layers), 0.0);
        const auto sorted_at = [&](std::int32_t begin, std::int32_t size) {
            std::vector<double> key(speed.begin() + begin, speed.begin() + begin + size);
            std::sort(key.begin(), key.end());
            return key;
        };
        for (const std::int32_t i : order) {
            const LayerRange range = placement->layers[static_cast<std::size_t>(i)];
            const NodeCapacity& node = capacities.nodes[static_cast<std::size_t>(i)];
            ASSERT_EQ(range.size(), std::min(node.most(), n_layers));
            const auto chosen = sorted_at(range.begin, range.size());
            for (std::int32_t begin = 0; begin + range.size() <= n_layers; ++begin) {
                const auto other = sorted_at(begin, range.size());
                ASSERT_TRUE(begin < range.begin ? chosen < other : chosen <= other);
            }
            for (std::int32_t l = range.begin; l < range.end; ++l)
                speed[static_cast<std::size_t>(l)] += node.throughput(range);
        }
    }
    EXPECT_GT(placed, 150);
}

TEST(Swarm, StagesAreEqualAndFilledFastestNodeFirstOnRandomClusters) {
    int placed = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(2, 12));
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 12));
        const CapacityTable capacities = random_capacities(random, n, 8);
        const auto stages = static_cast<std::int32_t>(random.between(1, n_layers));
        const auto placement = swarm_placement(capacities, n_layers, stages);
        if (!placement) continue;
        ++placed;
        std::vector<std::int32_t> begins;
        for (const LayerRange range : placement->layers) {
            if (range.empty()) continue;
            begins.push_back(range.begin);
            ASSERT_LE(range.size(), (n_layers + stages - 1) / stages);
            ASSERT_GE(range.size(), n_layers / stages);
        }
        std::sort(begins.begin(), begins.end());
        begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
        ASSERT_EQ(begins.size(), static_cast<std::size_t>(stages));
    }
    EXPECT_GT(placed, 100);
}

TEST(Swarm, NodesGoFastestFirstToTheWeakestStage) {
    // 6 layers, the weakest holds 2: 3 stages. T(2): 40, 30, 20, 20, 10, 5. Equal speeds: higher
    // index first. 40 -> stage 0, 30 -> 1, node 3 (20) -> 2, node 2 (20) -> 2, 10 -> 1, 5 -> 0 (40,
    // 40, 40: first).
    const CapacityTable capacities{{node_of(4, 80), node_of(2, 60), node_of(3, 40), node_of(2, 40),
                                    node_of(2, 20), node_of(2, 10)}};
    EXPECT_EQ(swarm_stages(capacities, 6), 3);
    const auto placement = swarm_placement(capacities, 6, 0);
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers,
              (std::vector<LayerRange>{{0, 2}, {2, 4}, {4, 6}, {4, 6}, {2, 4}, {0, 2}}));
}

TEST(Swarm, StagesDivideTheLayersWhereThatIsNotTooMany) {
    const CapacityTable of_seven{{node_of(7, 1), node_of(20, 1)}};
    EXPECT_EQ(swarm_stages(of_seven, 60), 10);  // 9 would do, but 60 / 9 is not whole
    EXPECT_EQ(swarm_stages(of_seven, 61), 9);   // a prime: unequal stages
}

TEST(Chain, SplitsInProportionToSpeed) {
    const CapacityTable capacities{{node_of(32, 100), node_of(32, 200), node_of(32, 100)}};
    const auto placement = chain_placement(capacities, 32, counting(3));
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers, (std::vector<LayerRange>{{0, 8}, {8, 24}, {24, 32}}));
}

TEST(Chain, PutsNodesWithRoomForEmbeddingAndHeadAtTheEnds) {
    CapacityTable capacities{{node_of(4, 100), node_of(6, 100), node_of(6, 100)}};
    capacities.nodes[0].max_layers = {{{4, 0}, {0, 0}}};  // [no embedding][no head]
    capacities.nodes[1].max_layers = {{{6, 3}, {5, 0}}};
    capacities.nodes[2].max_layers = {{{6, 5}, {3, 0}}};
    EXPECT_EQ(holdable_layers(capacities, 20), 14);
    const auto placement = chain_placement(capacities, 14, counting(3));
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers, (std::vector<LayerRange>{{5, 9}, {0, 5}, {9, 14}}));
    EXPECT_FALSE(chain_placement(capacities, 15, counting(3)).has_value());
}

TEST(Even, OneFastMachineIsBetterThanAChainThroughASlowOne) {
    const CapacityTable capacities{{node_of(8, 1), node_of(8, 1000)}};
    const auto placement = even_placement(capacities, 8);
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers, (std::vector<LayerRange>{{}, {0, 8}}));
}

TEST(Replicated, BuildsAsManyPipelinesAsThereIsMemoryFor) {
    const CapacityTable capacities{
        {node_of(4, 10), node_of(8, 10), node_of(4, 10), node_of(8, 10), node_of(2, 10)}};
    const auto placement = replicated_placement(capacities, 8);
    ASSERT_TRUE(placement.has_value());
    EXPECT_EQ(placement->layers[1], (LayerRange{0, 8}));
    EXPECT_EQ(placement->layers[3], (LayerRange{0, 8}));
    EXPECT_EQ(placement->layers[0], (LayerRange{0, 4}));
    EXPECT_EQ(placement->layers[2], (LayerRange{4, 8}));
    EXPECT_EQ(placement->layers[4].size(), 2);
}

TEST(Heuristics, PlaceOnlyWhatFitsAndCoverEveryLayerOnRandomClusters) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 8));
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 16));
        CapacityTable capacities = random_capacities(random, n, n_layers);
        for (NodeCapacity& node :
             capacities.nodes) {  // embedding and head cost up to two layers each
            const auto first = static_cast<std::int32_t>(random.below(3));
            const auto last = static_cast<std::int32_t>(random.below(3));
            const std::int32_t most = node.most();
            node.max_layers = {{{most, std::max(0, most - last)},
                                {std::max(0, most - first), std::max(0, most - first - last)}}};
        }
        const auto cluster = cluster_of(
            std::vector<spec::NodeSpec>(static_cast<std::size_t>(n), machine("n", 1, 1)));
        const auto order = counting(static_cast<std::size_t>(n));
        const std::optional<spec::Placement> placements[] = {
            even_placement(capacities, n_layers), replicated_placement(capacities, n_layers),
            petals_placement(capacities, n_layers, order),
            swarm_placement(capacities, n_layers, 0)};
        for (const auto& placement : placements) {
            if (!placement) continue;
            const auto fits =
                check_placement({cluster, small_model(n_layers), capacities}, *placement);
            ASSERT_TRUE(fits.ok()) << fits.error().message;
            ASSERT_GT(max_flow_value(build_flow_graph({cluster, small_model(n_layers), capacities},
                                                      *placement, {})
                                         .network),
                      0);
        }
        // Whatever can be held is held by some chain or single node.
        const bool possible = holdable_layers(capacities, n_layers) >= n_layers;
        const bool chain = chain_placement(capacities, n_layers, order).has_value();
        ASSERT_EQ(possible, chain || even_placement(capacities, n_layers).has_value());
    }
}

}  // namespace
}  // namespace helix::plan::heuristics_test

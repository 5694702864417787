#include "plan/search/moves.h"

#include <gtest/gtest.h>

#include <set>

#include "plan_fixtures.h"

namespace helix::plan::moves_test {
namespace {

using spec::LayerRange;

TEST(Mover, KeepsEveryRangeInTheModelAndInItsNodesMemory) {
    std::int64_t changed = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 12));
        CapacityTable capacities =
            random_capacities(random, static_cast<std::int32_t>(random.between(1, 6)), n_layers);
        for (NodeCapacity& node : capacities.nodes) {  // embedding and head take room
            if (random.chance(0.3)) node.max_layers[1] = {node.most() - 1, node.most() - 1};
            if (random.chance(0.3)) node.max_layers[0][1] = node.max_layers[1][1] = 0;
        }
        Mover mover(capacities, n_layers, random);
        Mover::Layers layers(capacities.nodes.size());
        for (int k = 0; k < 1000; ++k) {
            const Mover::Layers before = layers;
            mover.move(layers, static_cast<std::int32_t>(random.between(0, n_layers - 1)));
            changed += layers != before ? 1 : 0;
            for (std::size_t i = 0; i < layers.size(); ++i) {
                if (layers[i].empty()) continue;
                ASSERT_TRUE((LayerRange{0, n_layers}.contains(layers[i])));
                ASSERT_TRUE(capacities.nodes[i].fits(layers[i], n_layers));
            }
        }
    }
    EXPECT_GT(changed, 20'000);
}

TEST(Mover, ReachesEveryPlacementOfASmallCluster) {
    base::Random random(1);
    const CapacityTable capacities = [] {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {3, 3};
        node.tokens_per_s = node.kv_tokens = {0, 3, 2, 1};
        return CapacityTable{{node, node}};
    }();
    Mover mover(capacities, 3, random);
    Mover::Layers layers(2);
    std::set<Mover::Layers> seen;
    for (int k = 0; k < 20'000; ++k) {
        mover.move(layers, 0);
        for (LayerRange& range : layers) {
            if (range.empty()) range = {};
        }
        seen.insert(layers);
    }
    EXPECT_EQ(seen.size(), 7U * 7U);  // six ranges and none, for each of two nodes
}

TEST(Mover, RepeatsWithTheSameRandomNumbers) {
    base::Random one(7);
    base::Random other(7);
    base::Random shape(3);
    const CapacityTable capacities = random_capacities(shape, 5, 6);
    Mover first(capacities, 10, one);
    Mover second(capacities, 10, other);
    Mover::Layers a(5);
    Mover::Layers b(5);
    for (int k = 0; k < 500; ++k) {
        first.move(a, 2);
        second.move(b, 2);
        ASSERT_EQ(a, b);
    }
}

}  // namespace
}  // namespace helix::plan::moves_test

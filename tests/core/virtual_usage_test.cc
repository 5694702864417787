#include "core/coordinator/virtual_usage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "core/coordinator/freeness.h"

namespace helix::core::virtual_usage_test {
namespace {

TEST(VirtualUsage, FollowsTheTable) {
    struct Row {
        Usage usage;
        Headroom headroom;
        double virtual_usage;
    };
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    const std::vector<Row> table = {
        {{UsageKind::running, 100, 4}, {}, 400},
        {{UsageKind::running, 100, 1, 3}, {}, 100},
        {{UsageKind::running, 100, 4, 1, true}, {600, 1}, 1000},
        {{UsageKind::running, 100, 4, 1, true}, {600, 3}, 600},
        {{UsageKind::running, 100, 4, 1, false}, {600, 3}, 400},
        {{UsageKind::head_of_line, 50, 4}, {}, 200},
        {{UsageKind::head_of_line, 50, 4, 1, true}, {600, 0}, 200},
        {{UsageKind::queued, 50, 4}, {}, 0},
        {{UsageKind::draining, 0, 0}, {}, kInfinite},
    };
    for (std::size_t i = 0; i < table.size(); ++i) {
        EXPECT_EQ(virtual_usage(table[i].usage, table[i].headroom), table[i].virtual_usage)
            << "row " << i;
    }
}

TEST(Freeness, FollowsTheTable) {
    // A node with four layers and 4000 tokens x layers of memory, which is 1000 tokens in all
    // layers, and a headroom of 100 tokens.
    struct Row {
        std::vector<Usage> usages;
        double freeness;
    };
    const Usage whole = {UsageKind::running, 100, 4};
    const Usage high = {UsageKind::running, 100, 4, 1, true};
    const std::vector<Row> table = {
        {{}, 1000},
        {{whole}, 900},
        {{whole, whole}, 400},
        {{{UsageKind::running, 100, 1}}, 975},  // one layer alone grows slowly: as if all did
        {{{UsageKind::running, 100, 4, 5}}, 180},
        {{whole, {UsageKind::head_of_line, 500, 4}}, 400},
        {{whole, {UsageKind::queued, 500, 4}}, 900},
        {{high}, 800},
        {{high, high}, 350},
        {{whole, {UsageKind::running, 1000, 4}}, -400},
    };
    for (std::size_t i = 0; i < table.size(); ++i) {
        NodeLoad load(4, 4000, 400);
        for (const Usage& usage : table[i].usages) load.add(usage);
        EXPECT_DOUBLE_EQ(load.freeness(), table[i].freeness) << "row " << i;
    }
    NodeLoad draining(4, 4000, 400);
    draining.add({UsageKind::draining});
    EXPECT_EQ(draining.freeness(), -std::numeric_limits<double>::infinity());
}

// Whatever is added makes the node less free, or leaves it as free if it counts for nothing;
// whatever is removed again leaves it as it was. And the sum is that of the requests' virtual
// usages.
TEST(Freeness, FallsWithEveryUsageAndComesBack) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        base::Random random(seed);
        const auto layers = static_cast<std::int32_t>(random.between(1, 8));
        const std::int64_t headroom = random.between(0, 500);
        NodeLoad load(layers, random.between(0, 20000), headroom);
        std::vector<Usage> usages;
        std::vector<double> freeness = {load.freeness()};
        std::int64_t high = 0;
        for (int i = 0; i < 12; ++i) {
            Usage usage;
            usage.kind = static_cast<UsageKind>(random.below(3));
            usage.tokens = random.between(1, 500);
            usage.layers = static_cast<std::int32_t>(random.between(1, layers));
            usage.sequences = static_cast<std::int32_t>(random.between(1, 3));
            usage.high = random.chance(0.3);
            if (usage.kind == UsageKind::running && usage.high) ++high;
            load.add(usage);
            usages.push_back(usage);
            EXPECT_LE(load.freeness(), freeness.back()) << "seed " << seed;
            freeness.push_back(load.freeness());
        }
        double sum = 0;
        for (const Usage& usage : usages) sum += virtual_usage(usage, {headroom, high});
        EXPECT_NEAR(sum, static_cast<double>(load.used()), 1e-6) << "seed " << seed;
        while (!usages.empty()) {
            load.remove(usages.back());
            usages.pop_back();
            freeness.pop_back();
            EXPECT_EQ(load.freeness(), freeness.back()) << "seed " << seed;
        }
    }
}

TEST(Freeness, OfAPathIsThatOfItsFullestNode) {
    const PipelineGraph graph(4, {{{0}, {0, 2}}, {{1}, {2, 4}}, {{2}, {2, 4}}},
                              {{spec::kCoordinator, 0, 5},
                               {0, 1, 5},
                               {0, 2, 5},
                               {1, spec::kCoordinator, 5},
                               {2, spec::kCoordinator, 5}});
    std::vector<NodeLoad> nodes(3, NodeLoad(2, 2000, 0));
    nodes[1].add({UsageKind::running, 300, 2});
    EXPECT_DOUBLE_EQ(freeness(graph, graph.path({{{0}, {0, 2}}, {{1}, {2, 4}}}), nodes), 700);
    EXPECT_DOUBLE_EQ(freeness(graph, graph.path({{{0}, {0, 2}}, {{2}, {2, 4}}}), nodes), 1000);
}

}  // namespace
}  // namespace helix::core::virtual_usage_test

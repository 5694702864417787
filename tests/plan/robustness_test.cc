#include "plan/losses/robustness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan_fixtures.h"

namespace helix::plan::robustness_test {
namespace {

constexpr std::int32_t kLayers = 6;

// The worst loss of a machine (or, with links, of a cable) by taking each one out of the cluster.
double worst_by_hand(const spec::ClusterSpec& cluster, const CapacityTable& capacities,
                     const spec::Placement& placement, bool links) {
    const spec::ModelSpec model = small_model(kLayers);
    const auto flow = [&](const spec::ClusterSpec& rest, const spec::Placement& held) {
        return max_flow_value(build_flow_graph({rest, model, capacities}, held, {}).network);
    };
    double least = flow(cluster, placement);
    if (!links) {
        for (std::size_t i = 0; i < placement.layers.size(); ++i) {
            spec::Placement without = placement;
            without.layers[i] = {};
            least = std::min(least, flow(cluster, without));
        }
        return least;
    }
    for (const spec::LinkSpec& lost : cluster.links) {
        spec::ClusterSpec without = cluster;
        std::erase_if(without.links, [&](const spec::LinkSpec& link) {
            return std::minmax(link.from, link.to) == std::minmax(lost.from, lost.to);
        });
        least = std::min(least, flow(without, placement));
    }
    return least;
}

TEST(Robustness, EqualsTakingOutEachPartOfRandomClusters) {
    int flowing = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        base::Random random(seed);
        const spec::ClusterSpec cluster = random_cluster(random, 5, 0.2);
        const CapacityTable capacities = random_capacities(random, 5, 5);
        const spec::Placement placement = random_placement(random, capacities, kLayers);
        const Robustness result =
            single_losses({cluster, small_model(kLayers), capacities}, placement, {});
        if (result.tokens_per_s <= 0) continue;
        ++flowing;
        EXPECT_NEAR(result.machine.tokens_per_s,
                    worst_by_hand(cluster, capacities, placement, false), 1e-6)
            << "seed " << seed;
        EXPECT_NEAR(result.link.tokens_per_s, worst_by_hand(cluster, capacities, placement, true),
                    1e-6)
            << "seed " << seed;
        EXPECT_NEAR(result.machine.share, result.machine.tokens_per_s / result.tokens_per_s, 1e-12);
        EXPECT_LE(result.worst_share(), result.machine.share);
        EXPECT_LE(result.worst_share(), result.link.share);
    }
    EXPECT_GT(flowing, 20);
}

TEST(Robustness, NamesTheMachineThatEverythingPasses) {
    spec::ClusterSpec cluster =
        cluster_of({machine("door", 4, 0.01), machine("a", 4, 0.01), machine("b", 4, 0.01)});
    base::Random random(3);
    CapacityTable capacities = random_capacities(random, 3, 4);
    for (NodeCapacity& node : capacities.nodes) {
        for (auto& row : node.max_layers) row = {4, 4};
        node.tokens_per_s = {0, 100, 100, 100, 100};
        node.kv_tokens = {0, 100, 100, 100, 100};
    }
    const spec::Placement placement{{{0, 3}, {3, 6}, {3, 6}}};
    const Robustness result =
        single_losses({cluster, small_model(kLayers), capacities}, placement, {});
    EXPECT_EQ(result.machine.part, "door");
    EXPECT_EQ(result.machine.share, 0);
    EXPECT_EQ(result.link.part, "link coordinator - door");
    // Machines of one host fail together.
    cluster.nodes[1].host = cluster.nodes[2].host = "shelf";
    const spec::Placement two_doors{{{0, 6}, {0, 3}, {3, 6}}};
    capacities.nodes[0].tokens_per_s = {0, 1, 1, 1, 1, 1, 1};
    capacities.nodes[0].kv_tokens = {0, 1, 1, 1, 1, 1, 1};
    const Robustness hosts =
        single_losses({cluster, small_model(kLayers), capacities}, two_doors, {});
    EXPECT_EQ(hosts.machine.part, cluster.nodes[1].name + " and " + cluster.nodes[2].name);
    EXPECT_NEAR(hosts.machine.tokens_per_s, 1, 1e-5);
}

}  // namespace
}  // namespace helix::plan::robustness_test

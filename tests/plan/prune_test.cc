#include "plan/milp/prune.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "milp_fixtures.h"
#include "plan_fixtures.h"

namespace helix::plan::prune_test {
namespace {

using Links = std::vector<std::pair<std::int32_t, std::int32_t>>;
using spec::kCoordinator;

TEST(Prune, EachNodeKeepsItsFastestLinksAndTiesGoByNameReversed) {
    spec::ClusterSpec cluster =
        cluster_of(std::vector<spec::NodeSpec>(4, machine("n", 1, 1)), 1000);
    for (spec::LinkSpec& link : cluster.links) {
        if (std::min(link.from, link.to) == 0 && std::max(link.from, link.to) == 1)
            link.bandwidth_bytes_per_s = 2000;
        if (link.from == kCoordinator && link.to == 2) link.bandwidth_bytes_per_s = 9000;
    }
    // 0 and 1 keep 0-1; 2 and 3 keep 2-3, the last name; source: 2; sink: 3, the last name.
    EXPECT_EQ(prune_links(cluster, {.min_keep = 1, .max_keep = 1}),
              (Links{{kCoordinator, 2}, {0, 1}, {1, 0}, {2, 3}, {3, kCoordinator}, {3, 2}}));
}

TEST(Prune, BeyondTheMinimumOnlyLinksOfTheThresholdStay) {
    spec::ClusterSpec cluster =
        cluster_of(std::vector<spec::NodeSpec>(3, machine("n", 1, 1)), 1000);
    const PruneOptions none{.min_keep = 0, .max_keep = 2, .threshold_bytes_per_s = 1001};
    EXPECT_TRUE(prune_links(cluster, none).empty());
    const PruneOptions all{.min_keep = 0, .max_keep = 3, .threshold_bytes_per_s = 1000};
    EXPECT_EQ(prune_links(cluster, all).size(), cluster.links.size());
}

TEST(Prune, ALinkThatIsSlowOneWayCountsAsSlow) {
    spec::ClusterSpec cluster =
        cluster_of(std::vector<spec::NodeSpec>(3, machine("n", 1, 1)), 1000);
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 0 && link.to == 1) link.bandwidth_bytes_per_s = 5000;
        if (link.from == 1 && link.to == 0) link.bandwidth_bytes_per_s = 10;
    }
    const Links kept = prune_links(cluster, {.min_keep = 1, .max_keep = 1});
    EXPECT_EQ(std::count(kept.begin(), kept.end(), std::pair(0, 1)), 0);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), std::pair(0, 2)), 1);
}

TEST(Prune, WhatAKnownPlacementNeedsStays) {
    const spec::ClusterSpec cluster =
        cluster_of(std::vector<spec::NodeSpec>(4, machine("n", 1, 1)), 1000);
    const PruneOptions one{.min_keep = 1, .max_keep = 1};
    const Links alone = prune_links(cluster, one);
    const Links needed{{kCoordinator, 0}, {0, 1}, {1, 2}, {2, kCoordinator}};
    const Links kept = prune_links(cluster, one, needed);
    for (const auto& link : alone) EXPECT_EQ(std::count(kept.begin(), kept.end(), link), 1);
    for (const auto& link : needed) {
        EXPECT_EQ(std::count(kept.begin(), kept.end(), link), 1)
            << link.first << " to " << link.second;
    }
    EXPECT_LT(kept.size(), cluster.links.size());
}

TEST(Prune, LeavesThePublishedNumberOfLinks) {
    const auto links = [](const char* cluster, const char* mix) {
        const PublishedProblem problem = published_problem(cluster, "llama2-70b", mix);
        return prune_links(problem.cluster, {}).size();
    };
    EXPECT_EQ(links("distributed24", "single24"), 350U);  // of 600
    EXPECT_EQ(links("highhet42", "highhet42"), 876U);     // of 1806
}

}  // namespace
}  // namespace helix::plan::prune_test

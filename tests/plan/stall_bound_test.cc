#include "plan/losses/stall_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace helix::plan::stall_bound_test {
namespace {

// Two machines that hold all 4 layers, or half of them each; 1 ms for a token and a layer.
class StallBound : public ::testing::Test {
  protected:
    StallBound() {
        model_.n_layers = 4;
        model_.layer_bytes = 1'000'000'000;
        model_.token_bytes = 4;
        model_.activation_bytes_per_token = 1000;
        for (std::int32_t i = 0; i < 2; ++i) {
            spec::NodeSpec node;
            node.name = i == 0 ? "a" : "b";
            cluster_.nodes.push_back(node);
            for (const std::int32_t other : {spec::kCoordinator, 1 - i}) {
                cluster_.links.push_back({i, other, 1e9, 0.001});
                if (other == spec::kCoordinator) cluster_.links.push_back({other, i, 1e9, 0.001});
            }
            NodeCapacity capacity;
            for (auto& row : capacity.max_layers) row = {4, 4};
            capacity.tokens_per_s = {0, 1000, 500, 1000.0 / 3, 250};
            capacity.kv_tokens = {0, 1e6, 1e6, 1e6, 1e6};
            capacities_.nodes.push_back(capacity);
        }
        rule_.context_tokens = 1000;
    }
    std::vector<Stall> stalls(const std::vector<spec::LayerRange>& layers) const {
        return stalls_after_losses({cluster_, model_, capacities_}, {layers}, {}, rule_);
    }

    spec::ClusterSpec cluster_;
    spec::ModelSpec model_;
    CapacityTable capacities_;
    StallRule rule_;
};

TEST_F(StallBound, WhereTheOthersAreWholeItIsDetectionAndRecompute) {
    const std::vector<Stall> found = stalls({{0, 4}, {0, 4}});
    ASSERT_EQ(found.size(), 2U);
    for (const Stall& stall : found) {
        EXPECT_TRUE(stall.whole);
        EXPECT_EQ(stall.replacement_s, 0);
        // 1000 tokens are two chunks of 512, 4 ms for each, in three quarters of the time.
        EXPECT_NEAR(stall.recompute_s, 1024 * 0.004 / 0.75, 1e-9);
        EXPECT_NEAR(stall.bound_s(), 2 + 1024 * 0.004 / 0.75, 1e-9);
    }
    EXPECT_NE(
        describe_stalls(found, rule_).find("an answer of 1000 tokens stands still for at most"),
        std::string::npos);
}

TEST_F(StallBound, WhereTheyAreNotTheirLoadingCountsToo) {
    const std::vector<Stall> found = stalls({{0, 2}, {2, 4}});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_FALSE(found[0].whole);
    EXPECT_TRUE(found[0].possible);
    EXPECT_NEAR(found[0].replacement_s, 0.3 + 3 + 4e9 / 5e8, 1e-9);
    // Over a slow link it takes longer.
    for (spec::LinkSpec& link : cluster_.links) {
        if (link.from == spec::kCoordinator) link.bandwidth_bytes_per_s = 1e8;
    }
    EXPECT_NEAR(stalls({{0, 2}, {2, 4}})[0].replacement_s, 0.3 + 3 + 4e9 / 1e8, 1e-9);
}

TEST_F(StallBound, WhereTheRestIsTooSmallThereIsNone) {
    capacities_.nodes[1].max_layers = {{{3, 3}, {3, 3}}};
    const std::vector<Stall> found = stalls({{0, 2}, {2, 4}});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].part, "a") << "b alone cannot hold the model";
    EXPECT_FALSE(found[0].possible);
    EXPECT_TRUE(found[1].possible);
    EXPECT_NE(describe_stalls(found, rule_).find("without a the model does not fit"),
              std::string::npos);
}

TEST_F(StallBound, NodesOfOneHostFailTogetherAndAreNamedNotTheHostsId) {
    const std::string id = "3d121974c5d54b5b8a3c1f0b7f7f1c00";
    cluster_.nodes[0].host = id;
    std::vector<Stall> found = stalls({{0, 2}, {2, 4}});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].part, "a");
    EXPECT_EQ(describe_stalls(found, rule_).find(id), std::string::npos);
    cluster_.nodes.push_back(cluster_.nodes[1]);
    cluster_.nodes[2].name = "c";
    cluster_.nodes[1].host = id;
    capacities_.nodes.push_back(capacities_.nodes[1]);
    cluster_.links.push_back({1, 2, 1e9, 0.001});
    cluster_.links.push_back({2, spec::kCoordinator, 1e9, 0.001});
    found = stalls({{0, 2}, {0, 2}, {2, 4}});
    ASSERT_EQ(found.size(), 2U);
    const auto pair = std::find_if(found.begin(), found.end(),
                                   [](const Stall& stall) { return stall.part == "a and b"; });
    EXPECT_NE(pair, found.end());
}

TEST_F(StallBound, TheOnlyMachineHasNoBound) {
    cluster_.nodes[0].host = cluster_.nodes[1].host = "hall";
    EXPECT_TRUE(stalls({{0, 4}, {0, 4}}).empty()) << "nothing is left that could go on";
}

}  // namespace
}  // namespace helix::plan::stall_bound_test

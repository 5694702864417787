// How many nodes of a cluster compute at the same time.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/cluster_spec.h"

namespace helix::spec::cluster_spec_test {
namespace {

NodeSpec node_on(const std::string& host, const std::string& device = "", double core_share = 1) {
    NodeSpec node;
    node.host = host;
    node.device = device;
    node.core_share = core_share;
    return node;
}

std::int32_t at_once(const std::vector<NodeSpec>& nodes) {
    std::vector<const NodeSpec*> some;
    for (const NodeSpec& node : nodes) some.push_back(&node);
    return computing_at_once(some);
}

TEST(ClusterSpec, NodesWithoutAHostAreMachinesOfTheirOwn) {
    EXPECT_EQ(at_once({}), 0);
    EXPECT_EQ(at_once({node_on(""), node_on(""), node_on("", "", 0.25)}), 3);
}

TEST(ClusterSpec, NodesThatShareCoresOrADeviceTakeTurns) {
    EXPECT_EQ(at_once({node_on("a"), node_on("b"), node_on("a")}), 2) << "whatever their order";
    EXPECT_EQ(at_once({node_on("a", "gpu0"), node_on("a", "gpu1"), node_on("a")}), 3);
    EXPECT_EQ(at_once({node_on("a", "gpu0"), node_on("a", "gpu0")}), 1);
    EXPECT_EQ(at_once({node_on("a", "gpu0"), node_on("b", "gpu0")}), 2);
}

TEST(ClusterSpec, NodesWithAPartOfTheCoresLeaveRoomForOthers) {
    EXPECT_EQ(at_once({node_on("a", "", 0.5), node_on("a", "", 0.5)}), 2);
    EXPECT_EQ(at_once({node_on("a", "", 0.1), node_on("a", "", 0.1), node_on("b")}), 3)
        << "no more than there are";
    EXPECT_EQ(at_once({node_on("a", "", 1), node_on("a", "", 0.5)}), 1);
    EXPECT_EQ(at_once(std::vector<NodeSpec>(4, node_on("a", "", 0.7))), 1);
    EXPECT_EQ(at_once(std::vector<NodeSpec>(4, node_on("a", "", 1.0 / 3))), 3)
        << "whatever is rounded";
}

}  // namespace
}  // namespace helix::spec::cluster_spec_test

#include "plan/change/cluster_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "spec/cluster_file.h"

namespace helix::plan::cluster_change_test {
namespace {

using spec::kCoordinator;
using testing::HasSubstr;

// Two regions joined by a trunk; the coordinator is in the first.
constexpr const char* kTwoRegions = R"(
name = "two"
[coordinator]
region = "east"
[[machines]]
name = "node0"
type = "L4"
count = 3
region = "east"
memory = "20 GB"
nic = "5 Gbit/s"
[[machines]]
name = "far:1"
type = "T4"
region = "west"
memory = "16 GB"
[links]
same_region = {bandwidth = "10 Gbit/s", latency = "1 ms"}
[[links.trunks]]
between = ["east", "west"]
bandwidth = "100 Mbit/s"
latency = "40 ms"
)";

spec::ClusterSpec two_regions() {
    const auto cluster = spec::parse_cluster_toml(kTwoRegions, "two.toml");
    EXPECT_TRUE(cluster.ok()) << cluster.error().message;
    return *cluster;
}

std::map<std::pair<int, int>, double> bandwidths(const spec::ClusterSpec& cluster) {
    std::map<std::pair<int, int>, double> lines;
    for (const spec::LinkSpec& link : cluster.links)
        lines[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    return lines;
}

ChangedCluster changed(const base::Result<Change>& change) {
    EXPECT_TRUE(change.ok()) << change.error().message;
    const auto result = apply_change(two_regions(), *change);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return *result;
}

TEST(ClusterChange, ANewMachineIsLikeItsTypeAndLinkedLikeItsRegion) {
    const ChangedCluster result = changed(parse_add("2xl4@west"));
    ASSERT_EQ(result.cluster.nodes.size(), 6U);
    EXPECT_EQ(result.origin, (std::vector<std::int32_t>{0, 1, 2, 3, -1, -1}));
    const spec::NodeSpec& node = result.cluster.nodes[4];
    EXPECT_EQ(node.name, "new-L4");
    EXPECT_EQ(result.cluster.nodes[5].name, "new-L4-2");
    EXPECT_EQ(node.region, "west");
    EXPECT_EQ(node.memory_bytes, 20'000'000'000);  // as the others here, not as in the catalogue
    EXPECT_EQ(node.nic_in_bytes_per_s, 6.25e8);
    const auto lines = bandwidths(result.cluster);
    EXPECT_EQ(lines.size(), 42U);
    EXPECT_EQ(lines.at({4, 0}), 1.25e7);  // over the trunk
    EXPECT_EQ(lines.at({kCoordinator, 4}), 1.25e7);
    EXPECT_EQ(lines.at({3, 4}), 1.25e9);  // towards the only machine there: as within regions
    EXPECT_EQ(lines.at({5, 4}), 1.25e9);
}

TEST(ClusterChange, ANewMachineMayBeLikeOneThatHasANameAndNoType) {
    spec::ClusterSpec cluster = two_regions();
    cluster.nodes[1].type.clear();
    cluster.nodes[1].memory_bytes = 7'000'000'000;
    const std::string name = cluster.nodes[1].name;
    const auto result = apply_change(cluster, AddMachines{name, cluster.nodes[1].region, 1, {}});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->cluster.nodes.back().name, "new-" + name);
    EXPECT_EQ(result->cluster.nodes.back().memory_bytes, 7'000'000'000);
    EXPECT_FALSE(apply_change(cluster, AddMachines{"nobody", cluster.nodes[1].region, 1, {}}).ok());
}

TEST(ClusterChange, ANewTypeComesFromTheCatalogue) {
    const ChangedCluster result = changed(parse_add("A100-80@east"));
    const spec::NodeSpec& node = result.cluster.nodes.back();
    EXPECT_EQ(node.memory_bytes, 80'000'000'000);
    EXPECT_EQ(node.type, "A100-80");
    EXPECT_EQ(bandwidths(result.cluster).at({4, 0}), 1.25e9);
    EXPECT_EQ(bandwidths(result.cluster).at({4, kCoordinator}), 1.25e9);
}

TEST(ClusterChange, RemovalTakesTheLinksAndRenumbers) {
    const ChangedCluster result = changed(parse_remove("node0-1"));
    ASSERT_EQ(result.cluster.nodes.size(), 3U);
    EXPECT_EQ(result.origin, (std::vector<std::int32_t>{0, 2, 3}));
    EXPECT_EQ(result.cluster.nodes[1].name, "node0-2");
    EXPECT_EQ(result.cluster.links.size(), 12U);
    EXPECT_EQ(bandwidths(result.cluster).at({1, 2}), 1.25e7);
    EXPECT_EQ(result.cluster.trunks.size(), 2U);
    EXPECT_TRUE(changed(parse_remove("far:1")).cluster.trunks.empty());
    const spec::Placement before{{{0, 4}, {4, 6}, {4, 8}, {8, 9}}};
    const spec::Placement after = carry_over(before, result.origin);
    EXPECT_EQ(after.layers, (std::vector<spec::LayerRange>{{0, 4}, {4, 8}, {8, 9}}));
}

TEST(ClusterChange, LinksOfMachinesAndOfRegions) {
    const ChangedCluster pair = changed(parse_link("node0-0:far:1=2Gbps"));
    EXPECT_EQ(bandwidths(pair.cluster).at({0, 3}), 2.5e8);
    EXPECT_EQ(bandwidths(pair.cluster).at({3, 0}), 2.5e8);
    EXPECT_EQ(bandwidths(pair.cluster).at({1, 3}), 1.25e7);
    EXPECT_EQ(pair.cluster.trunks[0].bandwidth_bytes_per_s, 1.25e7);
    const ChangedCluster coordinator = changed(parse_link("coordinator:node0-2=1 GB/s,2 ms"));
    EXPECT_EQ(bandwidths(coordinator.cluster).at({kCoordinator, 2}), 1e9);
    const ChangedCluster all = changed(parse_link("west:east=1 Gbit/s,20ms"));
    EXPECT_EQ(bandwidths(all.cluster).at({1, 3}), 1.25e8);
    EXPECT_EQ(bandwidths(all.cluster).at({3, kCoordinator}), 1.25e8);
    EXPECT_EQ(bandwidths(all.cluster).at({0, 1}), 1.25e9);
    for (const spec::TrunkSpec& trunk : all.cluster.trunks) {
        EXPECT_EQ(trunk.bandwidth_bytes_per_s, 1.25e8);
        EXPECT_EQ(trunk.latency_s, 0.02);
    }
}

TEST(ClusterChange, AnUpgradeKeepsPlaceAndNetwork) {
    const ChangedCluster result = changed(parse_upgrade("node0-1=H100"));
    const spec::NodeSpec& node = result.cluster.nodes[1];
    EXPECT_EQ(node.name, "node0-1");
    EXPECT_EQ(node.type, "H100");
    EXPECT_EQ(node.memory_bytes, 80'000'000'000);
    EXPECT_EQ(node.nic_in_bytes_per_s, 6.25e8);
    EXPECT_EQ(node.region, "east");
    EXPECT_EQ(result.origin, (std::vector<std::int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(result.cluster.links.size(), two_regions().links.size());
}

TEST(ClusterChange, ManyChangesRunInOrder) {
    const auto both = apply_changes(
        two_regions(),
        {*parse_remove("node0-0"), *parse_add("3xT4@west"), *parse_link("node0-1:new-T4=1Gbps")});
    ASSERT_TRUE(both.ok()) << both.error().message;
    EXPECT_EQ(both->origin, (std::vector<std::int32_t>{1, 2, 3, -1, -1, -1}));
    EXPECT_EQ(bandwidths(both->cluster).at({0, 3}), 1.25e8);
    EXPECT_THAT(apply_changes(two_regions(), {*parse_remove("node0-0"), *parse_remove("node0-0")})
                    .error()
                    .message,
                HasSubstr("\"node0-0\" is no machine"));
}

TEST(ClusterChange, TextsThatAreNoChange) {
    for (const char* bad : {"", "@east", "L4@", "3x@east", "0xL4@east", "99999999999xL4"})
        EXPECT_THAT(parse_add(bad).error().message, HasSubstr("--add \"" + std::string(bad)))
            << bad;
    EXPECT_THAT(parse_remove("").error().message, HasSubstr("--remove"));
    EXPECT_THAT(parse_link("a=1Gbps").error().message, HasSubstr("A:B=BANDWIDTH"));
    EXPECT_THAT(parse_link("a:b").error().message, HasSubstr("A:B=BANDWIDTH"));
    EXPECT_THAT(parse_link("a:b=fast").error().message, HasSubstr("no number"));
    EXPECT_THAT(parse_link("a:b=0Gbps").error().message, HasSubstr("above 0"));
    EXPECT_THAT(parse_link("a:b=1Gbps,x").error().message, HasSubstr("no number"));
    for (const char* bad : {"", "node3", "=A100", "node3="})
        EXPECT_THAT(parse_upgrade(bad).error().message, HasSubstr("MACHINE=TYPE")) << bad;
    EXPECT_EQ(to_string(*parse_add("3xL4x2@a")), "add 3 x L4x2 in a");
    EXPECT_EQ(to_string(*parse_link("a:b=1Gbps,5ms")), "link a:b at 1 Gbit/s, 5 ms");
    EXPECT_EQ(to_string(*parse_upgrade("n=A100")), "upgrade n to A100");
}

TEST(ClusterChange, ErrorsNameWhatIsKnown) {
    const auto message = [](const base::Result<Change>& change) {
        EXPECT_TRUE(change.ok()) << change.error().message;
        const auto result = apply_change(two_regions(), *change);
        EXPECT_FALSE(result.ok());
        return result.ok() ? "" : result.error().message;
    };
    EXPECT_THAT(message(parse_add("L4@north")),
                HasSubstr("expected TYPE@REGION with one of: east"));
    EXPECT_THAT(message(parse_add("L4")), HasSubstr("east, west"));
    EXPECT_THAT(message(parse_add("L5@east")), HasSubstr("did you mean \"L4\""));
    EXPECT_THAT(message(parse_remove("node0-7")), HasSubstr("did you mean \"node0-"));
    EXPECT_THAT(message(parse_link("node0-1:moon=1Gbps")), HasSubstr("machines of two: node0-0"));
    EXPECT_THAT(message(parse_link("node0-1:node0-1=1Gbps")), HasSubstr("itself"));
    EXPECT_THAT(message(parse_upgrade("x=A100")), HasSubstr("\"x\" is no machine"));
    EXPECT_THAT(message(parse_upgrade("node0-1=A10x99")), HasSubstr("1 to 16"));
}

TEST(ClusterChange, ClustersWithoutRegionsOrWithFewLinks) {
    const auto cluster = spec::parse_cluster_toml(
        "[[machines]]\nname = \"a\"\ntype = \"T4\"\n[[machines]]\nname = \"b\"\ntype = \"T4\"\n"
        "[[links.pairs]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"1 Gbit/s\"\nlatency = \"1 ms\"\n"
        "[[links.pairs]]\nfrom = \"coordinator\"\nto = \"a\"\nbandwidth = \"2 Gbit/s\"\nlatency = "
        "\"1 ms\"\n",
        "c.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    const auto result = apply_change(*cluster, *parse_add("T4"));
    ASSERT_TRUE(result.ok()) << result.error().message;
    const auto lines = bandwidths(result->cluster);
    EXPECT_EQ(lines.at({2, 0}), 1.25e8);
    EXPECT_EQ(lines.at({1, 2}), 1.25e8);
    EXPECT_EQ(lines.at({kCoordinator, 2}), 2.5e8);
    EXPECT_FALSE(lines.contains({2, kCoordinator}));
    EXPECT_THAT(apply_change(*cluster, *parse_add("T4@x")).error().message,
                HasSubstr("have no regions"));
    EXPECT_THAT(apply_change(*cluster, *parse_link("b:coordinator=1Gbps")).error().message,
                HasSubstr("needs a latency"));
    const auto fresh = apply_change(*cluster, *parse_link("b:coordinator=1Gbps,3ms"));
    ASSERT_TRUE(fresh.ok());
    EXPECT_EQ(bandwidths(fresh->cluster).at({1, kCoordinator}), 1.25e8);
    const auto one = apply_change(*cluster, *parse_remove("a"));
    EXPECT_THAT(apply_change(one->cluster, *parse_remove("b")).error().message,
                HasSubstr("only machine"));
}

}  // namespace
}  // namespace helix::plan::cluster_change_test

#include "spec/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/effort.h"
#include "base/random.h"
#include "paper_data.h"
#include "spec/text_file.h"

namespace helix::spec::cluster_file_test {
namespace {

using testing::HasSubstr;

void expect_same(const ClusterSpec& a, const ClusterSpec& b) {
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.coordinator_nic_in_bytes_per_s, b.coordinator_nic_in_bytes_per_s);
    EXPECT_EQ(a.coordinator_nic_out_bytes_per_s, b.coordinator_nic_out_bytes_per_s);
    ASSERT_EQ(a.nodes.size(), b.nodes.size());
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        const NodeSpec& x = a.nodes[i];
        const NodeSpec& y = b.nodes[i];
        EXPECT_EQ(std::tie(x.name, x.type, x.region, x.host, x.memory_bytes, x.nic_in_bytes_per_s,
                           x.nic_out_bytes_per_s, x.decode_s_per_layer, x.decode_batch_s_per_layer,
                           x.prefill_s_per_token_layer, x.role, x.device, x.core_share),
                  std::tie(y.name, y.type, y.region, y.host, y.memory_bytes, y.nic_in_bytes_per_s,
                           y.nic_out_bytes_per_s, y.decode_s_per_layer, y.decode_batch_s_per_layer,
                           y.prefill_s_per_token_layer, y.role, y.device, y.core_share));
    }
    EXPECT_EQ(a.coordinator_region, b.coordinator_region);
    ASSERT_EQ(a.trunks.size(), b.trunks.size());
    for (std::size_t t = 0; t < a.trunks.size(); ++t) {
        EXPECT_EQ(std::tie(a.trunks[t].from_region, a.trunks[t].to_region,
                           a.trunks[t].bandwidth_bytes_per_s),
                  std::tie(b.trunks[t].from_region, b.trunks[t].to_region,
                           b.trunks[t].bandwidth_bytes_per_s));
        EXPECT_DOUBLE_EQ(a.trunks[t].latency_s, b.trunks[t].latency_s);
    }
    ASSERT_EQ(a.links.size(), b.links.size());
    for (std::size_t l = 0; l < a.links.size(); ++l) {
        EXPECT_EQ(std::tie(a.links[l].from, a.links[l].to, a.links[l].bandwidth_bytes_per_s),
                  std::tie(b.links[l].from, b.links[l].to, b.links[l].bandwidth_bytes_per_s));
        EXPECT_DOUBLE_EQ(a.links[l].latency_s, b.links[l].latency_s);
    }
}

constexpr const char* kOffice = R"(
name = "office"

[coordinator]
region = "cellar"
nic = "10 Gbit/s"

[types.A100]
memory = "40 GB"
nic = "80 Gbit/s"

[[machines]]
name = "rack"
type = "A100"
count = 2
region = "cellar"

[[machines]]
name = "old"
region = "roof"
host = "attic"
memory = "16 GiB"
nic_out = "1 Gbit/s"
decode_per_layer = "1.2 ms"
decode_batch8_per_layer = "3 ms"
prefill_per_token_layer = "20 us"

[links]
default = {bandwidth = "1 Gbit/s", latency = "1 ms"}
same_region = {bandwidth = "10 Gbit/s", latency = "200 us"}

[[links.regions]]
between = ["cellar", "roof"]
bandwidth = "100 Mbit/s"
latency = "50 ms"

[[links.pairs]]
from = "old"
to = "rack-1"
bandwidth = "5 Mbit/s"
latency = "70 ms"
)";

TEST(ClusterToml, ReadsMachinesTypesAndLinksByPrecedence) {
    const auto cluster = parse_cluster_toml(kOffice, "office.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->name, "office");
    EXPECT_EQ(cluster->coordinator_nic_in_bytes_per_s, 1.25e9);
    ASSERT_EQ(cluster->nodes.size(), 3U);
    EXPECT_EQ(cluster->nodes[1].name, "rack-1");
    EXPECT_EQ(cluster->nodes[1].memory_bytes, 40'000'000'000);
    EXPECT_EQ(cluster->nodes[1].nic_in_bytes_per_s, 1e10);
    EXPECT_EQ(cluster->nodes[2].host, "attic");
    EXPECT_EQ(cluster->nodes[2].nic_in_bytes_per_s, 0);
    EXPECT_EQ(cluster->nodes[2].nic_out_bytes_per_s, 1.25e8);
    EXPECT_EQ(cluster->nodes[2].decode_s_per_layer, 0.0012);
    EXPECT_EQ(cluster->nodes[2].prefill_s_per_token_layer, 20e-6);
    std::map<std::pair<int, int>, double> bandwidth;
    for (const LinkSpec& link : cluster->links)
        bandwidth[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    EXPECT_EQ(bandwidth.size(), 12U);
    EXPECT_EQ((bandwidth[{0, 1}]), 1.25e9);   // same region
    EXPECT_EQ((bandwidth[{-1, 0}]), 1.25e9);  // the coordinator is in the cellar too
    EXPECT_EQ((bandwidth[{1, 2}]), 1.25e7);   // between the regions
    EXPECT_EQ((bandwidth[{2, -1}]), 1.25e7);
    EXPECT_EQ((bandwidth[{2, 1}]), 6.25e5);  // this pair, this way
}

TEST(ClusterToml, ARoleIsReadAndAWrongWordIsNamed) {
    const std::string text = "[[machines]]\nname = \"a\"\nmemory = \"8 GB\"\nrole = ";
    const auto cluster = parse_cluster_toml(text + "\"prefill\"\n", "c.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->nodes[0].role, NodeRole::prefill);
    const auto wrong = parse_cluster_toml(text + "\"prefil\"\n", "c.toml");
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().message,
                HasSubstr("c.toml:4: role: expected \"prefill\", \"decode\" or \"both\", not "
                          "\"prefil\""));
}

TEST(ClusterJson, ARoleIsReadAndAWrongWordIsNamed) {
    const auto text = [](const std::string& role) {
        return R"({"schema": "helix-cluster-1", "nodes": [{"id": 0, "memory_bytes": 8e9, "role": ")" +
               role + "\"}]}";
    };
    const auto cluster = parse_cluster_json(text("decode"), "c.json");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->nodes[0].role, NodeRole::decode);
    const auto wrong = parse_cluster_json(text("decoder"), "c.json");
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().message, HasSubstr("nodes[0].role"));
    EXPECT_THAT(wrong.error().message, HasSubstr("\"prefill\", \"decode\" or \"both\""));
}

TEST(ClusterToml, AWholeNumberIsACoreShareToo) {
    const std::string text = "[[machines]]\nname = \"a\"\nmemory = \"8 GB\"\ncore_share = ";
    for (const auto& [written, share] : {std::pair{"1", 1.0}, std::pair{"0.5", 0.5}}) {
        const auto cluster = parse_cluster_toml(text + written + "\n", "c.toml");
        ASSERT_TRUE(cluster.ok()) << cluster.error().message;
        EXPECT_EQ(cluster->nodes[0].core_share, share);
    }
}

TEST(ClusterToml, ATrunkGivesItsPairsLinksAndOneSharedLimit) {
    const std::string text = R"(
[coordinator]
region = "home"
[[machines]]
name = "a"
region = "home"
memory = "8 GB"
[[machines]]
name = "b"
count = 2
region = "away"
memory = "8 GB"
[links]
default = {bandwidth = "1 Gbit/s", latency = "1 ms"}
[[links.trunks]]
from = "home"
to = "away"
bandwidth = "200 Mbit/s"
latency = "30 ms"
[[links.trunks]]
from = "away"
to = "home"
bandwidth = "100 Mbit/s"
latency = "30 ms"
links = false
)";
    const auto cluster = parse_cluster_toml(text, "c.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->coordinator_region, "home");
    ASSERT_EQ(cluster->trunks.size(), 2U);
    EXPECT_EQ(cluster->trunks[0].from_region, "away");
    EXPECT_EQ(cluster->trunks[0].bandwidth_bytes_per_s, 1.25e7);
    EXPECT_EQ(cluster->trunks[1].to_region, "away");
    EXPECT_EQ(cluster->trunks[1].latency_s, 0.03);
    std::map<std::pair<int, int>, double> bandwidth;
    for (const LinkSpec& link : cluster->links)
        bandwidth[{link.from, link.to}] = link.bandwidth_bytes_per_s;
    EXPECT_EQ(bandwidth.size(), 12U);
    EXPECT_EQ((bandwidth[{0, 1}]), 2.5e7);   // as its trunk
    EXPECT_EQ((bandwidth[{-1, 2}]), 2.5e7);  // the coordinator is at home
    EXPECT_EQ((bandwidth[{2, 0}]), 1.25e8);  // the trunk only limits
    EXPECT_EQ((bandwidth[{1, 2}]), 1.25e8);
}

TEST(ClusterToml, AThousandMachinesInTenRegionsAreAShortFile) {
    const std::size_t each = kSanitized ? 20 : 100;  // of a region
    const std::size_t machines = 10 * each;
    std::string text = "[coordinator]\nregion = \"r0\"\n";
    for (int r = 0; r < 10; ++r) {
        text += "[[machines]]\nname = \"m" + std::to_string(r) +
                "\"\ncount = " + std::to_string(each) + "\nregion = \"r" + std::to_string(r) +
                "\"\nmemory = \"24 GB\"\n";
    }
    text += "[links]\nsame_region = {bandwidth = \"10 Gbit/s\", latency = \"1 ms\"}\n";
    for (int a = 0; a < 10; ++a) {
        for (int b = 0; b < a; ++b) {
            text += "[[links.trunks]]\nbetween = [\"r" + std::to_string(a) + "\", \"r" +
                    std::to_string(b) + "\"]\nbandwidth = \"" + std::to_string(a + b) +
                    " Gbit/s\"\nlatency = \"20 ms\"\n";
        }
    }
    const auto cluster = parse_cluster_toml(text, "c.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster->links.size(), machines * (machines + 1));
    EXPECT_EQ(cluster->trunks.size(), 90U);
    const std::string written = cluster_to_toml(*cluster);
    EXPECT_LT(written.size(), 200'000U);  // the machines and a rule for each pair of regions
    const auto again = parse_cluster_toml(written, "c.toml");
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_EQ(again->links.size(), cluster->links.size());
    for (std::size_t l = 0; l < again->links.size(); ++l) {
        const LinkSpec& x = cluster->links[l];
        const LinkSpec& y = again->links[l];
        ASSERT_TRUE(x.from == y.from && x.to == y.to &&
                    x.bandwidth_bytes_per_s == y.bandwidth_bytes_per_s &&
                    x.latency_s == y.latency_s)
            << x.from << " " << x.to;
    }
    EXPECT_EQ(again->trunks.size(), 90U);
}

TEST(ClusterToml, ErrorsNameFileLineAndExpectation) {
    const std::string machine = "[[machines]]\nname = \"a\"\nmemory = \"1 GB\"\n";
    const std::string trunk =
        "[[links.trunks]]\nbetween = [\"x\", \"y\"]\nbandwidth = \"1 GB/s\"\nlatency = \"1 ms\"\n";
    const struct {
        std::string text;
        const char* place;
        const char* what;
    } bad[] = {
        {"name = ", "c.toml:1", "TOML"},
        {"nodes = 3\n" + machine, "c.toml:1", "\"nodes\" is not a key"},
        {"name = \"x\"", "c.toml", "[[machines]]"},
        {"machines = []", "c.toml", "no machines"},
        {"machines = [3]", "c.toml:1", "tables"},
        {"[[machines]]\nname = \"a\"\nmemory = 24\n", "c.toml:3", "with a unit"},
        {"[[machines]]\nname = \"a\"\nmemory = \"24\"\n", "c.toml:3", "no unit"},
        {"[[machines]]\nname = \"a\"\n", "c.toml:1", "expected memory"},
        {"[[machines]]\nmemory = \"1 GB\"\n", "c.toml:1", "name or a type"},
        {machine + "memry = \"1 GB\"\n", "c.toml:4", "\"memry\" is not a key"},
        {machine + "count = 0\n", "c.toml:4", "whole number"},
        {machine + "core_share = 0\n", "c.toml:4", "core_share: expected a number above 0"},
        {machine + "core_share = 1.5\n", "c.toml:4", "at most 1"},
        {machine + "core_share = \"half\"\n", "c.toml:4", "core_share: expected a number"},
        {machine + machine, "c.toml", "appears twice"},
        {"[[machines]]\nname = \"coordinator\"\nmemory = \"1 GB\"\n", "c.toml", "not allowed"},
        {machine + "[links]\ndefault = {bandwidth = \"1 Gbit/s\"}\n", "c.toml:5", "no latency"},
        {machine + "[links]\ndefault = {bandwidth = \"0 Gbit/s\", latency = \"1 ms\"}\n",
         "c.toml:5", "above 0"},
        {machine + "[[links.pairs]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"1 GB/s\"\nlatency = "
                   "\"1 ms\"\n",
         "c.toml:4", "\"b\" is no machine"},
        {machine + "[[links.pairs]]\nbetween = [\"a\", \"a\"]\nbandwidth = \"1 GB/s\"\nlatency = "
                   "\"1 ms\"\n",
         "c.toml:4", "itself"},
        {machine +
             "[[links.pairs]]\nbetween = [\"a\"]\nbandwidth = \"1 GB/s\"\nlatency = \"1 ms\"\n",
         "c.toml:4", "two names"},
        {machine + "[[links.regions]]\nbetween = [\"x\", \"y\"]\nbandwidth = \"1 GB/s\"\nlatency = "
                   "\"1 ms\"\n",
         "c.toml:4", "region \"x\""},
        {machine + "region = \"x\"\n[[links.trunks]]\nbetween = [\"x\", \"x\"]\nbandwidth = \"1 "
                   "GB/s\"\nlatency = \"1 ms\"\n",
         "c.toml:5", "two different regions"},
        {machine + "region = \"x\"\n[coordinator]\nregion = \"y\"\n" + trunk + trunk, "c.toml:11",
         "a trunk already"},
        {machine + "region = \"x\"\n[coordinator]\nregion = \"y\"\n" + trunk + "links = 1\n",
         "c.toml:11", "true or false"},
        {machine + trunk, "c.toml:4", "region \"x\""},
    };
    for (const auto& [text, place, what] : bad) {
        const auto cluster = parse_cluster_toml(text, "c.toml");
        ASSERT_FALSE(cluster.ok()) << text;
        EXPECT_THAT(cluster.error().message, HasSubstr(place)) << text;
        EXPECT_THAT(cluster.error().message, HasSubstr(what)) << text;
    }
}

TEST(ClusterJson, ErrorsNameFilePlaceAndExpectation) {
    const auto with = [](const std::string& rest) {
        return "{\"schema\": \"helix-cluster-1\"" + rest + "}";
    };
    const std::string node = R"(, "nodes": [{"id": 0, "vram_gb": 16}, {"id": 1, "vram_gb": 16}])";
    const struct {
        std::string text;
        const char* place;
        const char* what;
    } bad[] = {
        {"{\n\"a\": }", "c.json:2", "JSON"},
        {"[]", "c.json", "an object"},
        {"{}", "c.json", "\"schema\""},
        {R"({"schema": "helix-cluster-2"})", "schema", "\"helix-cluster-1\""},
        {with(""), "c.json", "\"nodes\""},
        {with(R"(, "nodes": [])"), "c.json", "no machines"},
        {with(R"(, "nodes": 3)"), "nodes", "an array"},
        {with(R"(, "nodes": [{"id": 1, "vram_gb": 16}])"), "nodes[0].id", "0 (ids count"},
        {with(R"(, "nodes": [{"id": 0}])"), "nodes[0]", "memory"},
        {with(R"(, "nodes": [{"id": 0, "vram_gb": "16"}])"), "nodes[0].vram_gb",
         "a number, found \"16\""},
        {with(R"(, "nodes": [{"id": 0, "vram_gb": -1}])"), "nodes[0]", "above 0"},
        {with(R"(, "nodes": [{"id": 0, "vram_gb": 1, "core_share": 0}])"), "nodes[0].core_share",
         "above 0, at most 1"},
        {with(R"(, "nodes": [{"id": 0, "vram_gb": 1, "core_share": 1.5}])"), "nodes[0].core_share",
         "above 0, at most 1"},
        {with(R"(, "machine_types": {"T4": {}}, "nodes": [{"id": 0, "type": "L4", "vram_gb": 1}])"),
         "nodes[0]", "\"L4\" is not in machine_types"},
        {with(node +
              R"(, "node_links": [{"a": 0, "b": 2, "bandwidth_bytes_per_s": 1, "latency_ms": 1}])"),
         "node_links[0].b", "0 to 1"},
        {with(node +
              R"(, "node_links": [{"a": 0, "b": 0, "bandwidth_bytes_per_s": 1, "latency_ms": 1}])"),
         "node0 -> node0", "itself"},
        {with(
             node +
             R"(, "node_links": [{"a": 0, "b": 1, "bandwidth_bytes_per_s": -1, "latency_ms": 1}])"),
         "bandwidth_bytes_per_s", "above 0"},
        {with(node + R"(, "node_links": [{"a": 0, "b": 1, "bandwidth_bytes_per_s": 1}])"),
         "node_links[0]", "latency_ms"},
        {with(node +
              R"(, "coordinator_links": [{"direction": "up", "node": 0, "bandwidth_bytes_per_s": 1,
                          "latency_ms": 1}])"),
         "coordinator_links[0].direction", "node_to_coordinator"},
        {with(node + R"(, "trunks": [{"from_region": "a", "to_region": "b", "latency_ms": 1}])"),
         "trunks[0]", "bandwidth_bytes_per_s"},
        {with(node +
              R"(, "trunks": [{"from_region": "a", "bandwidth_bytes_per_s": 1, "latency_ms": 1}])"),
         "trunks[0]", "to_region"},
        {with(node + R"(, "trunks": [{"from_region": "a", "to_region": "b",
                          "bandwidth_bytes_per_s": 1, "latency_ms": 1}])"),
         "trunk \"a\" -> \"b\"", "no machine is in region \"a\""},
    };
    for (const auto& [text, place, what] : bad) {
        const auto cluster = parse_cluster_json(text, "c.json");
        ASSERT_FALSE(cluster.ok()) << text;
        EXPECT_THAT(cluster.error().message, HasSubstr("c.json")) << text;
        EXPECT_THAT(cluster.error().message, HasSubstr(place)) << text;
        EXPECT_THAT(cluster.error().message, HasSubstr(what)) << text;
    }
}

// Trunks between some of the regions, now and then the same both ways, sorted by region.
void add_random_trunks(base::Random& random, ClusterSpec& cluster) {
    std::set<std::string> regions = {cluster.coordinator_region};
    for (const NodeSpec& node : cluster.nodes) regions.insert(node.region);
    regions.erase("");
    for (const std::string& from : regions) {
        for (const std::string& to : regions) {
            if (from == to || random.chance(0.4)) continue;
            const bool usual = random.chance(0.6);
            cluster.trunks.push_back({from, to, usual ? 1.25e8 : 1 + random.uniform() * 1e9,
                                      usual ? 0.001 : random.uniform()});
        }
    }
}

ClusterSpec random_spec(std::uint64_t seed) {
    base::Random random(seed);
    ClusterSpec cluster;
    cluster.name = "c \"" + std::to_string(seed) + "\" \\ \n ü";
    if (random.chance(0.5)) cluster.coordinator_nic_in_bytes_per_s = random.uniform() * 1e9;
    if (random.chance(0.5)) cluster.coordinator_nic_out_bytes_per_s = 1.25e9;
    const auto n = static_cast<std::int32_t>(random.between(1, 6));
    for (std::int32_t i = 0; i < n; ++i) {
        NodeSpec node;
        node.name = "machine " + std::to_string(i);
        if (random.chance(0.5)) node.type = "T4x2";
        if (random.chance(0.5)) node.region = "r" + std::to_string(random.below(3));
        if (random.chance(0.3)) node.host = "h";
        if (random.chance(0.3)) node.device = "card " + std::to_string(random.below(2));
        if (random.chance(0.3)) node.core_share = 0.25;
        node.role = static_cast<NodeRole>(random.below(3));
        node.memory_bytes = random.between(1, 1'000'000'000'000);
        if (random.chance(0.5)) node.nic_in_bytes_per_s = random.uniform() * 1e10;
        if (random.chance(0.5)) node.nic_out_bytes_per_s = node.nic_in_bytes_per_s;
        if (random.chance(0.5)) {
            node.decode_s_per_layer = random.uniform() * 1e-3;
            node.decode_batch_s_per_layer = random.uniform() * 1e-2;
            node.prefill_s_per_token_layer = random.uniform() * 1e-5;
        }
        cluster.nodes.push_back(node);
    }
    if (random.chance(0.5)) cluster.coordinator_region = "r1";
    add_random_trunks(random, cluster);
    const bool full = random.chance(0.5);
    for (std::int32_t from = kCoordinator; from < n; ++from) {
        for (std::int32_t to = kCoordinator; to < n; ++to) {
            if (from == to || (!full && random.chance(0.4))) continue;
            const bool usual = random.chance(0.6);
            cluster.links.push_back({from, to, usual ? 1.25e8 : 1 + random.uniform() * 1e9,
                                     usual ? 0.001 : random.uniform()});
        }
    }
    return cluster;
}

TEST(ClusterFiles, RoundTripThroughBothFormats) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const ClusterSpec cluster = random_spec(seed);
        const auto json = parse_cluster_json(cluster_to_json(cluster), "c.json");
        ASSERT_TRUE(json.ok()) << json.error().message;
        expect_same(cluster, *json);
        const auto toml = parse_cluster_toml(cluster_to_toml(cluster), "c.toml");
        ASSERT_TRUE(toml.ok()) << toml.error().message << cluster_to_toml(cluster);
        expect_same(cluster, *toml);
    }
}

TEST(ClusterFiles, AreWrittenAndReadByTheirEnding) {
    const ClusterSpec cluster = random_spec(1);
    const std::string stem = testing::TempDir() + "helix_cluster_file_test";
    for (const std::string ending : {".json", ".toml"}) {
        ASSERT_TRUE(write_cluster_file(stem + ending, cluster).ok());
        const auto read = read_cluster_file(stem + ending);
        ASSERT_TRUE(read.ok()) << read.error().message;
        expect_same(cluster, *read);
        std::filesystem::remove(stem + ending);
    }
    EXPECT_THAT(read_cluster_file(stem + ".yaml").error().message, HasSubstr(".json or .toml"));
    const auto missing = read_cluster_file(stem + ".toml");
    EXPECT_EQ(missing.error().code, base::Errc::not_found);
    EXPECT_THAT(missing.error().message, HasSubstr(stem));
    EXPECT_EQ(write_cluster_file("/no/such/place.json", cluster).error().code,
              base::Errc::not_found);
}

TEST(ClusterFiles, PublishedClustersAreReadAndRoundTrip) {
    const std::string directory = kPaperData + "/clusters";
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const auto cluster = read_cluster_file(entry.path().string());
        ASSERT_TRUE(cluster.ok()) << cluster.error().message;
        const std::size_t n = cluster->nodes.size();
        EXPECT_EQ(cluster->links.size(), n * (n - 1) + 2 * n) << entry.path();
        const auto json = parse_cluster_json(cluster_to_json(*cluster), "c.json");
        ASSERT_TRUE(json.ok()) << json.error().message;
        expect_same(*cluster, *json);
        const auto toml = parse_cluster_toml(cluster_to_toml(*cluster), "c.toml");
        ASSERT_TRUE(toml.ok()) << toml.error().message;
        expect_same(*cluster, *toml);
    }
}

}  // namespace
}  // namespace helix::spec::cluster_file_test

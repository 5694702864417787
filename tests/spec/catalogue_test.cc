#include "spec/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "paper_data.h"
#include "spec/cluster_file.h"

namespace helix::spec::catalogue_test {
namespace {

using testing::HasSubstr;

TEST(Catalogue, TypesArePlausibleAndFoundByTheirOwnNames) {
    std::set<std::string> names;
    for (const MachineType& type : machine_catalogue()) {
        SCOPED_TRACE(type.name);
        EXPECT_TRUE(names.insert(type.name).second);
        const auto found = find_machine_type(type.name);
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_EQ(found->name, type.name);
        EXPECT_GE(type.memory_bytes, 6'000'000'000);
        EXPECT_LE(type.memory_bytes, 600'000'000'000);
        EXPECT_GE(type.memory_bytes_per_s, 10e9);
        EXPECT_LE(type.memory_bytes_per_s, 10e12);
        EXPECT_GE(type.flops_per_s, 0.1e12);
        EXPECT_LE(type.flops_per_s, 3e15);
        // FLOP for each byte read: from CPUs to accelerators.
        EXPECT_GE(type.flops_per_s / type.memory_bytes_per_s, 4);
        EXPECT_LE(type.flops_per_s / type.memory_bytes_per_s, 500);
        EXPECT_GT(type.nic_bytes_per_s, 0);
        EXPECT_GT(type.price_usd_per_hour, 0);
        EXPECT_EQ(type.n_devices, 1);
    }
    EXPECT_GE(names.size(), 70U);
}

TEST(Catalogue, NamesAreFoundHoweverTheyAreWritten) {
    const std::pair<const char*, const char*> same[] = {{"A100", "A100-40"},
                                                        {"a100-80gb", "A100-80"},
                                                        {"A100 40GB", "A100-40"},
                                                        {"rtx4090", "RTX 4090"},
                                                        {"4090", "RTX 4090"},
                                                        {"GeForce RTX 3060", "RTX 3060"},
                                                        {"NVIDIA T4", "T4"},
                                                        {"tesla_v100", "V100"},
                                                        {"RTX A6000", "A6000"},
                                                        {"mi300x", "MI300X"},
                                                        {"AMD Instinct MI250", "MI250"},
                                                        {"m2 ultra", "Apple M2 Ultra"},
                                                        {"apple m4", "Apple M4"},
                                                        {"H100-SXM", "H100"},
                                                        {"h100 pcie", "H100 PCIe"},
                                                        {"4060 Ti 16GB", "RTX 4060 Ti 16"},
                                                        {"cpu", "Desktop DDR4"},
                                                        {"Pi 5", "Raspberry Pi 5"},
                                                        {"L4x1", "L4"},
                                                        {"4070 Ti", "RTX 4070 Ti"}};
    for (const auto& [asked, expected] : same) {
        const auto type = find_machine_type(asked);
        ASSERT_TRUE(type.ok()) << type.error().message;
        EXPECT_EQ(type->name, expected) << asked;
    }
}

TEST(Catalogue, SeveralCardsAreOneMachine) {
    const auto one = find_machine_type("T4");
    const auto four = find_machine_type("t4x4");
    ASSERT_TRUE(one.ok() && four.ok());
    EXPECT_EQ(four->name, "T4x4");
    EXPECT_EQ(four->n_devices, 4);
    EXPECT_EQ(four->memory_bytes, 64'000'000'000);
    EXPECT_EQ(four->flops_per_s, 4 * one->flops_per_s);
    EXPECT_EQ(four->price_usd_per_hour, 4 * one->price_usd_per_hour);
    EXPECT_EQ(four->nic_bytes_per_s, one->nic_bytes_per_s);
    EXPECT_GT(find_machine_type("A100-80x8")->peer_bytes_per_s, four->peer_bytes_per_s);
    EXPECT_THAT(find_machine_type("L4x17").error().message, HasSubstr("1 to 16"));
    EXPECT_THAT(find_machine_type("L4x0").error().message, HasSubstr("1 to 16"));
}

TEST(Catalogue, UnknownTypesGetNearNames) {
    EXPECT_THAT(find_machine_type("A10O-40").error().message, HasSubstr("\"A100-40\""));
    EXPECT_THAT(find_machine_type("RTX 409").error().message, HasSubstr("\"RTX 4090\""));
    for (const char* bad : {"", "x", "x4", "abacus", "L4x", "L4xx2", "gb"}) {
        const auto type = find_machine_type(bad);
        ASSERT_FALSE(type.ok()) << bad;
        EXPECT_THAT(type.error().message, HasSubstr("not in the catalogue")) << bad;
    }
}

TEST(Catalogue, MachinesOfAClusterFileMayOnlyNameTheirType) {
    const auto toml = parse_cluster_toml(
        "[[machines]]\ntype = \"L4x2\"\ncount = 2\n[[machines]]\ntype = \"a100\"\nnic = \"1 "
        "Gbit/s\"\n",
        "c.toml");
    ASSERT_TRUE(toml.ok()) << toml.error().message;
    EXPECT_EQ(toml->nodes[1].name, "L4x2-1");
    EXPECT_EQ(toml->nodes[1].memory_bytes, 48'000'000'000);
    EXPECT_EQ(toml->nodes[1].nic_in_bytes_per_s, 1.25e9);
    EXPECT_EQ(toml->nodes[2].memory_bytes, 40'000'000'000);
    EXPECT_EQ(toml->nodes[2].nic_out_bytes_per_s, 1.25e8);
    const auto json = parse_cluster_json(
        R"({"schema": "helix-cluster-1", "nodes": [{"id": 0, "type": "T4"}]})", "c.json");
    ASSERT_TRUE(json.ok()) << json.error().message;
    EXPECT_EQ(json->nodes[0].memory_bytes, 16'000'000'000);
    EXPECT_EQ(json->nodes[0].nic_in_bytes_per_s, 1.25e9);
    // What says its memory keeps its unlimited network.
    const auto told =
        parse_cluster_toml("[[machines]]\ntype = \"L4\"\nmemory = \"20 GB\"\n", "c.toml");
    ASSERT_TRUE(told.ok());
    EXPECT_EQ(told->nodes[0].nic_in_bytes_per_s, 0);
    const auto unknown = parse_cluster_toml("[[machines]]\ntype = \"L5\"\n", "c.toml");
    EXPECT_THAT(unknown.error().message, HasSubstr("c.toml:1: machine L5: expected memory"));
    EXPECT_THAT(unknown.error().message, HasSubstr("\"L4\""));
    EXPECT_THAT(
        parse_cluster_json(R"({"schema": "helix-cluster-1", "nodes": [{"id": 0, "type": "L5"}]})",
                           "c.json")
            .error()
            .message,
        HasSubstr("nodes[0]: memory is not given, and machine type \"L5\""));
}

TEST(Catalogue, HasTheMemoryOfThePublishedMachines) {
    const std::string path = kPaperData + "/clusters/highhet42.json";
    const auto cluster = read_cluster_file(path);
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    for (const NodeSpec& node : cluster->nodes) {
        const auto type = find_machine_type(node.type);
        ASSERT_TRUE(type.ok()) << type.error().message;
        EXPECT_EQ(type->memory_bytes, node.memory_bytes) << node.type;
    }
}

}  // namespace
}  // namespace helix::spec::catalogue_test

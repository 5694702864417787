#include "spec/placement_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace helix::spec::placement_file_test {
namespace {

using testing::HasSubstr;

bool same(const LinkFlow& a, const LinkFlow& b) {
    return a.from == b.from && a.to == b.to && a.tokens_per_s == b.tokens_per_s;
}

TEST(PlacementFile, RoundTrips) {
    PlacementFile file{.cluster = "c",
                       .model = "m",
                       .method = "search",
                       .n_layers = 8,
                       .placement = {{{0, 3}, {}, {3, 8}}},
                       .node_types = {"A", "", "B"},
                       .node_names = {"attic", "den", "hall"},
                       .links = {{kCoordinator, 0}, {0, 2}, {2, kCoordinator}},
                       .flows = {{kCoordinator, 0, 12.5}, {0, 2, 12.5}},
                       .max_flow_tokens_per_s = 12.5};
    const auto read = parse_placement_json(placement_to_json(file), "p.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->cluster, "c");
    EXPECT_EQ(read->model, "m");
    EXPECT_EQ(read->method, "search");
    EXPECT_EQ(read->n_layers, 8);
    EXPECT_EQ(read->placement.layers, file.placement.layers);
    EXPECT_EQ(read->node_types, file.node_types);
    EXPECT_EQ(read->node_names, file.node_names);
    EXPECT_EQ(read->links, file.links);
    EXPECT_TRUE(std::equal(read->flows.begin(), read->flows.end(), file.flows.begin(),
                           file.flows.end(), same));
    EXPECT_EQ(read->max_flow_tokens_per_s, 12.5);

    EXPECT_FALSE(read->policy) << "the usual one";

    file.policy = {0.7, 0.95, 3, 1.5};
    EXPECT_EQ(parse_placement_json(placement_to_json(file), "p.json")->policy, file.policy);
    EXPECT_TRUE(read->placement.roles.empty()) << "the machines' own";
    file.placement.roles = {NodeRole::prefill, NodeRole::both, NodeRole::decode};
    EXPECT_EQ(parse_placement_json(placement_to_json(file), "p.json")->placement.roles,
              file.placement.roles);
    EXPECT_FALSE(read->kv_type) << "whatever is asked for";
    file.kv_type = KvType::q8;
    EXPECT_EQ(parse_placement_json(placement_to_json(file), "p.json")->kv_type, KvType::q8);
    file.max_flow_tokens_per_s.reset();
    const std::string path = testing::TempDir() + "helix_placement_file_test.json";
    ASSERT_TRUE(write_placement_file(path, file).ok());
    EXPECT_FALSE(read_placement_file(path)->max_flow_tokens_per_s.has_value());
    std::filesystem::remove(path);
}

TEST(PlacementFile, NodesThatAreNotNamedAreLeftOut) {
    const auto read = parse_placement_json(
        R"({"schema": "helix-layout-1", "num_layers": 4, "layers": {"2": [0, 4], "0": null}})",
        "p.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->placement.layers, (std::vector<LayerRange>{{}, {}, {0, 4}}));
}

TEST(PlacementFile, ErrorsNameFilePlaceAndExpectation) {
    const auto with = [](const std::string& rest) {
        return R"({"schema": "helix-layout-1", "num_layers": 4, )" + rest + "}";
    };
    const struct {
        std::string text;
        const char* place;
        const char* what;
    } bad[] = {
        {"", "p.json:1", "JSON"},
        {R"({"schema": "x"})", "schema", "\"helix-layout-1\""},
        {R"({"schema": "helix-layout-1", "num_layers": 4.5, "layers": {}})", "num_layers",
         "whole number"},
        {with(R"("layers": {})"), "layers", "names no node"},
        {with(R"("layers": {"x": [0, 4]})"), "layers", "node ids"},
        {with(R"("layers": {"0": [0, 5]})"), "layers.0", "end <= 4"},
        {with(R"("layers": {"0": [2, 2]})"), "layers.0", "start < end"},
        {with(R"("layers": {"0": "all"})"), "layers.0", "found \"all\""},
        {with(R"("layers": {"0": [0, 4]}, "links": [["sink", 0]])"), "links[0][0]", "\"source\""},
        {with(R"("layers": {"0": [0, 4]}, "links": [[0, 1]])"), "links[0][1]", "0 to 0"},
        {with(R"("layers": {"0": [0, 4]}, "flows": [["source", 0, -1]])"), "flows[0][2]",
         "not below 0"},
        {with(R"("layers": {"0": [0, 4]}, "policy": 3)"), "policy", "object"},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"groups": 3})"), "policy", "\"groups\""},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"prefill_share": 0})"), "policy.prefill_share",
         "above 0"},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"kv_high_water": 1.5})"),
         "policy.kv_high_water", "at most 1"},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"prefill_target_s": 1e9})"),
         "policy.prefill_target_s", "at most 3600"},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"groups_per_machine": 0})"),
         "policy.groups_per_machine", "above 0"},
        {with(R"("layers": {"0": [0, 4]}, "policy": {"groups_per_machine": 9})"),
         "policy.groups_per_machine", "at most 8"},
        {with(R"("layers": {"0": [0, 4]}, "node_roles": {"0": "prompts"})"), "node_roles.0",
         "\"prefill\""},
        {with(R"("layers": {"0": [0, 4]}, "kv_type": "q4")"), "kv_type", "f16, bf16, f32 or q8"},
        {with(R"("layers": {"0": [0, 4]}, "kv_type": 8)"), "kv_type", "found 8"},
    };
    for (const auto& [text, place, what] : bad) {
        const auto read = parse_placement_json(text, "p.json");
        ASSERT_FALSE(read.ok()) << text;
        EXPECT_THAT(read.error().message, HasSubstr("p.json")) << text;
        EXPECT_THAT(read.error().message, HasSubstr(place)) << text;
        EXPECT_THAT(read.error().message, HasSubstr(what)) << text;
    }
}

}  // namespace
}  // namespace helix::spec::placement_file_test

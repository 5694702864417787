#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <utility>

#include "node/cluster_fixture.h"
#include "node/planner_thread.h"
#include "spec/placement_file.h"

namespace helix::node::fixed_placement_test {
namespace {

using ::testing::HasSubstr;

spec::ClusterSpec cluster_of(const std::vector<std::string>& names) {
    spec::ClusterSpec cluster;
    for (const std::string& name : names) {
        spec::NodeSpec node;
        node.name = name;
        node.memory_bytes = 100'000'000;
        node.decode_s_per_layer = node.decode_batch_s_per_layer = 1e-3;
        node.prefill_s_per_token_layer = 1e-4;
        cluster.nodes.push_back(node);
    }
    const auto n = static_cast<std::int32_t>(names.size());
    for (std::int32_t a = spec::kCoordinator; a < n; ++a) {
        for (std::int32_t b = spec::kCoordinator; b < n; ++b) {
            if (a != b) cluster.links.push_back({a, b, 1e9, 1e-3});
        }
    }
    return cluster;
}

class FixedPlacement : public ::testing::Test {
  protected:
    std::string write(const spec::PlacementFile& file) {
        const std::string path = ::testing::TempDir() + "helix_fixed_placement.json";
        EXPECT_TRUE(spec::write_placement_file(path, file).ok());
        return path;
    }
    spec::PlacementFile file_{.cluster = "office",
                              .model = "paper-thin",
                              .method = "search",
                              .n_layers = 12,
                              .placement = {{{0, 5}, {}, {5, 12}}},
                              .node_types = {},
                              .node_names = {"den", "attic", "hall"},
                              .links = {},
                              .flows = {},
                              .max_flow_tokens_per_s = {}};
    spec::ModelSpec model_ = node::test_support::small_model(12);
};

TEST_F(FixedPlacement, GoesToTheWorkersOfThoseNamesInWhateverOrderTheyCame) {
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    EXPECT_EQ(planner->workers, (std::vector<std::string>{"den", "hall"}));
    const auto report = planner->planner(cluster_of({"guest", "hall", "den"}));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->placement.layers, (std::vector<spec::LayerRange>{{}, {5, 12}, {0, 5}}));
    EXPECT_GT(report->max_flow_tokens_per_s, 0);
}

TEST_F(FixedPlacement, SpreadsRequestsAsTheFileSaysAndKeepsItsPolicy) {
    file_.placement.layers = {{0, 5}, {5, 12}, {5, 12}};
    file_.flows = {{spec::kCoordinator, 0, 4},
                   {0, 1, 3},
                   {0, 2, 1},
                   {1, spec::kCoordinator, 3},
                   {2, spec::kCoordinator, 1}};
    file_.policy = {1.5, 0.95, 3};
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    EXPECT_EQ(planner->policy, (spec::ServingPolicy{1.5, 0.95, 3}));
    EXPECT_TRUE(planner->roles.empty());
    const auto report = planner->planner(cluster_of({"hall", "attic", "den"}));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->policy, (spec::ServingPolicy{1.5, 0.95, 3}));
    std::map<std::pair<std::int32_t, std::int32_t>, double> flows;
    for (const spec::LinkFlow& flow : report->flows)
        flows[{flow.from, flow.to}] = flow.tokens_per_s;
    const std::map<std::pair<std::int32_t, std::int32_t>, double> expected = {
        {{spec::kCoordinator, 2}, 4},
        {{2, 1}, 3},
        {{2, 0}, 1},
        {{1, spec::kCoordinator}, 3},
        {{0, spec::kCoordinator}, 1}};
    EXPECT_EQ(flows, expected);
}

TEST_F(FixedPlacement, GivesLayersToAMachineThatTheFlowsPassBy) {
    file_.placement.layers = {{0, 5}, {5, 12}, {5, 12}};
    file_.flows = {{spec::kCoordinator, 0, 4}, {0, 2, 4}, {2, spec::kCoordinator, 4}};
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    EXPECT_EQ(planner->workers, (std::vector<std::string>{"den", "attic", "hall"}));
    const auto report = planner->planner(cluster_of({"den", "attic", "hall"}));
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->placement.layers, file_.placement.layers);
    EXPECT_EQ(report->node_flow, (std::vector<double>{4, 0, 4}));
}

TEST_F(FixedPlacement, SaysTheRolesOfItsWorkers) {
    file_.placement = {{{0, 12}, {}, {0, 12}},
                       {spec::NodeRole::prefill, spec::NodeRole::both, spec::NodeRole::decode}};
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    const std::map<std::string, spec::NodeRole> expected = {{"den", spec::NodeRole::prefill},
                                                            {"hall", spec::NodeRole::decode}};
    EXPECT_EQ(planner->roles, expected);
}

TEST_F(FixedPlacement, RefusesFlowsThatLeadNowhere) {
    file_.flows = {{spec::kCoordinator, 0, 4}, {0, 1, 4}, {1, spec::kCoordinator, 4}};
    EXPECT_THAT(planner_for_file(model_, write(file_)).error().message,
                HasSubstr("flows: attic has no layers"));
    file_.flows = {{spec::kCoordinator, 2, 4}, {2, spec::kCoordinator, 4}};
    EXPECT_THAT(planner_for_file(model_, write(file_)).error().message,
                HasSubstr("from the coordinator to hall a request misses layers"));
    file_.flows = {{spec::kCoordinator, 0, 4}, {0, spec::kCoordinator, 4}};
    EXPECT_THAT(planner_for_file(model_, write(file_)).error().message,
                HasSubstr("from den to the coordinator a request misses layers"));
    file_.flows = {{spec::kCoordinator, 0, 4}, {0, 2, 4}};  // and nothing from there
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    const auto report = planner->planner(cluster_of({"den", "hall"}));
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message,
                HasSubstr("its flows do not lead requests through all layers"));
}

TEST_F(FixedPlacement, NamesTheWorkersItWaitsFor) {
    const auto planner = planner_for_file(model_, write(file_));
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    const auto report = planner->planner(cluster_of({"attic", "guest"}));
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, base::Errc::unavailable);
    EXPECT_THAT(report.error().message, HasSubstr("waits for den, hall"));
}

TEST_F(FixedPlacement, NamesTheFileWhoseLayersDoNotFit) {
    const std::string path = write(file_);
    const auto planner = planner_for_file(model_, path);
    ASSERT_TRUE(planner.ok()) << planner.error().message;
    spec::ClusterSpec cluster = cluster_of({"den", "hall"});
    cluster.nodes[0].memory_bytes = 1000;
    const auto report = planner->planner(cluster);
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message, HasSubstr(path));
    EXPECT_THAT(report.error().message, HasSubstr("den"));
}

TEST_F(FixedPlacement, RefusesFilesForOtherModelsAndWithoutNames) {
    file_.n_layers = 14;
    EXPECT_THAT(planner_for_file(model_, write(file_)).error().message,
                HasSubstr("is for 14 layers, but paper-thin has 12"));
    file_.n_layers = 12;
    file_.node_names.clear();
    EXPECT_THAT(planner_for_file(model_, write(file_)).error().message,
                HasSubstr("has no \"node_names\""));
    EXPECT_FALSE(planner_for_file(model_, "/no/such/file.json").ok());
}

}  // namespace
}  // namespace helix::node::fixed_placement_test

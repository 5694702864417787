// Machines of a plan that compute prompts, and others that go on with the answers.

#include "plan/search/role_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "plan/planner.h"
#include "plan/predict/performance.h"
#include "plan_fixtures.h"
#include "spec/cost_model.h"

namespace helix::plan::role_search_test {
namespace {

using spec::NodeRole;
using testing::HasSubstr;

constexpr NodeRole kBoth = NodeRole::both;
constexpr NodeRole kPrefill = NodeRole::prefill;
constexpr NodeRole kDecode = NodeRole::decode;

// Costs nothing but its rows.
class ByTheRow final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decodes,
                   std::int32_t rows) const override {
        return node.decode_s_per_layer * decodes + node.prefill_s_per_token_layer * rows;
    }
};

// Whole models fit each; the first and the third are quick with prompts, the others with decodes.
spec::ClusterSpec unequal() {
    std::vector<spec::NodeSpec> nodes;
    for (const char* name : {"a", "b", "c", "d"}) {
        const bool prompts = *name == 'a' || *name == 'c';
        spec::NodeSpec node = machine(name, 12, 1e-3);
        node.prefill_s_per_token_layer = prompts ? 1e-3 : 4e-3;
        node.decode_s_per_layer = prompts ? 4e-3 : 1e-3;
        node.decode_batch_s_per_layer = 8 * node.decode_s_per_layer;
        nodes.push_back(node);
    }
    return cluster_of(nodes);
}

class RoleSearch : public testing::Test {
  protected:
    std::vector<std::vector<NodeRole>> choices(const ThroughputCandidate& candidate) {
        return role_choices(problem_, costs_, fixed_lengths(50, 50), candidate);
    }
    spec::ClusterSpec cluster_ = unequal();
    spec::ModelSpec model_ = small_model(6);
    ByTheRow costs_;
    CapacityTable capacities_ = capacity_from_costs(cluster_, model_, costs_, {}, {});
    Problem problem_{cluster_, model_, capacities_};
};

TEST_F(RoleSearch, PromptsGoToWhoIsQuickWithThemAsManyAsKeepBothGroupsBusy) {
    ThroughputCandidate replicas;
    replicas.placement.layers.assign(4, {0, 6});
    for (std::int32_t node = 0; node < 4; ++node) {
        replicas.flows.push_back({spec::kCoordinator, node, 10});
        replicas.flows.push_back({node, spec::kCoordinator, 10});
    }
    const std::vector<std::vector<NodeRole>> expected = {{kPrefill, kBoth, kPrefill, kBoth},
                                                         {kPrefill, kDecode, kPrefill, kDecode},
                                                         {kPrefill, kPrefill, kPrefill, kBoth},
                                                         {kPrefill, kBoth, kBoth, kBoth}};
    EXPECT_EQ(choices(replicas), expected);
}

TEST_F(RoleSearch, MachinesOfOnePipelineHaveOneRole) {
    ThroughputCandidate two;
    two.placement.layers = {{0, 3}, {0, 6}, {3, 6}, {}};
    two.flows = {{spec::kCoordinator, 0, 5},
                 {0, 2, 5},
                 {2, spec::kCoordinator, 5},
                 {spec::kCoordinator, 1, 5},
                 {1, spec::kCoordinator, 5}};
    const std::vector<std::vector<NodeRole>> expected = {{kPrefill, kBoth, kPrefill, kBoth},
                                                         {kPrefill, kDecode, kPrefill, kBoth}};
    EXPECT_EQ(choices(two), expected);
    two.flows.push_back({0, 1, 5});
    EXPECT_TRUE(choices(two).empty()) << "requests pass between all of them";
}

// Whatever holds all layers everywhere is best, and with roles it serves so many times as much.
Judge replicas_with_roles(double gain) {
    return [gain](const spec::Placement& placement, const std::vector<spec::LinkFlow>&,
                  const spec::ServingPolicy&, Look look) {
        double merit = 10;
        for (const spec::LayerRange& layers : placement.layers) merit += layers.size();
        if (!placement.roles.empty()) {
            EXPECT_EQ(look, Look::last) << "short looks say nothing of roles";
            EXPECT_EQ(placement.roles.size(), placement.layers.size());
            merit *= gain;
        }
        return Judgement{merit, merit, look};
    };
}

PlanReport planned(const spec::ClusterSpec& cluster, double gain,
                   const std::vector<Batching>& batchings = {Batching::helix}) {
    PlanOptions options;
    options.objective = Objective::throughput;
    options.iterations = options.throughput_iterations = 500;
    options.judge = replicas_with_roles(gain);
    options.choose_policy = true;
    options.batchings = batchings;
    auto report = plan(cluster, small_model(6), options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return std::move(report).value();
}

TEST(PlanWithChosenRoles, OnlyWhereTheyServeThreePercentMore) {
    EXPECT_TRUE(planned(unequal(), 1.02).placement.roles.empty());
    const PlanReport report = planned(unequal(), 1.05);
    ASSERT_EQ(report.placement.roles.size(), 4U);
    EXPECT_EQ(report.placement.roles[0], kPrefill);
    EXPECT_NE(report.placement.roles[3], kPrefill);
    ASSERT_FALSE(report.notes.empty());
    EXPECT_THAT(report.notes.back(), HasSubstr("roles: prompts are computed on a, "));
}

TEST(PlanWithChosenRoles, NotWhereMachinesHaveTheirOwnOrThePublishedPolicyServes) {
    EXPECT_TRUE(
        planned(unequal(), 1.05, {Batching::helix, Batching::reference}).placement.roles.empty());
    spec::ClusterSpec cluster = unequal();
    cluster.nodes[3].role = kDecode;
    EXPECT_TRUE(planned(cluster, 1.05).placement.roles.empty());
}

}  // namespace
}  // namespace helix::plan::role_search_test

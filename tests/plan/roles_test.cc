// Plans of clusters whose machines have roles.

#include "plan/problem/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/planner.h"
#include "plan_fixtures.h"
#include "role_fixtures.h"

namespace helix::plan::roles_test {
namespace {

using spec::NodeRole;
using testing::HasSubstr;

// Two pairs that hold eight layers each.
spec::ClusterSpec pairs() {
    return cluster_of({with_role(machine("p1", 6, 1e-4), NodeRole::prefill),
                       with_role(machine("d1", 6, 1e-4), NodeRole::decode),
                       with_role(machine("p2", 6, 1e-4), NodeRole::prefill),
                       with_role(machine("b", 6, 1e-4), NodeRole::both)});
}

TEST(PlanWithRoles, EachGroupHoldsTheWholeModelAndNothingFlowsBetweenThem) {
    const spec::ClusterSpec cluster = pairs();
    const spec::ModelSpec model = small_model(8);
    for (const Method method : {Method::automatic, Method::even, Method::petals}) {
        PlanOptions options;
        options.method = method;
        const auto report = plan(cluster, model, options);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_TRUE(keeps_roles(cluster, model, report->placement)) << to_string(method);
        EXPECT_TRUE(report->warnings.empty());
        EXPECT_GT(report->max_flow_tokens_per_s, 0);
        expect_groups_apart(cluster, *report);
        double entering = 0;
        for (const spec::LinkFlow& flow : report->flows) {
            if (flow.from == spec::kCoordinator) entering += flow.tokens_per_s;
        }
        EXPECT_NEAR(entering, report->max_flow_tokens_per_s, entering * 1e-6);
    }
}

TEST(PlanWithRoles, ThroughputToo) {
    const spec::ClusterSpec cluster = pairs();
    const spec::ModelSpec model = small_model(8);
    PlanOptions options;
    options.objective = Objective::throughput;
    options.iterations = options.throughput_iterations = 500;
    int judged = 0;
    options.judge = [&](const spec::Placement& placement, const std::vector<spec::LinkFlow>&,
                        const spec::ServingPolicy&, Look look) {
        EXPECT_EQ(placement.layers.size(), cluster.nodes.size());
        ++judged;
        return Judgement{1, 1, look};
    };
    const auto report = plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(keeps_roles(cluster, model, report->placement));
    EXPECT_GT(judged, 0);
    expect_groups_apart(cluster, *report);
}

TEST(PlanWithRoles, AGroupThatCannotHoldTheModelIsNamedAndAllArePlannedTogether) {
    const spec::ClusterSpec cluster =
        cluster_of({with_role(machine("small", 4, 1e-4), NodeRole::prefill), machine("b1", 6, 1e-4),
                    machine("b2", 6, 1e-4)});
    const spec::ModelSpec model = small_model(8);
    const auto report = plan(cluster, model, {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_FALSE(keeps_roles(cluster, model, report->placement));
    ASSERT_EQ(report->warnings.size(), 1U);
    EXPECT_THAT(report->warnings[0], HasSubstr("roles are not kept: the machines that prefill "
                                               "(small) cannot hold the model by themselves"));
    EXPECT_GT(report->max_flow_tokens_per_s, 0);
}

TEST(PlanWithRoles, OnlyOneKindOfMachinesIsOneGroupWithAWarning) {
    for (const NodeRole role : {NodeRole::prefill, NodeRole::decode}) {
        const spec::ClusterSpec cluster = cluster_of(
            {with_role(machine("a", 6, 1e-4), role), with_role(machine("b", 6, 1e-4), role)});
        const auto report = plan(cluster, small_model(8), {});
        ASSERT_TRUE(report.ok()) << report.error().message;
        ASSERT_EQ(report->warnings.size(), 1U);
        EXPECT_THAT(report->warnings[0], HasSubstr("every machine is for"));
    }
}

TEST(PlanWithRoles, AStartIsDealtOutToTheGroups) {
    const spec::ClusterSpec cluster = pairs();
    const spec::ModelSpec model = small_model(8);
    PlanOptions options;
    options.iterations = 1;
    options.starts.push_back({{{0, 4}, {0, 3}, {4, 8}, {3, 8}}});
    const auto report = plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(keeps_roles(cluster, model, report->placement));
}

TEST(PlanWithRoles, EachGroupGetsItsShareOfTheTime) {
    const spec::ClusterSpec cluster = pairs();
    double used = 0;
    int asked = 0;
    PlanOptions options;
    options.time_used = [&] { return used += 0.01; };
    options.stop = [] { return false; };
    options.flow_stop = [] { return false; };
    options.iterations = 1'000'000'000;
    options.progress = [&](const PlanProgress&) { ++asked; };
    const auto report = plan(cluster, small_model(8), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(keeps_roles(cluster, small_model(8), report->placement));
}

TEST(PlanWithRoles, AManualPlacementOfBothGroupsHasNoFlowBetweenThem) {
    const spec::ClusterSpec cluster = pairs();
    const spec::ModelSpec model = small_model(8);
    PlanOptions options;
    options.method = Method::manual;
    options.manual.layers = {{0, 4}, {0, 4}, {4, 8}, {4, 8}};
    const auto report = plan(cluster, model, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    expect_groups_apart(cluster, *report);
    EXPECT_GT(report->node_flow[0], 0);
    EXPECT_GT(report->node_flow[1], 0);
}

}  // namespace
}  // namespace helix::plan::roles_test

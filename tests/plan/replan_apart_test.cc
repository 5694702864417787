#include "plan/replan_apart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/change/cluster_change.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/role_fixtures.h"
#include "spec/measured_node.h"

namespace helix::plan::replan_apart_test {
namespace {

using spec::LayerRange;
using spec::NodeRole;
using testing::HasSubstr;

CapacityTable capacities_of(const spec::ClusterSpec& cluster, const spec::ModelSpec& model) {
    return capacity_from_costs(cluster, model, spec::MeasuredNode(), Workload{}, MemoryRule{});
}

spec::NodeSpec of_role(const std::string& name, double layers, NodeRole role) {
    return with_role(machine(name, layers, 1e-3), role);
}

// Two for prompts, three for the rest; each holds all eight layers.
spec::ClusterSpec five() {
    return cluster_of({of_role("p1", 8, NodeRole::prefill), of_role("d1", 8, NodeRole::decode),
                       of_role("p2", 8, NodeRole::prefill), of_role("d2", 8, NodeRole::decode),
                       of_role("b", 8, NodeRole::both)});
}

ReplanPartOptions same_for_all(const ReplanOptions& options) {
    return [options](const ClusterPart&, int) { return options; };
}

TEST(ReplanApart, NothingMovesWhereThatIsTooDear) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = five();
    const spec::Placement current{{{0, 4}, {0, 4}, {4, 8}, {4, 8}, {}}};
    const auto stays = replan_apart({cluster, model, capacities_of(cluster, model)}, current,
                                    same_for_all({.price_per_byte = 1, .iterations = 5'000}));
    ASSERT_TRUE(stays.ok()) << stays.error().message;
    EXPECT_EQ(stays->report.placement.layers, current.layers);
    EXPECT_TRUE(stays->diff.moves.empty());
    EXPECT_EQ(stays->diff.bytes, 0);
    EXPECT_TRUE(stays->warnings.empty());
    ASSERT_EQ(stays->parts.size(), 2U);
    for (const ReplanReport& part : stays->parts) EXPECT_EQ(part.flow, part.flow_before);
    EXPECT_TRUE(keeps_roles(cluster, model, stays->report.placement));
    expect_groups_apart(cluster, stays->report);
}

TEST(ReplanApart, EachGroupMovesWhatIsWorthItAndTheBytesOfBothCount) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = five();
    // b is idle, and so is half of every other machine.
    const spec::Placement current{{{0, 4}, {0, 4}, {4, 8}, {4, 8}, {}}};
    const auto found = replan_apart({cluster, model, capacities_of(cluster, model)}, current,
                                    same_for_all({.price_per_byte = 1e-9, .iterations = 20'000}));
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(keeps_roles(cluster, model, found->report.placement));
    expect_groups_apart(cluster, found->report);
    ASSERT_EQ(found->parts.size(), 2U);
    EXPECT_GT(found->parts[1].flow, 1.3 * found->parts[1].flow_before) << "b takes part";
    EXPECT_FALSE(found->report.placement.layers[4].empty());
    EXPECT_EQ(found->diff.bytes, found->parts[0].diff.bytes + found->parts[1].diff.bytes);
    EXPECT_GT(found->diff.bytes, 0);
    EXPECT_NEAR(found->report.max_flow_tokens_per_s, found->parts[0].flow + found->parts[1].flow,
                1e-6 * found->report.max_flow_tokens_per_s);
    for (const NodeMove& move : found->diff.moves) {
        EXPECT_NE(move.before, move.after) << move.node;
    }
}

TEST(ReplanApart, AGroupThatLostALayerTakesItOverByItselfAndTheOtherStays) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec before = five();
    const spec::Placement current{{{0, 8}, {0, 4}, {0, 8}, {4, 8}, {4, 8}}};
    const auto changed = apply_changes(before, {*parse_remove("d1")});
    ASSERT_TRUE(changed.ok()) << changed.error().message;
    const spec::Placement start = carry_over(current, changed->origin);
    const auto found =
        replan_apart({changed->cluster, model, capacities_of(changed->cluster, model)}, start,
                     same_for_all({.price_per_byte = 1e-9, .iterations = 20'000}));
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(keeps_roles(changed->cluster, model, found->report.placement));
    EXPECT_EQ(found->parts[0].diff.bytes, 0);
    EXPECT_EQ(found->parts[1].flow_before, 0);
    EXPECT_GE(found->parts[1].diff.bytes, 4'000'000);
    EXPECT_EQ(found->diff.bytes, found->parts[1].diff.bytes);
}

TEST(ReplanApart, FromAPlacementWithoutRolesBothGroupsGetAWholeModel) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = five();
    // Only the decoding machines hold the second half, nobody of them the first.
    const spec::Placement current{{{0, 4}, {4, 8}, {0, 4}, {4, 8}, {4, 8}}};
    const auto found = replan_apart({cluster, model, capacities_of(cluster, model)}, current,
                                    same_for_all({.price_per_byte = 1e-9, .iterations = 20'000}));
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(keeps_roles(cluster, model, found->report.placement));
    EXPECT_GE(found->diff.bytes, 8'000'000) << "four layers more for each group";
}

// Without a single move tried, or without any time, nothing near is found: then it is planned anew.
TEST(ReplanApart, WhereNothingIsNearItIsPlannedAnew) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = five();
    const spec::Placement current{{{0, 4}, {4, 8}, {0, 4}, {4, 8}, {4, 8}}};
    const ReplanOptions no_moves = {.price_per_byte = 1e-9, .iterations = 0};
    const ReplanOptions no_time = {.price_per_byte = 1e-9, .stop = [] { return true; }};
    for (const ReplanOptions& options : {no_moves, no_time}) {
        const auto found = replan_apart({cluster, model, capacities_of(cluster, model)}, current,
                                        same_for_all(options));
        ASSERT_TRUE(found.ok()) << found.error().message;
        ASSERT_EQ(found->parts.size(), 2U);
        EXPECT_TRUE(keeps_roles(cluster, model, found->report.placement));
        EXPECT_GT(found->parts[0].flow, 0);
        EXPECT_NEAR(found->parts[0].value,
                    found->parts[0].flow - 1e-9 * static_cast<double>(found->parts[0].diff.bytes),
                    1e-6);
    }
}

TEST(ReplanApart, AGroupThatCannotHoldTheModelIsNamed) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster =
        cluster_of({of_role("small", 4, NodeRole::prefill), of_role("b1", 8, NodeRole::both)});
    const auto found = replan_apart({cluster, model, capacities_of(cluster, model)}, {{{}, {0, 8}}},
                                    same_for_all({.iterations = 1'000}));
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(found->parts.empty());
    ASSERT_EQ(found->warnings.size(), 1U);
    EXPECT_THAT(found->warnings[0], HasSubstr("roles are not kept: the machines that prefill "
                                              "(small) cannot hold the model by themselves"));
}

TEST(ReplanApart, APlacementThatDoesNotFitIsAnError) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = five();
    const auto found =
        replan_apart({cluster, model, capacities_of(cluster, model)}, {{{0, 8}}}, same_for_all({}));
    EXPECT_FALSE(found.ok());
}

}  // namespace
}  // namespace helix::plan::replan_apart_test

// What the coordinator's parts do with workers and placements: each part is asked directly.

#include <gtest/gtest.h>

#include "core/coordinator_parts.h"

namespace helix::core::part_workers_test {
namespace {

using base::from_ms;
using base::from_seconds;
using spec::NodeRole;

// ---- Restore
// --------------------------------------------------------------------------------------

CoordinatorConfig after_a_restart() {
    CoordinatorConfig config = Parts::small();
    config.remembered = RememberedPlacement{{{"w0", {0, 2}, 1000}, {"w1", {2, 4}, 1000}},
                                            {{"", "w0", 5}, {"w0", "w1", 5}, {"w1", "", 5}}};
    return config;
}

TEST(Restore, ThePlacementIsTakenUpAgainOnceAllWhoHeldItAreBack) {
    Parts parts(after_a_restart());
    parts.join(0, NodeRole::both, 1000);
    EXPECT_TRUE(parts.restore.advance(parts.now).awaits);
    EXPECT_FALSE(parts.placements.pending().has_value());
    EXPECT_EQ(parts.restore.held_before(parts.fleet.at({0})), (LayerRange{0, 2}));
    parts.join(1, NodeRole::both, 1000);
    const Restore::Progress progress = parts.restore.advance(parts.now);
    EXPECT_TRUE(progress.restored);
    EXPECT_FALSE(progress.improvable) << "nobody else is here";
    ASSERT_TRUE(parts.placements.pending().has_value());
    EXPECT_EQ(parts.placements.pending()->placement.layers,
              (std::vector<LayerRange>{{0, 2}, {2, 4}}));
    EXPECT_EQ(parts.placements.pending()->flows.size(), 3U);
    EXPECT_TRUE(parts.reported(ReportCause::placement_taken_up_again));
}

TEST(Restore, TheOthersAreWaitedForOnlySoLong) {
    Parts parts(after_a_restart());
    parts.join(0, NodeRole::both, 1000);
    EXPECT_TRUE(parts.restore.advance(parts.now).awaits);
    EXPECT_TRUE(parts.restore.advance(parts.now + from_seconds(4.9)).awaits);
    EXPECT_FALSE(parts.restore.advance(parts.now + from_seconds(5)).awaits);
    parts.join(1, NodeRole::both, 1000);
    EXPECT_FALSE(parts.restore.advance(parts.now + from_seconds(6)).awaits) << "it was given up";
}

TEST(Restore, AWorkerWithMuchLessMemoryCannotHoldWhatItHeld) {
    Parts parts(after_a_restart());
    parts.join(0, NodeRole::both, 910);
    parts.join(1, NodeRole::both, 890);
    EXPECT_FALSE(parts.restore.advance(parts.now).awaits);
    EXPECT_FALSE(parts.placements.pending().has_value());
}

TEST(Restore, AStrangerMayMakeThePlacementBetter) {
    Parts parts(after_a_restart());
    for (std::uint32_t id = 0; id < 3; ++id) parts.join(id, NodeRole::both, 1000);
    EXPECT_TRUE(parts.restore.advance(parts.now).improvable);
}

// ---- Planning
// -------------------------------------------------------------------------------------

TEST(Planning, AsksOnceThingsHaveSettledAndIgnoresOlderAnswers) {
    Parts parts;
    parts.join(0);
    parts.planning.want_plan(parts.now);
    EXPECT_EQ(parts.planning.maybe_plan(parts.now + from_ms(299)), "");
    EXPECT_TRUE(parts.said<PlanCluster>().empty());
    EXPECT_EQ(parts.planning.maybe_plan(parts.now + from_ms(300)), "");
    ASSERT_EQ(parts.said<PlanCluster>().size(), 1U);
    const std::uint64_t plan = parts.said<PlanCluster>()[0].plan;
    EXPECT_FALSE(parts.planning.on(NotPlanned{plan + 1, "too late"}));
    EXPECT_FALSE(parts.planning.is_idle());
    EXPECT_TRUE(parts.planning.on(NotPlanned{plan, "it does not fit"}));
    EXPECT_TRUE(parts.planning.is_idle());
}

TEST(Planning, ANewPlacementMustBeWorthTheChange) {
    for (const double flow : {5.2, 5.3}) {
        Parts parts;
        parts.serve(1);
        parts.planning.want_plan(parts.now);
        parts.planning.maybe_plan(parts.now + from_seconds(1));
        Planned planned;
        planned.plan = parts.said<PlanCluster>().at(0).plan;
        planned.placement.layers = {{0, 4}};
        planned.flows = {{spec::kCoordinator, 0, flow}, {0, spec::kCoordinator, flow}};
        parts.planning.on(parts.now, planned);
        EXPECT_EQ(parts.placements.pending().has_value(), flow > 5.25) << flow;
    }
}

TEST(Planning, AWorkerThatDrainsIsPlannedWithout) {
    Parts parts;
    parts.serve(2);
    parts.fleet.set_draining({0}, true);
    parts.planning.want_plan(parts.now);
    parts.planning.maybe_plan(parts.now + from_seconds(1));
    ASSERT_EQ(parts.said<PlanCluster>().size(), 1U);
    EXPECT_EQ(parts.said<PlanCluster>()[0].workers, (std::vector<WorkerId>{{1}}));
    EXPECT_EQ(parts.planning.take_without(), (std::set<WorkerId>{{0}}));
}

// ---- Drains, WorkerEmptier
// ------------------------------------------------------------------------

TEST(Drains, AWorkerOfThePlacementIsEmptiedAtOnceAndDrainedWhenItIsReplaced) {
    Parts parts;
    parts.serve(2);
    const RequestState& state = parts.decode(Parts::request_of(1, 8, 40), 0);
    parts.drains.on(parts.now, DrainWorker{{0}, true, false, ""});
    EXPECT_TRUE(parts.placements.closed({0}));
    ASSERT_TRUE(state.migration);
    EXPECT_EQ(state.migration->begun_for, MigrationReason::drain);
    EXPECT_TRUE(parts.said<WorkerDrained>().empty());
    parts.life.finish({1}, FinishReason::cancelled);
    parts.drains.advance_drains(parts.now);
    EXPECT_TRUE(parts.said<WorkerDrained>().empty()) << "it is in the placement";
    PendingPlacement without = parts.side_by_side();
    without.workers.erase(without.workers.begin());
    without.placement.layers.pop_back();
    without.flows.resize(2);
    parts.put_in_force(std::move(without));
    parts.fleet.at({0}).replaced = true;
    parts.drains.advance_drains(parts.now);
    ASSERT_EQ(parts.said<WorkerDrained>().size(), 1U);
    EXPECT_TRUE(parts.said<WorkerDrained>()[0].remove);
}

TEST(Drains, WithoutAnotherPlacementItGoesOnAndSaysWhy) {
    Parts parts;
    parts.serve(1);
    parts.drains.on(parts.now, DrainWorker{{0}, true, false, ""});
    const std::string why = parts.planning.maybe_plan(parts.now + from_seconds(1));
    ASSERT_NE(why, "");
    parts.drains.refuse_drains(why);
    EXPECT_FALSE(parts.fleet.at({0}).draining || parts.fleet.at({0}).remove);
    EXPECT_EQ(parts.fleet.at({0}).drain_refused, why);
    EXPECT_TRUE(parts.reported(ReportCause::drain_refused));
}

TEST(Drains, ADrainHoldsByTheWorkersNameUntilItHasLeft) {
    Parts parts;
    parts.serve(2);
    parts.drains.on(parts.now, DrainWorker{{}, true, false, "w0"});
    parts.drains.keep_drain(parts.fleet.at({0}), false);
    EXPECT_EQ(parts.drains.to_come().count("w0"), 1U);
    WorkerState again;
    again.joined.node.name = "w0";
    parts.drains.drain_as_before(parts.now, again);
    EXPECT_TRUE(again.draining && again.remove);
    EXPECT_TRUE(parts.drains.to_come().empty());
    parts.drains.keep_drain(again, true);
    EXPECT_TRUE(parts.drains.to_come().empty()) << "it left, as it was to";
}

TEST(WorkerEmptier, WhatCannotMoveIsSetBackAfterTheTimeout) {
    Parts parts;
    parts.serve(1);
    const RequestState& state = parts.decode(Parts::request_of(1), 0);
    const TimePoint since = parts.now;
    parts.pass(parts.config.empty_timeout);
    parts.emptier.empty_worker(parts.now, {0}, since, MigrationReason::transition);
    EXPECT_TRUE(state.running);
    parts.pass(from_ms(1));
    parts.emptier.empty_worker(parts.now, {0}, since, MigrationReason::transition);
    EXPECT_FALSE(state.running);
}

// ---- Rollout
// --------------------------------------------------------------------------------------

struct RolloutTest : testing::Test {
    RolloutTest() {
        for (std::uint32_t id = 0; id < 2; ++id) parts.join(id);
        parts.placements.set_pending(parts.side_by_side());
        parts.placements.know_ways();
        parts.rollout.advance_pending(parts.now);
    }
    void loaded(std::uint32_t id) {
        parts.fleet.loaded({id}, LayersReady{1, {0, 4}, 100});
        parts.rollout.advance_pending(parts.now);
    }
    Parts parts;
};

TEST_F(RolloutTest, ThePlacementIsInForceOnceAllHaveLoaded) {
    ASSERT_EQ(parts.sent<AssignLayers>(0).size(), 1U);
    EXPECT_EQ(parts.sent<AssignLayers>(0)[0].layers, (LayerRange{0, 4}));
    EXPECT_EQ(parts.sent<AssignLayers>(0)[0].peers.size(), 2U);
    loaded(0);
    EXPECT_EQ(parts.placements.epoch(), 0U);
    loaded(1);
    EXPECT_EQ(parts.placements.epoch(), parts.sent<AssignLayers>(0)[0].epoch);
    EXPECT_FALSE(parts.placements.pending().has_value());
    EXPECT_TRUE(parts.reported(ReportCause::placement_in_force));
    ASSERT_NE(parts.restore.in_force(), nullptr);
    EXPECT_EQ(parts.restore.in_force()->holders.size(), 2U);
}

TEST_F(RolloutTest, AnAssignmentIsRepeatedToWhoDidNotAnswer) {
    loaded(0);
    parts.rollout.repeat_assignments(parts.now + from_seconds(4));
    EXPECT_EQ(parts.sent<AssignLayers>(1).size(), 1U);
    parts.rollout.repeat_assignments(parts.now + from_seconds(5));
    EXPECT_EQ(parts.sent<AssignLayers>(1).size(), 2U);
    EXPECT_EQ(parts.sent<AssignLayers>(0).size(), 1U);
}

TEST(Rollout, AStepWaitsUntilItsWorkersAreEmpty) {
    Parts parts;
    parts.serve(1);
    parts.decode(Parts::request_of(1), 0);
    PendingPlacement next = parts.side_by_side();
    parts.placements.set_pending(std::move(next));
    parts.placements.know_ways();
    parts.rollout.advance_pending(parts.now);
    ASSERT_TRUE(parts.placements.pending().has_value());
    EXPECT_TRUE(parts.placements.pending()->disrupts) << "nobody else serves";
    EXPECT_TRUE(parts.sent<AssignLayers>(0).empty());
    parts.life.finish({1}, FinishReason::cancelled);
    parts.rollout.advance_pending(parts.now);
    EXPECT_EQ(parts.sent<AssignLayers>(0).size(), 1U);
}

// ---- Roles
// ----------------------------------------------------------------------------------------

struct RolesTest : testing::Test {
    RolesTest() {
        parts.join(0, NodeRole::prefill);
        parts.join(1, NodeRole::decode);
        parts.put_in_force(parts.side_by_side());
    }
    Parts parts;
};

TEST_F(RolesTest, AreKeptWhileBothHaveAWholePipeline) {
    EXPECT_TRUE(parts.room.roles_kept());
    parts.roles.tell_roles();
    EXPECT_EQ(parts.roles.said(), true);
    parts.fleet.could_not_load({1});
    EXPECT_FALSE(parts.room.roles_kept());
    parts.roles.tell_roles();
    EXPECT_EQ(parts.roles.said(), false);
    EXPECT_TRUE(parts.reported(ReportCause::roles_not_kept));
    const std::size_t told = parts.said<Report>().size();
    parts.roles.tell_roles();
    EXPECT_EQ(parts.said<Report>().size(), told) << "it is said once";
}

TEST_F(RolesTest, ARequestWithATokenIsDueWherePromptsAreComputed) {
    const RequestState& there = parts.decode(Parts::request_of(1, 8, 40), 0);
    const RequestState& here = parts.run(Parts::request_of(2, 8, 40), 1);
    EXPECT_TRUE(parts.roles.is_where_prompts_are(there));
    EXPECT_FALSE(parts.roles.is_where_prompts_are(here));
    EXPECT_EQ(parts.roles.due().count(queue_key(there)), 1U);
    EXPECT_EQ(parts.roles.due().count(queue_key(here)), 0U);
    EXPECT_EQ(parts.roles.check(parts.requests), "");
    parts.roles.stays(queue_key(there));
    EXPECT_NE(parts.roles.check(parts.requests), "") << "nobody hands it over";
}

TEST_F(RolesTest, AHandOverThatFailedIsTriedAgainAfterAPause) {
    RequestState& state = parts.decode(Parts::request_of(1, 8, 40), 0);
    parts.roles.note_handover_failed(state);
    EXPECT_EQ(parts.roles.due().count(queue_key(state)), 1U);
    EXPECT_FALSE(state.hands_over_again.may_try(parts.now + from_ms(99)));
    EXPECT_TRUE(state.hands_over_again.may_try(parts.now + from_ms(100)));
}

// ---- Balancer, Scaling
// ----------------------------------------------------------------------------

TEST(Balancer, ARequestMovesFromAFullWorkerToAnEmptyOne) {
    Parts parts;
    parts.serve(2, 400);
    for (std::uint64_t id = 1; id <= 5; ++id) parts.decode(Parts::request_of(id, 60, 64), 0);
    parts.balancer.balance(parts.now);
    ASSERT_EQ(parts.migrations.all().size(), 1U) << "one in a round";
    const RequestState& moving = parts.requests.at(*parts.migrations.all().begin());
    EXPECT_EQ(moving.migration->begun_for, MigrationReason::balance);
    EXPECT_EQ(moving.migration->pipeline.front().worker, WorkerId{1});
    parts.balancer.balance(parts.now);
    EXPECT_EQ(parts.migrations.all().size(), 1U) << "the next round comes later";
}

TEST(Balancer, NamesTheFirstInTheQueueOnlyIfItWaitsForRoom) {
    Parts parts;
    parts.serve(1);
    const RequestState& first = parts.wait(Parts::request_of(1, 8, 12));
    EXPECT_EQ(parts.balancer.head_without_room(), nullptr) << "there is room";
    for (std::uint64_t id = 2; id <= 6; ++id) parts.run(Parts::request_of(id, 8, 12), 0);
    EXPECT_EQ(parts.balancer.head_without_room(), &first);
    parts.requests.at({1}).accepted = false;
    EXPECT_EQ(parts.balancer.head_without_room(), nullptr) << "it was not asked about yet";
}

TEST(Scaling, AsksForAWorkerWhileThereIsTooLittleRoom) {
    CoordinatorConfig config = Parts::small();
    config.scale.emplace();
    config.scale->max_nodes = 2;
    Parts parts(config);
    parts.serve(1);
    for (std::uint64_t id = 1; id <= 4; ++id) parts.run(Parts::request_of(id, 8, 12), 0);
    EXPECT_FALSE(parts.scaling.scale(parts.now).has_value());
    EXPECT_TRUE(parts.said<AddWorker>().empty()) << "not at once";
    for (int second = 1; second <= 31; ++second) {
        parts.pass(from_seconds(1));
        parts.scaling.scale(parts.now);
    }
    EXPECT_EQ(parts.said<AddWorker>().size(), 1U);
    parts.scaling.on(parts.now, WorkerNotAdded{"no machine is free"});
    for (int second = 0; second <= 31; ++second) {
        parts.pass(from_seconds(1));
        parts.scaling.scale(parts.now);
    }
    EXPECT_EQ(parts.said<AddWorker>().size(), 2U) << "it is asked for again";
}

TEST(Scaling, StopsAWorkerThatNobodyNeedsUnlessItsDrainWasRefused) {
    CoordinatorConfig config = Parts::small();
    config.scale.emplace();
    config.scale->max_nodes = 2;
    Parts parts(config);
    parts.serve(2, 4000);
    std::optional<DrainWorker> drain;
    parts.fleet.at({0}).drain_refused = "it is needed";
    for (int second = 0; second <= 100 && !drain; ++second) {
        drain = parts.scaling.scale(parts.now);
        parts.pass(from_seconds(1));
    }
    ASSERT_TRUE(drain.has_value());
    EXPECT_EQ(drain->worker, WorkerId{1});
    EXPECT_TRUE(drain->remove);
}

// ---- LinkBreaks, Entrance
// -------------------------------------------------------------------------

struct LinkBreaksTest : testing::Test {
    LinkBreaksTest() {
        for (std::uint32_t id = 0; id < 4; ++id) parts.join(id);
        parts.put_in_force(parts.in_a_row());
        state = &parts.wait(Parts::request_of(1));
        parts.life.start(parts.now, *state,
                         parts.way({{{0}, {0, 1}}, {{1}, {1, 2}}, {{2}, {2, 3}}, {{3}, {3, 4}}}));
    }
    void broke(std::uint32_t one, std::uint32_t other, bool down) {
        const WorkerId peer{other};
        parts.breaks.on_peer_lost(parts.now, {one}, {peer, down, "at " + std::to_string(other)});
    }
    Parts parts;
    RequestState* state = nullptr;
};

TEST_F(LinkBreaksTest, RowsThatALinkMayHaveLostAreComputedAnewOnceThatHasSettled) {
    broke(1, 2, false);
    parts.pass(from_ms(299));
    parts.breaks.send_lost_rows_again(parts.now);
    EXPECT_TRUE(state->running);
    parts.pass(from_ms(1));
    parts.breaks.send_lost_rows_again(parts.now);
    EXPECT_FALSE(state->running);
}

TEST_F(LinkBreaksTest, ARequestThatDoesNotUseTheLinkGoesOn) {
    broke(0, 2, false);
    parts.pass(parts.config.settle);
    parts.breaks.send_lost_rows_again(parts.now);
    EXPECT_TRUE(state->running);
}

TEST_F(LinkBreaksTest, ALinkOfThePlanThatIsDownIsPlannedAroundAndTakesNoRequest) {
    EXPECT_GT(parts.placements.flow_in_force(), 0);
    broke(1, 2, true);
    EXPECT_EQ(parts.placements.flow_in_force(), 0);
    EXPECT_FALSE(parts.planning.is_idle());
    EXPECT_FALSE(parts.room.holds(1));
    parts.breaks.forget_old_complaints(parts.now + from_seconds(6));
    EXPECT_TRUE(parts.room.holds(1)) << "nobody says so any more";
}

TEST_F(LinkBreaksTest, AComplaintAboutWhereThePeerWasBeforeCountsForNothing) {
    parts.fleet.at({2}).joined.endpoint = "elsewhere";
    broke(1, 2, true);
    EXPECT_FALSE(parts.links.any_down());
}

TEST_F(LinkBreaksTest, AfterAFailedMoveARequestMayMoveAgainAtOnce) {
    state->moves_again.failed(parts.now, from_seconds(1), from_seconds(1));
    broke(1, 2, true);
    EXPECT_TRUE(state->moves_again.may_try(parts.now));
}

TEST_F(LinkBreaksTest, TheEntranceTellsLateWordsFromLies) {
    const auto wrong = [&](std::uint32_t worker, std::uint64_t id, std::uint32_t attempt) {
        TokensProduced message;
        message.tokens.push_back({{{id}, attempt}, 8, 5, 0, {}});
        return parts.entrance.contradiction({worker}, message);
    };
    EXPECT_EQ(wrong(3, 1, state->attempt), "");
    EXPECT_EQ(wrong(3, 9, 1), "") << "such a request may have ended";
    EXPECT_NE(wrong(1, 1, state->attempt), "") << "only the last stage draws";
}

}  // namespace
}  // namespace helix::core::part_workers_test

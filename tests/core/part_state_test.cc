// What the coordinator's parts know: actions of a step, workers, requests, the queue, placements
// and the room in them. Each part is asked directly.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/coordinator_parts.h"

namespace helix::core::part_state_test {
namespace {

using spec::NodeRole;

// ---- Outbox
// ---------------------------------------------------------------------------------------

StageInput rows_of(std::uint64_t request) {
    StageInput rows;
    rows.key = {{request}, 1};
    return rows;
}

TEST(Outbox, RowsOfAStepGoToEachWorkerInOneMessageBehindItsOtherActions) {
    Outbox out;
    std::vector<CoordinatorAction> actions;
    out.begin({}, actions);
    out.add_rows({1}, rows_of(1));
    out.add_rows({1}, rows_of(2));
    out.push(AcceptRequest{{1}});
    out.end();
    ASSERT_EQ(actions.size(), 2U);
    EXPECT_TRUE(std::holds_alternative<AcceptRequest>(actions[0]));
    const auto& inputs = std::get<StageInputs>(std::get<SendToWorker>(actions[1]).message);
    EXPECT_EQ(inputs.inputs.size(), 2U);
    EXPECT_FALSE(out.has_rows());
}

TEST(Outbox, RowsThatAreDroppedAndThoseOfALostWorkerAreNotSent) {
    Outbox out;
    std::vector<CoordinatorAction> actions;
    out.begin({}, actions);
    out.add_rows({1}, rows_of(1));
    out.drop_unsent({1}, [](const StageInput& input) { return input.key.request.value == 1; });
    out.add_rows({2}, rows_of(2));
    out.forget({2});
    out.end();
    EXPECT_TRUE(actions.empty());
}

TEST(OutboxDeathTest, NothingIsSaidBetweenTwoSteps) {
    Outbox out;
    std::vector<CoordinatorAction> actions;
    out.begin({}, actions);
    out.end();
    EXPECT_DEATH(out.push(AcceptRequest{{1}}), "");
}

TEST(Outbox, ScoredTokensOfOneRequestGoTogether) {
    Outbox out;
    std::vector<CoordinatorAction> actions;
    out.begin({}, actions);
    out.scores_of({1}).tokens.emplace_back();
    out.scores_of({1}).tokens.emplace_back();
    out.scores_of({2}).tokens.emplace_back();
    ASSERT_EQ(actions.size(), 2U);
    EXPECT_EQ(std::get<ScoreTokens>(actions[0]).tokens.size(), 2U);
}

// ---- Fleet
// ----------------------------------------------------------------------------------------

TEST(Fleet, ItsVersionRisesWithWhateverDecidesWhatWorkersCanHold) {
    Parts parts;
    parts.join(0);
    std::uint64_t last = parts.fleet.version();
    const auto rises = [&] {
        const std::uint64_t before = std::exchange(last, parts.fleet.version());
        return last > before;
    };
    parts.fleet.assign({0}, {0, 4});
    EXPECT_TRUE(rises());
    parts.fleet.loaded({0}, LayersReady{1, {0, 4}, 50});
    EXPECT_TRUE(rises());
    parts.fleet.set_draining({0}, true);
    EXPECT_TRUE(rises());
    parts.fleet.close_drained(true, {});
    EXPECT_TRUE(rises());
    parts.fleet.close_drained(true, RequestId{3});
    EXPECT_FALSE(rises()) << "the same workers are closed";
    parts.fleet.could_not_load({0});
    EXPECT_TRUE(rises());
    EXPECT_TRUE(parts.fleet.at({0}).layers.empty());
}

TEST(Fleet, AHelloOfAnOlderLifeIsTooLateEvenWhenTheWorkerIsGone) {
    Fleet fleet;
    EXPECT_TRUE(fleet.is_newest({1}, 2));
    EXPECT_FALSE(fleet.is_newest({1}, 2));
    EXPECT_FALSE(fleet.is_newest({1}, 1));
    EXPECT_TRUE(fleet.is_newest({1}, 3));
}

TEST(Fleet, OneRequestLeavesTheWatermarkFree) {
    Parts parts;
    parts.join(0);
    parts.load({0}, {0, 4}, 500);
    EXPECT_EQ(parts.fleet.most_pages({0}), 495);
}

TEST(Fleet, AfterFailedMovesAWorkerPausesUntilThingsHaveChanged) {
    Parts parts;
    parts.join(0);
    parts.fleet.at({0}).takes_again.failed({}, base::from_seconds(1), base::from_seconds(8));
    EXPECT_FALSE(parts.fleet.takes_moves({}, {0}));
    EXPECT_FALSE(parts.fleet.takes_moves({}, {9})) << "it is not here";
    parts.fleet.forget_failed_moves();
    EXPECT_TRUE(parts.fleet.takes_moves({}, {0}));
}

// ---- RequestTable
// ---------------------------------------------------------------------------------

TEST(RequestTable, FindsWhatIsThereAndNothingElse) {
    RequestTable requests;
    for (const std::uint64_t id : {7U, 3U, 5U}) {
        RequestState state;
        state.request.id = {id};
        requests.emplace({id}, std::move(state));
    }
    requests.erase(requests.find({5}));
    EXPECT_EQ(requests.size(), 2U);
    EXPECT_FALSE(requests.contains({5}));
    EXPECT_EQ(requests.by_id({5}), nullptr);
    EXPECT_EQ(requests.at({3}).request.id, RequestId{3});
    EXPECT_EQ(requests.begin()->first, RequestId{3}) << "by rising id";
}

// ---- KvDemand
// -------------------------------------------------------------------------------------

TEST(KvDemand, ExpectsAnswersAsLongAsThoseThatEnded) {
    Parts parts;
    RequestState& state = parts.wait(Parts::request_of(1, 8, 100));
    EXPECT_EQ(parts.demand.expected_blocks(state, 0), 4) << "8 of the prompt and 4 + 1";
    for (int i = 0; i < 1000; ++i) parts.demand.note_output(50);
    EXPECT_EQ(parts.demand.expected_blocks(state, 0), 15) << "8 and about 50";
    EXPECT_EQ(parts.demand.expected_blocks(state, 8), 13) << "cached blocks are shared";
    EXPECT_EQ(parts.demand.blocks_to_end(state), 27) << "8 and 100";
}

TEST(KvDemand, AGroupsFullPromptBlocksCountOnce) {
    Parts parts;
    Request request = Parts::request_of(1, 10, 8);
    request.n = 3;
    const RequestState& state = parts.wait(request);
    EXPECT_EQ(parts.demand.blocks_needed(state, 8), 2 + 3 * 3);
}

// ---- AdmissionQueue
// -------------------------------------------------------------------------------

TEST(AdmissionQueue, PriorityGoesBeforeArrival) {
    Parts parts;
    parts.wait(Parts::request_of(1));
    Request urgent = Parts::request_of(2);
    urgent.priority = 1;
    parts.wait(urgent);
    EXPECT_EQ(parts.queue.waiting().begin()->second, RequestId{2});
    EXPECT_EQ(parts.queue.check(parts.requests), "");
}

TEST(AdmissionQueue, OneClientLeavesAPartOfTheQueueToOthers) {
    CoordinatorConfig config = Parts::small();
    config.max_waiting = 4;
    Parts parts(config);
    Request request = Parts::request_of(1);
    request.client = 7;
    for (std::uint64_t id = 1; id <= 3; ++id) {
        EXPECT_EQ(parts.queue.queue_is_full(request), "");
        request.id = {id};
        parts.wait(request);
    }
    EXPECT_NE(parts.queue.queue_is_full(request), "");
    request.client = 8;
    EXPECT_EQ(parts.queue.queue_is_full(request), "");
}

TEST(AdmissionQueue, WhatRunsIsCountedUntilItStops) {
    CoordinatorConfig config = Parts::small();
    config.max_running = 8;
    Parts parts(config);
    parts.serve(1);
    Request request = Parts::request_of(1);
    request.client = 7;
    request.n = 7;
    RequestState& first = parts.run(request, 0);
    request.id = {2};
    const RequestState& second = parts.wait(request);
    EXPECT_EQ(parts.queue.sequences_running(), 7);
    EXPECT_TRUE(parts.queue.over_its_share(second));
    parts.life.restart(first, RouteReason::preempted);
    EXPECT_EQ(parts.queue.sequences_running(), 0);
    EXPECT_FALSE(parts.queue.over_its_share(second));
    EXPECT_EQ(parts.queue.check(parts.requests), "");
}

// ---- Placements
// -----------------------------------------------------------------------------------

TEST(Placements, AWorkerIsUsableForTheLayersThatItHasLoaded) {
    Parts parts;
    parts.join(0);
    parts.fleet.assign({0}, {0, 2});
    EXPECT_FALSE(parts.placements.usable({0}, {0, 2})) << "it loads";
    parts.load({0}, {0, 2}, 100);
    EXPECT_TRUE(parts.placements.usable({0}, {0, 2}));
    EXPECT_FALSE(parts.placements.usable({0}, {0, 3}));
    EXPECT_FALSE(parts.placements.usable({1}, {0, 1}));
    parts.fleet.set_draining({0}, true);
    EXPECT_TRUE(parts.placements.usable({0}, {0, 2})) << "the others cannot do without it";
    parts.fleet.close_drained(true, {});
    EXPECT_FALSE(parts.placements.usable({0}, {0, 2}));
}

TEST(Placements, APlacementThatWasPlannedWithALostWorkerIsDropped) {
    Parts parts;
    parts.join(0);
    parts.placements.set_pending(parts.side_by_side());
    parts.placements.forget({5});
    EXPECT_TRUE(parts.placements.pending().has_value());
    parts.placements.forget({0});
    EXPECT_FALSE(parts.placements.pending().has_value());
}

TEST(Placements, NoWayGoesOverALinkThatIsDown) {
    Parts parts;
    for (std::uint32_t id = 0; id < 4; ++id) parts.join(id);
    parts.put_in_force(parts.in_a_row());
    EXPECT_TRUE(parts.room.holds(1));
    parts.links.hear(parts.now, {1}, {2}, true);
    parts.placements.make_router();
    EXPECT_FALSE(parts.room.holds(1));
    EXPECT_TRUE(parts.placements.plan_uses({2}, {1}));
    EXPECT_FALSE(parts.placements.plan_uses({0}, {2}));
}

// ---- Room
// -----------------------------------------------------------------------------------------

TEST(Room, OneRequestCanHaveWhatTheLargestPipelineHoldsBesideTheWatermark) {
    Parts parts;
    parts.serve(1, 100);
    EXPECT_EQ(parts.room.capacity(), 24 * 4) << "99 pages of four layers";
    EXPECT_TRUE(parts.room.could_hold({0}, {0, 4}, 24));
    EXPECT_FALSE(parts.room.could_hold({0}, {0, 4}, 25));
    EXPECT_TRUE(parts.room.could_hold({0}, {0, 2}, 25)) << "of fewer layers it holds more";
}

TEST(Room, CapacityFollowsTheFleet) {
    Parts parts;
    parts.serve(2, 100);
    parts.load({1}, {0, 4}, 400);
    EXPECT_EQ(parts.room.capacity(), 256) << "as much as the context";
    parts.fleet.could_not_load({1});
    EXPECT_EQ(parts.room.capacity(), 96);
    parts.fleet.could_not_load({0});
    EXPECT_EQ(parts.room.capacity(), 0);
}

TEST(Room, WhereWorkersThatPrefillCouldHoldARequestThoseThatDecodeAreNotAskedTo) {
    Parts parts;
    parts.join(0, NodeRole::prefill);
    parts.join(1, NodeRole::decode);
    parts.put_in_force(parts.side_by_side());
    const RequestState& state = parts.wait(Parts::request_of(1));
    ASSERT_TRUE(parts.room.prefilled_apart(state));
    EXPECT_TRUE(parts.room.could_hold(state)({0}, {0, 4}));
    EXPECT_FALSE(parts.room.could_hold(state)({1}, {0, 4}));
    parts.load({0}, {0, 4}, 10);
    EXPECT_FALSE(parts.room.prefilled_apart(state)) << "it is too large for that worker";
    EXPECT_TRUE(parts.room.could_hold(state)({1}, {0, 4}));
}

TEST(Room, NamesTheRequestThatWouldLoseItsPlace) {
    Parts parts;
    parts.serve(1);
    parts.wait(Parts::request_of(1, 8, 8));
    parts.wait(Parts::request_of(2, 8, 40));
    parts.wait(Parts::request_of(3, 8, 200));  // it has no place as it is
    const auto up_to = [](std::int64_t most) {
        return [most](const BlockDemand& n) { return n.blocks <= most; };
    };
    EXPECT_EQ(parts.room.left_without_room(up_to(12)), std::nullopt);
    EXPECT_EQ(parts.room.left_without_room(up_to(11)), RequestId{2});
    EXPECT_EQ(parts.room.left_without_room(up_to(4)), RequestId{2});
}

}  // namespace
}  // namespace helix::core::part_state_test

// A worker without a coordinator: what it keeps, for how long, and what it tells the next one.

#include <gtest/gtest.h>

#include "core/worker_driver.h"

namespace helix::core::worker_holding_test {
namespace {

WorkerConfig patient() {
    WorkerConfig config = WorkerDriver::small();
    config.coordinator_wait = base::from_seconds(5);
    return config;
}

TEST(WorkerHolding, ItSaysWhichSequencesItHasAndTheTokensThatItDrew) {
    WorkerDriver worker(40, 0, patient());
    const SequenceKey key = WorkerDriver::key(1);
    worker.say(StageInputs{{worker.start(key, {5, 6, 7})}});
    worker.finish();
    worker.say(StageInputs{{WorkerDriver::rows(key, 3, {7})}});
    worker.finish();
    worker.step(CoordinatorLost{});
    const Holding holding = worker.worker().holding();
    EXPECT_EQ(holding.epoch, 1U);
    EXPECT_EQ(holding.layers, (LayerRange{0, 2}));
    ASSERT_EQ(holding.sequences.size(), 1U);
    const SequenceHeld& held = holding.sequences[0];
    EXPECT_EQ(held.key, key);
    EXPECT_EQ(held.arrived, 4);
    EXPECT_EQ(held.certain, 4);
    EXPECT_FALSE(held.rows_lost);
    ASSERT_EQ(held.drawn.size(), 2U);
    EXPECT_EQ(held.drawn[0].position, 3);
    EXPECT_EQ(held.drawn[1].position, 4);
}

TEST(WorkerHolding, OfSeveralAnswersItSaysTheFirstTokensAndEachOne) {
    WorkerDriver worker(40, 0, patient());
    const SequenceKey key = WorkerDriver::key(1);
    StageInput prompt = worker.start(key, {5, 6, 7});
    prompt.draws = 2;
    worker.say(StageInputs{{prompt}});
    worker.finish();
    ASSERT_EQ(worker.worker().holding().sequences.size(), 1U);
    const std::vector<ProducedToken> first = worker.worker().holding().sequences[0].drawn;
    ASSERT_EQ(first.size(), 2U);
    for (std::uint32_t member = 0; member < 2; ++member) {
        EXPECT_EQ(first[member].key.member, member);
        EXPECT_EQ(first[member].position, 3);
    }
    worker.say(ForkSequences{key, 3, {1}});
    StageInput next = WorkerDriver::rows({key.request, key.attempt, 1}, 3, {7});
    next.parent = 0;
    worker.say(StageInputs{{next}});
    worker.finish();
    const std::vector<SequenceHeld> held = worker.worker().holding().sequences;
    ASSERT_EQ(held.size(), 2U);
    EXPECT_EQ(held[0].drawn, first);
    EXPECT_EQ(held[1].key.member, 1U);
    EXPECT_EQ(held[1].arrived, 4);
    ASSERT_EQ(held[1].drawn.size(), 1U);
    EXPECT_EQ(held[1].drawn[0].position, 4);
}

TEST(WorkerHolding, OfALongAnswerItRemembersTheEnd) {
    WorkerDriver worker(400, 0, patient());
    const SequenceKey key = WorkerDriver::key(1);
    worker.say(StageInputs{{worker.start(key, {5})}});
    worker.finish();
    for (std::int32_t position = 1; position < 300; ++position) {
        worker.say(StageInputs{{WorkerDriver::rows(key, position, {7})}});
        worker.finish();
    }
    const Holding holding = worker.worker().holding();
    ASSERT_EQ(holding.sequences.size(), 1U);
    const std::vector<ProducedToken>& drawn = holding.sequences[0].drawn;
    EXPECT_GE(drawn.size(), 64U);
    EXPECT_LE(drawn.size(), 128U);
    EXPECT_EQ(drawn.back().position, 300);
    for (std::size_t i = 1; i < drawn.size(); ++i) {
        EXPECT_EQ(drawn[i].position, drawn[i - 1].position + 1);
    }
}

TEST(WorkerHolding, WhatItKeepsItGivesUpWhenNoCoordinatorComes) {
    WorkerDriver worker(40, 0, patient());
    worker.say(StageInputs{{worker.start(WorkerDriver::key(1), {5, 6, 7})}});
    worker.finish();
    worker.step(CoordinatorLost{});
    worker.wait(base::from_seconds(4));
    worker.step(WorkerTick{});
    EXPECT_EQ(worker.worker().holding().sequences.size(), 1U);
    worker.wait(base::from_seconds(1));
    worker.step(WorkerTick{});
    EXPECT_TRUE(worker.worker().holding().sequences.empty());
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerHolding, WithACoordinatorItWaitsForNothing) {
    WorkerDriver worker(40, 0, patient());
    worker.say(StageInputs{{worker.start(WorkerDriver::key(1), {5, 6, 7})}});
    worker.finish();
    worker.step(CoordinatorLost{});
    worker.step(CoordinatorFound{});
    worker.wait(base::from_seconds(60));
    worker.step(WorkerTick{});
    EXPECT_EQ(worker.worker().holding().sequences.size(), 1U);
}

TEST(WorkerHolding, ALinkThatBrokeWhileASequenceRanMayHaveLostRowsOfIt) {
    WorkerDriver worker(40, 0, patient(), {{{0}, {0, 2}}, {{4}, {2, 4}}});
    worker.say(StageInputs{{worker.start(WorkerDriver::key(1), {5, 6, 7})}});
    worker.finish();
    worker.step(PeerBroken{{9}});  // no neighbour
    EXPECT_FALSE(worker.worker().holding().sequences.at(0).rows_lost);
    worker.wait(base::from_ms(1));
    worker.step(PeerBroken{{4}});
    EXPECT_TRUE(worker.worker().holding().sequences.at(0).rows_lost);
    worker.wait(base::from_ms(1));
    worker.say(StageInputs{{worker.start(WorkerDriver::key(2), {5, 6, 7})}});
    worker.finish();
    EXPECT_FALSE(worker.worker().holding().sequences.at(1).rows_lost);
}

TEST(WorkerHolding, AnOldAssignmentIsNotAnsweredToTheNextCoordinator) {
    WorkerDriver worker(40, 0, patient());
    worker.say(AssignLayers{2, {0, 1}, 1, {}});
    worker.step(CoordinatorLost{});
    EXPECT_TRUE(worker.worker().holding().layers.empty());
    worker.step(CoordinatorFound{});
    EXPECT_FALSE(find<SendToCoordinator>(worker.step(LayersLoaded{2, 40})));
    const auto answer = find<SendToCoordinator>(worker.say(AssignLayers{3, {0, 1}, 1, {}}));
    ASSERT_TRUE(answer);
    EXPECT_EQ(std::get<LayersReady>(answer->message).epoch, 3U);
}

}  // namespace
}  // namespace helix::core::worker_holding_test

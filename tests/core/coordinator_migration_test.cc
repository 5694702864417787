#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core::coordinator_migration_test {
namespace {

using Actions = ScriptedCluster::Actions;

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 512;
    config.block_size = 4;
    config.expected_output_tokens = 16;
    return config;
}

Request request(std::uint64_t id, std::int32_t prompt = 40) {
    Request made;
    made.id = {id};
    for (Token t = 0; t < prompt; ++t) made.prompt.push_back(t % 7 + 1);
    made.max_tokens = 60;
    made.stop_tokens = {99};
    return made;
}

// All messages of kind T among these actions, with the workers they go to.
template <typename T>
std::vector<std::pair<WorkerId, T>> sent(const Actions& actions) {
    std::vector<std::pair<WorkerId, T>> all;
    for (const CoordinatorAction& action : actions) {
        const auto* out = std::get_if<SendToWorker>(&action);
        if (out == nullptr) continue;
        if (const auto* message = std::get_if<T>(&out->message)) {
            all.emplace_back(out->worker, *message);
        }
    }
    return all;
}

// Two lanes of two workers; request 1 runs on lane 0 (workers 0, 1) and moves to lane 1 (2, 3).
class MigrationTest : public ::testing::Test {
  protected:
    explicit MigrationTest(const CoordinatorConfig& how = config()) : cluster(how, 2, 2) {}

    void begin(Request made = request(1)) {
        cluster.step(Submitted{std::move(made)});
        cluster.tokens(1, {5});
        from = cluster.lane(1);
        before = cluster.request(1).attempt;
    }
    std::uint32_t to() const { return 1 - from; }
    WorkerId old_stage(std::uint32_t i) const { return {2 * from + i}; }
    WorkerId new_stage(std::uint32_t i) const { return {2 * to() + i}; }
    SequenceKey key() const { return {{1}, cluster.request(1).migration->attempt}; }
    Actions say(WorkerId worker, CoordinatorMessage message) {
        return cluster.step(FromWorker{worker, std::move(message)});
    }
    // Both stages have room.
    Actions reserve() {
        EXPECT_TRUE(sent<SendKv>(say(new_stage(0), KvReserved{key()})).empty());
        return say(new_stage(1), KvReserved{key()});
    }
    // All KV of the round under way arrives.
    Actions arrive() {
        const Migration& move = *cluster.request(1).migration;
        const SequenceKey moving = key();
        const std::uint32_t round = move.round;
        EXPECT_TRUE(sent<SendKv>(say(new_stage(0), KvArrived{moving, round, {0, 2}})).empty());
        return say(new_stage(1), KvArrived{moving, round, {2, 4}});
    }
    std::int64_t charged(std::uint32_t worker) const {
        return cluster.coordinator().impl().fleet.at({worker}).kv.charged();
    }

    ScriptedCluster cluster;
    std::uint32_t from = 0;
    std::uint32_t before = 0;  // attempt
};

TEST_F(MigrationTest, GoesThroughItsPhasesAndContinuesWithTheNextToken) {
    begin();
    const std::int64_t alone = charged(old_stage(0).value);
    auto actions = cluster.step(MoveRequest{{1}});
    const auto reservations = sent<ReserveKv>(actions);
    ASSERT_EQ(reservations.size(), 2U);
    EXPECT_EQ(reservations[0].first, new_stage(0));
    EXPECT_EQ(reservations[0].second.layers, (LayerRange{0, 2}));
    EXPECT_EQ(reservations[1].second.layers, (LayerRange{2, 4}));
    EXPECT_GE(reservations[0].second.blocks, 11) << "41 tokens in blocks of 4";
    EXPECT_EQ(charged(new_stage(0).value), alone);
    EXPECT_EQ(cluster.view().migrating, 1);

    const auto first = sent<SendKv>(reserve());
    ASSERT_EQ(first.size(), 2U);
    EXPECT_EQ(first[0].first, old_stage(0));
    EXPECT_EQ(first[0].second.to, new_stage(0));
    EXPECT_EQ(first[0].second.attempt, before);
    EXPECT_EQ(first[0].second.next_attempt, before + 1);
    EXPECT_EQ(first[0].second.spans, (std::vector<KvSpan>{{0, 0, 40}}));
    EXPECT_EQ(first[1].first, old_stage(1));
    EXPECT_EQ(first[1].second.layers, (LayerRange{2, 4}));

    // Meanwhile the request decodes.
    for (Token t = 0; t < 20; ++t) {
        EXPECT_EQ(ScriptedCluster::rows(cluster.tokens(1, {t + 1})).size(), 1U);
    }
    const auto second = sent<SendKv>(arrive());
    ASSERT_EQ(second.size(), 2U);
    EXPECT_EQ(second[0].second.round, 2U);
    EXPECT_EQ(second[0].second.spans, (std::vector<KvSpan>{{0, 10, 60}}));

    EXPECT_TRUE(sent<SendKv>(arrive()).empty()) << "rows are under way";
    cluster.wait(base::from_ms(3));
    actions = cluster.tokens(1, {33});
    EXPECT_TRUE(find<StreamToken>(actions)) << "the token is shown at once";
    EXPECT_TRUE(ScriptedCluster::rows(actions).empty()) << "held";
    const auto last = sent<SendKv>(actions);
    ASSERT_EQ(last.size(), 2U) << "in the same step";
    EXPECT_EQ(last[0].second.spans, (std::vector<KvSpan>{{0, 15, 61}}));

    cluster.wait(base::from_ms(5));
    actions = arrive();
    const auto routed = find<RequestRouted>(actions);
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->attempt, before + 1);
    EXPECT_EQ(routed->reason, RouteReason::moved);
    EXPECT_EQ(routed->pipeline.front().worker, new_stage(0));
    const auto rows = ScriptedCluster::rows(actions);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].key, (SequenceKey{{1}, before + 1}));
    EXPECT_EQ(rows[0].first_position, 61);
    EXPECT_EQ(rows[0].tokens.size(), 1U);
    EXPECT_EQ(rows[0].tokens.front(), 33);
    ASSERT_TRUE(rows[0].start);
    EXPECT_EQ(rows[0].start->cached_tokens(), 61);
    EXPECT_EQ(rows[0].start->prompt_tokens, 40);
    EXPECT_EQ(rows[0].start->cached.back(), 20);
    const auto freed = sent<FreeSequences>(actions);
    ASSERT_EQ(freed.size(), 2U);
    EXPECT_EQ(freed[0].first, old_stage(0));
    EXPECT_EQ(freed[0].second.keys, (std::vector<SequenceKey>{{{1}, before}}));
    const auto ended = find<MigrationEnded>(actions);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->phase, MigrationPhase::committed);
    EXPECT_EQ(ended->rounds, 3);
    EXPECT_EQ(ended->tokens, 61);
    EXPECT_EQ(ended->pages, 16 * 4);
    EXPECT_EQ(ended->took, base::from_ms(8));
    EXPECT_EQ(ended->held, base::from_ms(5));
    EXPECT_EQ(charged(old_stage(0).value), 0);
    EXPECT_EQ(cluster.view().migrations.of(MigrationReason::asked, MigrationPhase::committed), 1);
    EXPECT_EQ(cluster.view().migrating, 0);

    EXPECT_EQ(find<StreamToken>(cluster.tokens(1, {34}))->index, 22);
    EXPECT_TRUE(find<FinishRequest>(cluster.tokens(1, {99})));
    EXPECT_EQ(held_when_idle(cluster.coordinator()), "");
}

// What it could not decode while it was held it decodes as soon as the migration is given up.
TEST_F(MigrationTest, RefusedWhileHeldItGoesOnAtOnceWhereItWas) {
    begin();
    cluster.step(MoveRequest{{1}});
    reserve();
    arrive();
    ASSERT_EQ(sent<SendKv>(cluster.tokens(1, {6})).size(), 2U);
    const auto actions = say(old_stage(1), KvRefused{key(), KvRefusal::impossible, "no"});
    const auto rows = ScriptedCluster::rows(actions);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].key, (SequenceKey{{1}, before}));
    EXPECT_EQ(rows[0].first_position, 41);
    EXPECT_FALSE(rows[0].start);
    EXPECT_EQ(find<MigrationEnded>(actions)->phase, MigrationPhase::last_round);
    EXPECT_EQ(find<MigrationEnded>(actions)->cause, MigrationCause::refused);
    EXPECT_EQ(sent<FreeSequences>(actions).size(), 4U) << "also what waits to be sent";
    EXPECT_EQ(charged(new_stage(0).value), 0);
    EXPECT_TRUE(find<StreamToken>(cluster.tokens(1, {7})));
    EXPECT_EQ(cluster.view().migrations.of(MigrationPhase::last_round), 1);
}

TEST_F(MigrationTest, AnAttemptThatWasGivenUpIsNotUsedAgain) {
    begin();
    cluster.step(MoveRequest{{1}});
    const SequenceKey first = key();
    say(new_stage(0), KvRefused{first, KvRefusal::impossible, "full"});
    cluster.step(MoveRequest{{1}});
    EXPECT_EQ(key().attempt, first.attempt + 1);
    EXPECT_TRUE(say(new_stage(1), KvRefused{first, KvRefusal::impossible, "late"}).empty());
    EXPECT_TRUE(say(new_stage(0), KvReserved{first}).empty());
    EXPECT_EQ(cluster.view().migrating, 1);
}

TEST_F(MigrationTest, NothingIsHeldForLongerThanItsTimeout) {
    begin();
    cluster.step(MoveRequest{{1}});
    reserve();
    arrive();
    cluster.tokens(1, {6});
    cluster.wait(base::from_ms(900));
    EXPECT_FALSE(find<MigrationEnded>(cluster.step(CoordinatorTick{})));
    cluster.wait(base::from_ms(200));
    const auto actions = cluster.step(CoordinatorTick{});
    EXPECT_EQ(find<MigrationEnded>(actions)->held, base::from_ms(1100));
    EXPECT_EQ(find<MigrationEnded>(actions)->cause, MigrationCause::held_too_long);
    EXPECT_EQ(ScriptedCluster::rows(actions).size(), 1U);
}

TEST_F(MigrationTest, WithoutAnAnswerItIsGivenUp) {
    begin();
    cluster.step(MoveRequest{{1}});
    cluster.wait(base::from_seconds(3));
    EXPECT_EQ(sent<ReserveKv>(cluster.step(CoordinatorTick{})).size(), 2U) << "asked again";
    cluster.wait(base::from_seconds(18));
    const auto actions = cluster.step(CoordinatorTick{});
    EXPECT_EQ(find<MigrationEnded>(actions)->phase, MigrationPhase::reserving);
    EXPECT_EQ(find<MigrationEnded>(actions)->cause, MigrationCause::unanswered);
    EXPECT_TRUE(ScriptedCluster::rows(actions).empty()) << "its row is under way";
}

TEST_F(MigrationTest, SaysWhyARequestCannotMove) {
    const auto why = [&](const MoveRequest& move) {
        const auto ended = find<MigrationEnded>(cluster.step(move));
        return ended ? ended->reason : "it moves";
    };
    EXPECT_EQ(why({{1}}), "there is no such request");
    cluster.step(Submitted{request(1)});
    EXPECT_EQ(why({{1}}), "it has no token yet");
    cluster.tokens(1, {5});
    const std::uint32_t lane = cluster.lane(1);
    EXPECT_EQ(why({{1}, cluster.request(1).pipeline}), "it runs there");
    EXPECT_EQ(why({{1}, {{{0}, {0, 4}}}}), "there is no such way");
    const WorkerId other{2 * (1 - lane) + 1};
    cluster.step(DrainWorker{other});
    EXPECT_EQ(why({{1}}), "no other pipeline has room for it");
    EXPECT_EQ(why({{1}, {{{other.value - 1}, {0, 2}}, {other, {2, 4}}}}),
              "worker " + std::to_string(other.value) + " is being emptied");
    cluster.step(DrainWorker{other, false, true});
    EXPECT_EQ(why({{1}}), "it moves");
    EXPECT_EQ(why({{1}}), "it is on its way already");
}

TEST_F(MigrationTest, OnlySoManyAtAWorkerAtOnce) {
    for (std::uint64_t id = 1; id <= 8; ++id) {
        cluster.step(Submitted{request(id, 8)});
        cluster.tokens(id, {5});
        cluster.step(MoveRequest{{id}});
    }
    EXPECT_EQ(cluster.view().migrating, config().migration.per_worker);
}

TEST_F(MigrationTest, AWorkerOfTheNewPipelineIsLost) {
    begin();
    cluster.step(MoveRequest{{1}});
    reserve();
    arrive();
    cluster.tokens(1, {6});
    const auto actions = cluster.step(WorkerLost{new_stage(0), "died"});
    EXPECT_EQ(find<MigrationEnded>(actions)->phase, MigrationPhase::last_round);
    EXPECT_EQ(ScriptedCluster::rows(actions).size(), 1U) << "the old pipeline is whole";
    EXPECT_EQ(cluster.request(1).attempt, before);
    EXPECT_EQ(cluster.view().failovers, 0);
}

TEST_F(MigrationTest, WhatAWorkerHoldsForItIsNoStray) {
    begin();
    cluster.step(MoveRequest{{1}});
    WorkerReport report;
    report.held = {key(), {{1}, before, 0}, {{1}, before + 7, 0}};
    const auto freed = sent<FreeSequences>(say(new_stage(0), report));
    ASSERT_EQ(freed.size(), 1U);
    EXPECT_EQ(freed[0].second.keys, (std::vector<SequenceKey>{{{1}, before + 7, 0}}));
}

// The stage has not got what the first rows count on: everything is computed again.
TEST_F(MigrationTest, WhenTheKvIsNotThereAfterAllItIsComputedAnew) {
    begin();
    cluster.step(MoveRequest{{1}});
    reserve();
    arrive();
    cluster.tokens(1, {6});
    arrive();
    ASSERT_EQ(cluster.view().migrations.committed(), 1);
    const auto actions = cluster.stuck(1, StuckCause::prefix_lost);
    const auto rows = ScriptedCluster::rows(actions);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].key.attempt, before + 2);
    EXPECT_EQ(rows[0].first_position, 0);
    EXPECT_EQ(rows[0].tokens.size(), 42U);
    EXPECT_EQ(cluster.view().preemptions, 0);
}

TEST_F(MigrationTest, RowsThatABrokenLinkMayHaveLostAreSentAgain) {
    begin();
    std::uint64_t other = 2;  // the first that runs beside request 1
    for (; other < 9; ++other) {
        cluster.step(Submitted{request(other)});
        cluster.tokens(other, {5});
        if (cluster.lane(other) == from) break;
    }
    ASSERT_LT(other, 9U);
    EXPECT_TRUE(say(old_stage(1), PeerLost{old_stage(0)}).empty());
    EXPECT_TRUE(say(old_stage(0), PeerLost{old_stage(1)}).empty()) << "the other end";
    cluster.wait(base::from_ms(100));
    cluster.tokens(other, {6});
    cluster.wait(base::from_ms(300));
    const auto rows = ScriptedCluster::rows(cluster.step(CoordinatorTick{}));
    ASSERT_EQ(rows.size(), 1U) << "the others are elsewhere, or have gone on";
    EXPECT_EQ(rows[0].key, (SequenceKey{{1}, before + 1}));
    EXPECT_EQ(rows[0].tokens.size(), 41U);
    EXPECT_TRUE(ScriptedCluster::rows(cluster.step(CoordinatorTick{})).empty());
}

}  // namespace
}  // namespace helix::core::coordinator_migration_test

#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core {
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
    // All of the round under way has arrived.
    Actions arrive() {
        const Migration& move = *cluster.request(1).migration;
        const SequenceKey moving = key();
        const std::uint32_t round = move.round;
        EXPECT_TRUE(sent<SendKv>(say(new_stage(0), KvArrived{moving, round, {0, 2}})).empty());
        return say(new_stage(1), KvArrived{moving, round, {2, 4}});
    }
    std::int64_t charged(std::uint32_t worker) const {
        return cluster.coordinator().impl().workers.at({worker}).kv.charged();
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

    // It decodes meanwhile.
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
    EXPECT_EQ(cluster.view().migrations, 1);
    EXPECT_EQ(cluster.view().migrating, 0);

    EXPECT_EQ(find<StreamToken>(cluster.tokens(1, {34}))->index, 22);
    EXPECT_TRUE(find<FinishRequest>(cluster.tokens(1, {99})));
    EXPECT_EQ(held_when_idle(cluster.coordinator()), "");
}

}  // namespace
}  // namespace helix::core

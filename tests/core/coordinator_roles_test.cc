// Workers with roles: where requests start, and that they go on elsewhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/effort.h"
#include "core/coordinator/coordinator_impl.h"
#include "core/moving_cluster.h"
#include "core/timed_cluster.h"

namespace helix::core::coordinator_roles_test {
namespace {

using spec::NodeRole;
using testing::HasSubstr;

constexpr NodeRole kBoth = NodeRole::both;
constexpr NodeRole kPrefill = NodeRole::prefill;
constexpr NodeRole kDecode = NodeRole::decode;

Request request_of(std::uint64_t id, std::int32_t prompt = 30, std::int32_t tokens = 40) {
    Request made;
    made.id = {id};
    for (Token t = 0; t < prompt; ++t) made.prompt.push_back((t + static_cast<Token>(id)) % 5 + 1);
    made.max_tokens = tokens;
    made.sampling.seed = 7;
    return made;
}

// ---- four real workers: 0 -> 1 compute prompts, 2 -> 3 what follows
// ---------------------------------------------------------------------------------------

std::vector<NodeRole> halves() {
    return {kPrefill, kPrefill, kDecode, kDecode};
}

std::int64_t handed_over(const MovingCluster& cluster) {
    return cluster.view().migrations.of(MigrationReason::handover, MigrationPhase::committed);
}

TEST(RolesOfWorkers, ARequestIsHandedOverAfterItsFirstTokenAndSaysTheSame) {
    MovingCluster plain;
    plain.submit(request_of(1));
    ASSERT_EQ(plain.settle(), "");
    MovingCluster cluster(MovingCluster::settings(), 900, halves());
    cluster.submit(request_of(1));
    ASSERT_EQ(cluster.settle(), "");
    EXPECT_EQ(cluster.answers[1].choices, plain.answers[1].choices);
    ASSERT_EQ(cluster.routed.size(), 2U);
    EXPECT_EQ(cluster.routed[0].pipeline[0].worker.value, 0U);
    EXPECT_EQ(cluster.routed[0].pipeline[1].worker.value, 1U);
    EXPECT_EQ(cluster.routed[1].pipeline[0].worker.value, 2U);
    EXPECT_EQ(handed_over(cluster), 1);
    EXPECT_EQ(cluster.view().roles_kept, true);
}

TEST(RolesOfWorkers, APlansRolesHoldWhateverTheyWereStartedFor) {
    CoordinatorConfig settings = MovingCluster::settings();
    settings.roles = {{"w0", kPrefill}, {"w1", kPrefill}, {"w2", kDecode}, {"w3", kBoth}};
    const std::vector<NodeRole> others = {kDecode, kBoth, kPrefill, kPrefill};
    for (const std::vector<NodeRole>& own : {std::vector<NodeRole>(), others}) {
        MovingCluster cluster(settings, 900, own);
        cluster.submit(request_of(1));
        ASSERT_EQ(cluster.settle(), "");
        ASSERT_EQ(cluster.routed.size(), 2U);
        EXPECT_EQ(cluster.routed[0].pipeline[0].worker.value, 0U);
        EXPECT_EQ(cluster.routed[1].pipeline[0].worker.value, 2U);
        EXPECT_EQ(cluster.view().roles_kept, true);
    }
}

TEST(RolesOfWorkers, AnAnswerOfOneTokenStaysWhereItsPromptWas) {
    MovingCluster cluster(MovingCluster::settings(), 900, halves());
    cluster.submit(request_of(1, 30, 1));
    ASSERT_EQ(cluster.settle(), "");
    EXPECT_EQ(cluster.tokens_of(1), 1U);
    EXPECT_TRUE(cluster.ended.empty());
}

TEST(RolesOfWorkers, GroupsBeamsDraftsAndScoredPromptsAreHandedOverToo) {
    for (const int kind : {0, 1, 2, 3}) {
        Request request = request_of(1);
        if (kind == 0) request.n = 4;
        if (kind == 1) request.beam = BeamSearch{3, 1, EarlyStopping::never};
        if (kind == 2) request.max_draft_tokens = 3;
        if (kind == 3) request.sampling.repetition_penalty = 1.5F;
        MovingCluster plain;
        plain.submit(request);
        ASSERT_EQ(plain.settle(), "") << kind;
        CoordinatorConfig settings = MovingCluster::settings();
        settings.prefix_cache = true;
        MovingCluster cluster(settings, 900, halves());
        cluster.submit(request);
        ASSERT_EQ(cluster.settle(), "") << kind;
        EXPECT_EQ(cluster.answers[1].choices, plain.answers[1].choices) << kind;
        EXPECT_EQ(handed_over(cluster), 1) << kind;
    }
}

TEST(RolesOfWorkers, ALostMessageOfAHandOverLosesNothingAndItIsTriedAgain) {
    MovingCluster plain;
    plain.submit(request_of(1));
    ASSERT_EQ(plain.settle(), "");
    MovingCluster counted(MovingCluster::settings(), 900, halves());
    const std::size_t before = counted.messages;
    counted.submit(request_of(1));
    ASSERT_EQ(counted.settle(), "");
    const std::size_t messages = counted.messages - before;
    std::int64_t again = 0;
    for (std::size_t lost = 0; lost < std::min<std::size_t>(messages, 90); lost += kSweepStride) {
        MovingCluster cluster(MovingCluster::settings(), 900, halves());
        const std::size_t first = cluster.messages;
        cluster.fate = [&](std::size_t n) {
            return n == first + lost ? MovingCluster::Fate::lose : MovingCluster::Fate::deliver;
        };
        cluster.submit(request_of(1));
        ASSERT_EQ(cluster.settle(), "") << "message " << lost;
        ASSERT_EQ(cluster.answers[1].choices, plain.answers[1].choices) << "message " << lost;
        const bool failed = std::any_of(
            cluster.ended.begin(), cluster.ended.end(),
            [](const MigrationEnded& one) { return one.phase != MigrationPhase::committed; });
        if (failed && handed_over(cluster) > 0) ++again;
    }
    EXPECT_GT(again, 0);
}

TEST(RolesOfWorkers, WithoutAWorkerThatDecodesTheOthersDoEverything) {
    MovingCluster cluster(MovingCluster::settings(), 900, halves());
    cluster.submit(request_of(1));
    ASSERT_TRUE(cluster.run_until([&] { return handed_over(cluster) == 1; }));
    cluster.kill(3);
    cluster.submit(request_of(2));
    ASSERT_EQ(cluster.settle(), "");
    EXPECT_EQ(cluster.view().roles_kept, false);
    EXPECT_EQ(cluster.tokens_of(1), 40U);
    EXPECT_EQ(cluster.tokens_of(2), 40U);
    EXPECT_EQ(cluster.routed.back().pipeline[0].worker.value, 0U);
}

TEST(RolesOfWorkers, WithoutAWorkerForPromptsTheOthersDoEverything) {
    MovingCluster cluster(MovingCluster::settings(), 900, halves());
    cluster.kill(1);
    cluster.run_for(base::from_ms(300));
    EXPECT_EQ(cluster.view().roles_kept, false);
    cluster.submit(request_of(1));
    ASSERT_EQ(cluster.settle(), "");
    EXPECT_EQ(cluster.tokens_of(1), 40U);
    EXPECT_TRUE(cluster.ended.empty());
}

TEST(RolesOfWorkers, NobodyMovesBackToWorkersThatOnlyComputePrompts) {
    MovingCluster cluster(MovingCluster::settings(), 900, halves());
    cluster.submit(request_of(1));
    ASSERT_TRUE(cluster.run_until([&] { return handed_over(cluster) == 1; }));
    cluster.step(MoveRequest{{1}, {}});
    EXPECT_EQ(cluster.ended.back().phase, MigrationPhase::reserving);
    cluster.step(MoveRequest{{1}, {{{0}, {0, 3}}, {{1}, {3, 6}}}});
    EXPECT_THAT(cluster.ended.back().reason, HasSubstr("worker 0 only computes prompts"));
    ASSERT_EQ(cluster.settle(), "");
}

// ---- lanes of one worker each
// ---------------------------------------------------------------------------------------

TimedCluster::Setup lanes(std::vector<NodeRole> roles) {
    TimedCluster::Setup setup;
    setup.coordinator.n_layers = 4;
    setup.coordinator.context_length = 2048;
    setup.coordinator.block_size = 16;
    setup.worker.n_layers = 4;
    setup.worker.block_size = 16;
    setup.lanes = static_cast<std::uint32_t>(roles.size());
    setup.roles = std::move(roles);
    return setup;
}

std::uint32_t place_of(const TimedCluster& cluster, std::uint64_t id) {
    const RequestState* state = cluster.coordinator().impl().requests.by_id({id});
    return state == nullptr || state->pipeline.empty() ? 99 : state->pipeline[0].worker.value;
}

std::int64_t committed_for(const TimedCluster& cluster, MigrationReason reason) {
    return cluster.coordinator().view().migrations.of(reason, MigrationPhase::committed);
}

TEST(RolesOfWorkers, ManyAreHandedOverInTurnAndShared) {
    TimedCluster::Setup setup = lanes({kPrefill, kDecode, kDecode});
    setup.pages = 4000;  // enough for all of them
    TimedCluster cluster(setup);
    for (std::uint64_t id = 1; id <= 40; ++id) {
        cluster.submit_at(cluster.now + base::from_ms(25.0 * static_cast<double>(id)),
                          request_of(id, 60, 200));
    }
    cluster.run(base::from_seconds(2.5));
    std::vector<int> at(3, 0);
    for (std::uint64_t id = 1; id <= 40; ++id) {
        const std::uint32_t place = place_of(cluster, id);
        if (place < 3 && cluster.seen[id].tokens.size() > 5) ++at[place];
    }
    EXPECT_LE(at[0], 4);
    EXPECT_GE(at[1], 12);
    EXPECT_GE(at[2], 12);
    cluster.run(base::from_seconds(60));
    EXPECT_EQ(committed_for(cluster, MigrationReason::handover), 40);
}

TEST(RolesOfWorkers, WithoutRoomItDecodesWhereItIsAndGoesLater) {
    TimedCluster::Setup setup = lanes({kPrefill, kDecode});
    setup.pages = 4 * 40;  // 40 blocks of 16 tokens
    setup.coordinator.balance.enabled = false;
    setup.coordinator.expected_output_tokens = 100;
    TimedCluster cluster(setup);
    for (std::uint64_t id = 1; id <= 6; ++id) {
        cluster.submit_at(cluster.now + base::from_ms(static_cast<double>(id)),
                          request_of(id, 100, 100));
    }
    cluster.run(base::from_ms(600));
    int waiting_to_go = 0;
    for (std::uint64_t id = 1; id <= 6; ++id) {
        if (place_of(cluster, id) == 0 && cluster.seen[id].tokens.size() > 5) ++waiting_to_go;
    }
    EXPECT_GE(waiting_to_go, 1);
    cluster.run(base::from_seconds(30));
    for (std::uint64_t id = 1; id <= 6; ++id) {
        EXPECT_EQ(cluster.seen[id].tokens.size(), 100U);
        EXPECT_TRUE(cluster.seen[id].finished);
    }
    EXPECT_GE(committed_for(cluster, MigrationReason::handover), 4);
}

TEST(RolesOfWorkers, WorkersOfBothRolesArePassedOverUntilTheOthersAreFull) {
    TimedCluster::Setup setup = lanes({kBoth, kPrefill});
    TimedCluster cluster(setup);
    cluster.submit_at(cluster.now + base::from_ms(1), request_of(1, 60, 50));
    cluster.run(base::from_ms(20));
    EXPECT_EQ(place_of(cluster, 1), 1U);
    cluster.run(base::from_seconds(5));
    EXPECT_TRUE(cluster.seen[1].finished);
    EXPECT_EQ(committed_for(cluster, MigrationReason::handover), 1);
}

TEST(RolesOfWorkers, WorkersThatOnlyDecodeGetTheirShareFromThoseOfBothRoles) {
    TimedCluster cluster(lanes({kBoth, kDecode}));
    for (std::uint64_t id = 1; id <= 20; ++id) {
        cluster.submit_at(cluster.now + base::from_ms(30.0 * static_cast<double>(id)),
                          request_of(id, 60, 100));
    }
    cluster.run(base::from_seconds(60));
    EXPECT_GE(committed_for(cluster, MigrationReason::handover), 5);
    EXPECT_LE(committed_for(cluster, MigrationReason::handover), 20);
    for (std::uint64_t id = 1; id <= 20; ++id) EXPECT_TRUE(cluster.seen[id].finished);
}

TEST(RolesOfWorkers, ARequestTooLargeForThoseThatPrefillStartsElsewhere) {
    TimedCluster::Setup setup = lanes({kPrefill, kDecode});
    setup.pages_of = {4 * 10, 4 * 100};
    TimedCluster cluster(setup);
    cluster.submit_at(cluster.now + base::from_ms(1), request_of(1, 300, 50));
    cluster.submit_at(cluster.now + base::from_ms(2), request_of(2, 60, 50));
    cluster.run(base::from_ms(30));
    EXPECT_EQ(place_of(cluster, 1), 1U);
    EXPECT_EQ(place_of(cluster, 2), 0U);
    cluster.run(base::from_seconds(5));
    EXPECT_TRUE(cluster.seen[1].finished);
    EXPECT_TRUE(cluster.seen[2].finished);
    EXPECT_EQ(committed_for(cluster, MigrationReason::handover), 1);
}

TEST(RolesOfWorkers, WhereOnlyPromptsAreComputedLittleMoreThanThePromptIsCharged) {
    TimedCluster::Setup setup = lanes({kPrefill, kDecode});
    setup.coordinator.expected_output_tokens = 1000;
    TimedCluster cluster(setup);
    cluster.submit_at(cluster.now + base::from_ms(1), request_of(1, 160, 1000));
    cluster.run(base::from_ms(5));
    ASSERT_EQ(place_of(cluster, 1), 0U);
    const auto charged = [&](std::uint32_t worker) {
        return cluster.coordinator().impl().fleet.at({worker}).kv.charged();
    };
    EXPECT_EQ(charged(0), 4 * 12);  // 160 + 32 tokens
    cluster.run(base::from_seconds(1));
    EXPECT_EQ(charged(0), 0);
    EXPECT_GE(charged(1), 4 * 60);
}

}  // namespace
}  // namespace helix::core::coordinator_roles_test

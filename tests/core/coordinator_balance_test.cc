// Requests that move for even use of memory and for what waits, with workers played by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/scripted_cluster.h"

namespace helix::core::coordinator_balance_test {
namespace {

using Actions = std::vector<CoordinatorAction>;

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 400;
    config.block_size = 4;
    config.expected_output_tokens = 16;
    config.balance.pairing.source_below = 0;
    config.balance.pairing.destination_above = 0;
    return config;
}

Request request(std::uint64_t id, std::int32_t prompt = 40, std::int32_t priority = 0) {
    Request made;
    made.id = {id};
    made.prompt.assign(static_cast<std::size_t>(prompt), 3);
    made.max_tokens = 60;
    made.stop_tokens = {99};
    made.priority = priority;
    return made;
}

// Lanes of one worker with room for 400 tokens each; what migrations ask of workers is done at
// once.
class BalanceTest : public ::testing::Test {
  protected:
    explicit BalanceTest(const CoordinatorConfig& how = config()) : cluster(how, 2, 1, 400) {}

    void submit(Request made) {
        const std::uint64_t id = made.id.value;
        act(cluster.step(Submitted{std::move(made)}));
        if (cluster.request(id).running) act(cluster.tokens(id, {5}));
    }
    void act(const Actions& actions) {
        for (const CoordinatorAction& action : actions) {
            if (const auto* ended = std::get_if<MigrationEnded>(&action)) ends.push_back(*ended);
            const auto* out = std::get_if<SendToWorker>(&action);
            if (out == nullptr) continue;
            const auto* reserve = std::get_if<ReserveKv>(&out->message);
            if (reserve != nullptr && silent) continue;
            if (reserve != nullptr && refuses) {
                act(cluster.step(
                    FromWorker{out->worker, KvRefused{reserve->key, KvRefusal::impossible, "no"}}));
            } else if (reserve != nullptr) {
                act(cluster.step(FromWorker{out->worker, KvReserved{reserve->key}}));
            } else if (const auto* send = std::get_if<SendKv>(&out->message)) {
                const SequenceKey key{send->request, send->next_attempt};
                act(cluster.step(FromWorker{send->to, KvArrived{key, send->round, send->layers}}));
            }
        }
    }
    // So many balance intervals; every running request has a token in each.
    void pass(int intervals) {
        for (int i = 0; i < intervals; ++i) {
            cluster.wait(base::from_ms(600));
            act(cluster.step(CoordinatorTick{}));
            std::vector<std::uint64_t> running;
            for (const auto& [id, state] : cluster.coordinator().impl().requests) {
                if (state.running && growing) running.push_back(id.value);
                if (state.migration) running.push_back(id.value);
            }
            for (const std::uint64_t id : running) act(cluster.tokens(id, {5}));
        }
    }
    std::size_t committed() const {
        return static_cast<std::size_t>(std::count_if(
            ends.begin(), ends.end(),
            [](const MigrationEnded& ended) { return ended.phase == MigrationPhase::committed; }));
    }

    ScriptedCluster cluster;
    std::vector<MigrationEnded> ends;
    bool growing = false;
    bool refuses = false;  // every worker, whatever is to move there
    bool silent = false;   // no worker answers that it has room, so moves stay under way
};

// 30 of 90 blocks are taken on either lane; 65 are wanted in one place.
class Fragmented : public BalanceTest {
  protected:
    explicit Fragmented(const CoordinatorConfig& how = config()) : BalanceTest(how) {
        for (std::uint64_t id = 1; id <= 4; ++id) submit(request(id));
        EXPECT_EQ(cluster.lane(1) + cluster.lane(2) + cluster.lane(3) + cluster.lane(4), 2U);
        submit(request(5, 240));
        EXPECT_FALSE(cluster.request(5).running);
    }
};

TEST_F(Fragmented, ALongPromptThatFitsNowhereFindsRoom) {
    pass(1);  // it has not waited for half a second
    EXPECT_FALSE(cluster.request(5).running);
    pass(4);
    EXPECT_TRUE(cluster.request(5).running);
    EXPECT_EQ(committed(), 1U);
    EXPECT_EQ(ends[0].begun_for, MigrationReason::room);
    pass(10);
    EXPECT_EQ(ends.size(), 1U);
}

class FragmentedWithoutMoves : public Fragmented {
  protected:
    static CoordinatorConfig none() {
        CoordinatorConfig made = config();
        made.balance.room_moves = 0;
        return made;
    }
    FragmentedWithoutMoves() : Fragmented(none()) {}
};

TEST_F(FragmentedWithoutMoves, ItWaits) {
    pass(20);
    EXPECT_FALSE(cluster.request(5).running);
    EXPECT_TRUE(ends.empty());
}

class OneLaneFull : public BalanceTest {
  protected:
    static CoordinatorConfig eager() {
        CoordinatorConfig made = config();
        made.balance.pairing.source_below = 170;
        made.balance.pairing.destination_above = 200;
        return made;
    }
    explicit OneLaneFull(const CoordinatorConfig& how = eager()) : BalanceTest(how) {
        submit(request(1));
        submit(request(2));
        submit(request(3, 80));
        EXPECT_EQ(cluster.lane(1), cluster.lane(3));
        act(cluster.tokens(2, {99}));  // alone on its lane
    }
    void expect_that_the_shorter_moves() {
        pass(3);
        ASSERT_EQ(committed(), 1U);
        EXPECT_EQ(ends[0].id.value, 1U);
        EXPECT_EQ(ends[0].begun_for, MigrationReason::balance);
        EXPECT_EQ(ends[0].cause, MigrationCause::committed);
        EXPECT_NE(cluster.lane(1), cluster.lane(3));
    }
};

TEST_F(OneLaneFull, TheShorterRequestMovesAndNoneMovesBack) {
    expect_that_the_shorter_moves();
    pass(40);
    EXPECT_EQ(ends.size(), 1U);
}

// Twice a second it would be 200 tries.
TEST_F(OneLaneFull, AMoveThatFailsIsTriedAgainLaterAndLater) {
    refuses = true;
    std::vector<std::size_t> tries;  // after 6, 30, 60 and 120 s
    for (const int intervals : {10, 40, 50, 100}) {
        pass(intervals);
        tries.push_back(ends.size());
    }
    EXPECT_GE(tries[0], 2U);
    EXPECT_LE(tries[1], 6U * 2);  // two requests could move
    EXPECT_LE(tries[3], 9U * 2);
    EXPECT_GT(tries[3], tries[1]);
    EXPECT_EQ(committed(), 0U);
    // What has moved in the end begins anew.
    refuses = false;
    pass(60);
    EXPECT_EQ(committed(), 1U);
}

TEST_F(OneLaneFull, ItIsTriedAtOnceWhenAWorkerHasJoined) {
    refuses = true;
    pass(100);
    const std::size_t tries = ends.size();
    pass(4);
    ASSERT_EQ(ends.size(), tries) << "it waits";
    refuses = false;
    WorkerJoined another;
    another.worker = {7};
    another.incarnation = 1;
    another.node.name = "w7";
    act(cluster.step(another));
    pass(2);
    EXPECT_EQ(committed(), 1U);
}

// Not each request has to find out by itself.
TEST_F(OneLaneFull, AWorkerThatKeepsRefusingIsLeftAlone) {
    refuses = true;
    pass(10);
    const WorkerId refuser =
        cluster.request(1).pipeline[0].worker == WorkerId{0} ? WorkerId{1} : WorkerId{0};
    const Coordinator::Impl& state = cluster.coordinator().impl();
    EXPECT_GE(state.fleet.at(refuser).moves_failed, 3);
    EXPECT_FALSE(state.fleet.takes_moves(state.out.now(), refuser));
    // Somebody who asks for it is not refused for that.
    refuses = false;
    const Pipeline there = {{refuser, {0, 4}}};
    act(cluster.step(MoveRequest{{1}, there}));
    act(cluster.tokens(1, {5}));
    EXPECT_EQ(committed(), 1U);
    EXPECT_TRUE(state.fleet.takes_moves(state.out.now(), refuser));
}

class OneLaneFullAsLlumnix : public OneLaneFull {
  protected:
    static CoordinatorConfig published() {
        CoordinatorConfig made = eager();
        made.balance.pairing.rule = PairingRule::llumnix;
        return made;
    }
    OneLaneFullAsLlumnix() : OneLaneFull(published()) {}
};

TEST_F(OneLaneFullAsLlumnix, TheShorterRequestMovesToTheFreest) {
    expect_that_the_shorter_moves();
}

TEST_F(OneLaneFullAsLlumnix, AMoveIsGivenUpWhenItsSourceHasRecovered) {
    silent = true;
    const std::uint32_t lane = cluster.lane(1);
    pass(2);
    ASSERT_TRUE(cluster.request(1).migration);
    EXPECT_TRUE(ends.empty()) << "its source would be full again with it";
    act(cluster.tokens(3, {99}));
    pass(1);
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].id.value, 1U);
    EXPECT_EQ(ends[0].cause, MigrationCause::source_recovered);
    EXPECT_FALSE(cluster.request(1).migration);
    EXPECT_TRUE(cluster.request(1).running);
    EXPECT_EQ(cluster.lane(1), lane);
}

// Our own rule lets a move that has begun go on.
TEST_F(OneLaneFull, OurOwnMoveGoesOnWhenItsSourceHasRecovered) {
    silent = true;
    pass(2);
    ASSERT_TRUE(cluster.request(1).migration);
    act(cluster.tokens(3, {99}));
    pass(1);
    EXPECT_TRUE(cluster.request(1).migration);
    EXPECT_TRUE(ends.empty());
}

class BalanceOff : public OneLaneFull {
  protected:
    static CoordinatorConfig off() {
        CoordinatorConfig made = eager();
        made.balance.enabled = false;
        return made;
    }
    BalanceOff() : OneLaneFull(off()) {}
};

TEST_F(BalanceOff, NothingMoves) {
    pass(20);
    EXPECT_TRUE(ends.empty());
}

class Headroom : public BalanceTest {
  protected:
    static CoordinatorConfig half() {
        CoordinatorConfig made = config();
        made.balance.headroom = 0.5;
        return made;
    }
    Headroom() : BalanceTest(half()) {}
};

// Beside a request of high priority half the memory stays free of others, not of its like.
TEST_F(Headroom, OthersKeepAwayFromHighPriority) {
    submit(request(1, 40, 1));
    const std::uint32_t lane = cluster.lane(1);
    // 17 blocks each; 50 of 90 are kept, 15 are in use: one fits beside it.
    for (std::uint64_t id = 2; id <= 8; ++id) submit(request(id, 50));
    std::size_t beside = 0;
    for (std::uint64_t id = 2; id <= 8; ++id) {
        if (cluster.request(id).running && cluster.lane(id) == lane) ++beside;
    }
    EXPECT_EQ(beside, 1U);
    EXPECT_FALSE(cluster.request(8).running);
    // One of high priority overtakes those that wait and takes that room.
    submit(request(9, 50, 1));
    EXPECT_TRUE(cluster.request(9).running);
    EXPECT_EQ(cluster.lane(9), lane);
    // Once both have ended the others may have it.
    act(cluster.tokens(1, {99}));
    act(cluster.tokens(9, {99}));
    EXPECT_TRUE(cluster.request(8).running);
}

}  // namespace
}  // namespace helix::core::coordinator_balance_test

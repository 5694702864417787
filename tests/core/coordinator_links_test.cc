// Links between workers that break and stay broken; the coordinator reaches both ends.

#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core::coordinator_links_test {
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

Request request(std::uint64_t id) {
    Request made;
    made.id = {id};
    made.prompt.assign(20, 3);
    made.max_tokens = 60;
    made.stop_tokens = {99};
    return made;
}

// Lanes of two workers.
class LinksTest : public ::testing::Test {
  protected:
    Actions say(std::uint32_t worker, CoordinatorMessage message) {
        return cluster_.step(FromWorker{{worker}, std::move(message)});
    }
    Actions tick_after(Duration time) {
        cluster_.wait(time);
        return cluster_.step(CoordinatorTick{});
    }
    // Submits requests first to last and gives each its first token. Returns how many run on lane
    // 0.
    int start(std::uint64_t first, std::uint64_t last) {
        int on_first = 0;
        for (std::uint64_t id = first; id <= last; ++id) {
            cluster_.step(Submitted{request(id)});
            cluster_.tokens(id, {5});
            on_first += cluster_.lane(id) == 0 ? 1 : 0;
        }
        return on_first;
    }

    ScriptedCluster cluster_{config(), 2, 2};
};

TEST_F(LinksTest, WhatRanOverALinkThatIsDownGoesOnElsewhereAndNothingNewGoesThere) {
    const int hit = start(1, 6);
    ASSERT_GT(hit, 0);
    ASSERT_LT(hit, 6);
    say(0, PeerLost{{1}, true});
    EXPECT_EQ(cluster_.view().links_down.size(), 1U);
    const Actions after = tick_after(base::from_ms(400));
    const auto rows = ScriptedCluster::rows(after);
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(hit)) << "those of lane 0, once each";
    for (const StageInput& input : rows) EXPECT_EQ(input.tokens.size(), 21U) << "all anew";
    for (std::uint64_t id = 1; id <= 6; ++id) EXPECT_EQ(cluster_.lane(id), 1U) << id;
    EXPECT_EQ(start(7, 12), 0);
    EXPECT_EQ(cluster_.view().failovers, hit);
}

TEST_F(LinksTest, ALinkThatIsBackIsUsedAgain) {
    say(0, PeerLost{{1}, true});
    EXPECT_EQ(start(1, 4), 0);
    say(0, PeerLost{{1}});
    EXPECT_TRUE(cluster_.view().links_down.empty());
    EXPECT_GT(start(5, 10), 0);
}

TEST_F(LinksTest, ALinkIsBackWhenBothOfItsEndsSaySo) {
    say(0, PeerLost{{1}, true});
    say(1, PeerLost{{0}, true});
    EXPECT_EQ(cluster_.view().links_down.size(), 1U);
    say(1, PeerLost{{0}});
    EXPECT_EQ(start(1, 4), 0);
    say(0, PeerLost{{1}});
    EXPECT_GT(start(5, 10), 0);
}

TEST_F(LinksTest, AComplaintThatNobodyRepeatsIsForgotten) {
    say(0, PeerLost{{1}, true});
    tick_after(base::from_seconds(3));
    say(0, PeerLost{{1}, true});
    tick_after(base::from_seconds(3));
    EXPECT_EQ(cluster_.view().links_down.size(), 1U);
    tick_after(base::from_seconds(3));
    EXPECT_TRUE(cluster_.view().links_down.empty());
    EXPECT_GT(start(1, 6), 0);
}

TEST_F(LinksTest, WhatIsSaidOfAnEarlierAddressDoesNotCount) {
    WorkerJoined again;
    again.worker = {1};
    again.incarnation = 2;
    again.node.name = "w1";
    again.endpoint = "tcp://192.0.2.1:7002";
    cluster_.step(again);
    say(0, PeerLost{{1}, true, "tcp://192.0.2.1:7001"});
    EXPECT_TRUE(cluster_.view().links_down.empty());
    say(0, PeerLost{{1}, true, "tcp://192.0.2.1:7002"});
    EXPECT_EQ(cluster_.view().links_down.size(), 1U);
    cluster_.step(WorkerLost{{1}, "died"});
    EXPECT_TRUE(cluster_.view().links_down.empty()) << "it is gone altogether";
}

TEST_F(LinksTest, ThePlanIsMadeWithoutIt) {
    LinksMeasured measured;
    measured.worker = {0};
    measured.links = {{0, 1, 1e9, 1e-3}, {1, 0, 1e9, 1e-3}, {0, 2, 1e9, 1e-3}, {-1, 0, 1e9, 1e-3}};
    cluster_.step(measured);
    say(0, PeerLost{{1}, true});
    const auto plan = find<PlanCluster>(tick_after(base::from_ms(400)));
    ASSERT_TRUE(plan.has_value());
    std::vector<std::pair<std::int32_t, std::int32_t>> ends;
    for (const spec::LinkSpec& link : plan->cluster.links) ends.emplace_back(link.from, link.to);
    EXPECT_EQ(ends, (std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 2}, {-1, 0}}));
}

// ---- links that carry only KV
// -------------------------------------------------------------------------------------

// Three workers that each have the whole model, so no rows go between them.
class KvLinks : public ::testing::Test {
  protected:
    KvLinks() {
        cluster_.step(Submitted{request(1)});
        cluster_.tokens(1, {5});
        from_ = {cluster_.lane(1)};
    }
    WorkerId other(std::uint32_t i) const { return {(from_.value + i) % 3}; }
    Actions move(std::vector<Stage> to = {}) { return cluster_.step(MoveRequest{{1}, to}); }
    Actions move_to(WorkerId worker) { return move({{worker, {0, 4}}}); }
    WorkerId moves_to() const { return cluster_.request(1).migration->pipeline.front().worker; }
    // All the KV that it needs arrives, and it goes on there.
    void arrive() {
        const SequenceKey key{{1}, cluster_.request(1).migration->attempt};
        const WorkerId to = moves_to();
        cluster_.step(FromWorker{to, KvReserved{key}});
        for (int round = 0; round < 5 && cluster_.request(1).migration; ++round) {
            const std::uint32_t number = cluster_.request(1).migration->round;
            if (cluster_.asked(1)) cluster_.tokens(1, {6});
            if (!cluster_.request(1).migration) break;
            cluster_.step(FromWorker{to, KvArrived{key, number, {0, 4}}});
        }
        EXPECT_FALSE(cluster_.request(1).migration);
        EXPECT_EQ(cluster_.request(1).pipeline.front().worker, to);
    }

    ScriptedCluster cluster_{config(), 3, 1};
    WorkerId from_;
};

TEST_F(KvLinks, AMoveUnderWayIsGivenUpAndItsPagesAreFreed) {
    move_to(other(1));
    const SequenceKey key{{1}, cluster_.request(1).migration->attempt};
    cluster_.step(FromWorker{other(1), KvReserved{key}});
    const std::uint32_t before = cluster_.request(1).attempt;
    const Actions after = cluster_.step(FromWorker{from_, PeerLost{other(1), true}});
    EXPECT_EQ(find<MigrationEnded>(after)->cause, MigrationCause::link_broke);
    bool freed = false;
    for (const CoordinatorAction& action : after) {
        const auto* send = std::get_if<SendToWorker>(&action);
        if (send == nullptr || send->worker != other(1)) continue;
        const auto* free = std::get_if<FreeSequences>(&send->message);
        freed = freed || (free != nullptr && free->keys == std::vector<SequenceKey>{key});
    }
    EXPECT_TRUE(freed);
    EXPECT_EQ(cluster_.coordinator().impl().fleet.at(other(1)).kv.requests(), 0U);
    EXPECT_EQ(cluster_.request(1).attempt, before) << "it decodes where it is";
    EXPECT_EQ(cluster_.view().links_down.size(), 1U);
    EXPECT_FALSE(find<PlanCluster>(after).has_value());
}

TEST_F(KvLinks, RequestsMoveElsewhereUntilItIsBack) {
    cluster_.step(FromWorker{from_, PeerLost{other(1), true}});
    const auto refused = find<MigrationEnded>(move_to(other(1)));
    ASSERT_TRUE(refused.has_value());
    EXPECT_NE(refused->reason.find("does not reach"), std::string::npos) << refused->reason;
    move();
    EXPECT_EQ(moves_to(), other(2));
    arrive();
    // From there it reaches that worker, since only that one link is down.
    move_to(other(1));
    arrive();
    const auto back = find<MigrationEnded>(move_to(from_));
    ASSERT_TRUE(back.has_value()) << "in the other direction neither";
    cluster_.step(FromWorker{from_, PeerLost{other(1)}});
    EXPECT_TRUE(cluster_.view().links_down.empty());
    move_to(from_);
    arrive();
}

TEST(LinksOfAll, WithNoWayLeftRequestsWaitAndGoOnWhenTheLinkIsBack) {
    ScriptedCluster cluster(config(), 1, 2);
    cluster.step(Submitted{request(1)});
    cluster.tokens(1, {5});
    cluster.step(FromWorker{{0}, PeerLost{{1}, true}});
    cluster.step(Submitted{request(2)});
    cluster.wait(base::from_ms(400));
    EXPECT_TRUE(ScriptedCluster::rows(cluster.step(CoordinatorTick{})).empty());
    EXPECT_EQ(cluster.view().waiting, 2);
    EXPECT_FALSE(cluster.view().serving);
    const auto rows = ScriptedCluster::rows(cluster.step(FromWorker{{0}, PeerLost{{1}}}));
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].tokens.size(), 21U);
    EXPECT_TRUE(cluster.view().serving);
}

TEST(LinksOfAll, WithNoWayLeftForLongRequestsEndAndSayWhy) {
    ScriptedCluster cluster(config(), 1, 2);
    cluster.step(Submitted{request(1)});
    cluster.tokens(1, {5});
    std::optional<FinishRequest> finish;
    for (int second = 0; second < 70 && !finish; ++second) {
        cluster.step(FromWorker{{0}, PeerLost{{1}, true}});
        cluster.wait(base::from_seconds(1));
        finish = find<FinishRequest>(cluster.step(CoordinatorTick{}));
    }
    ASSERT_TRUE(finish.has_value());
    EXPECT_EQ(finish->cause, FailureCause::unserved);
    EXPECT_NE(finish->error.find("do not reach each other"), std::string::npos) << finish->error;
}

}  // namespace
}  // namespace helix::core::coordinator_links_test

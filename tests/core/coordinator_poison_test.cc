// Requests that workers die of: noticed, run alone, and ended.

#include <gtest/gtest.h>

#include <string>

#include "core/find_action.h"
#include "core/scripted_cluster.h"

namespace helix::core::coordinator_poison_test {
namespace {

// Lanes of one worker each; a worker that died comes back as a new incarnation.
class PoisonTest : public testing::Test {
  protected:
    static CoordinatorConfig config() {
        CoordinatorConfig config;
        config.n_layers = 4;
        config.context_length = 512;
        config.balance.enabled = false;
        config.unserved_timeout = base::from_seconds(1000);
        return config;
    }
    void submit(std::uint64_t id) {
        Request request;
        request.id = {id};
        request.prompt = {1, 2, 3, 4, 5};
        request.max_tokens = 40;
        cluster_.step(Submitted{request});
    }
    WorkerId worker_of(std::uint64_t id) const {
        return cluster_.request(id).pipeline.front().worker;
    }
    // The worker that runs it dies, and is not back before everything has gone on elsewhere.
    ScriptedCluster::Actions kill(std::uint64_t id) {
        return cluster_.step(WorkerLost{worker_of(id), "died"});
    }
    bool runs(std::uint64_t id) const { return cluster_.open(id) && cluster_.request(id).running; }

    ScriptedCluster cluster_{config(), 6, 1};
};

TEST_F(PoisonTest, TheThirdDeathEndsARequestThatTheLastTimeRanAlone) {
    submit(1);
    kill(1);
    ASSERT_TRUE(runs(1));
    kill(1);
    ASSERT_TRUE(runs(1));
    EXPECT_EQ(cluster_.view().workers.size(), 4U);
    const WorkerId alone = worker_of(1);
    for (std::uint64_t id = 2; id < 12; ++id) {
        submit(id);
        ASSERT_TRUE(runs(id));
        EXPECT_NE(worker_of(id), alone) << "request " << id;
    }
    EXPECT_FALSE(find<FinishRequest>(kill(1)));
    EXPECT_FALSE(runs(1));
    cluster_.wait(base::from_seconds(2.5));
    EXPECT_FALSE(find<FinishRequest>(cluster_.step(CoordinatorTick{})));
    EXPECT_FALSE(runs(1));
    cluster_.wait(base::from_seconds(1));
    const auto end = find<FinishRequest>(cluster_.step(CoordinatorTick{}));
    ASSERT_TRUE(end);
    EXPECT_EQ(end->id.value, 1U);
    EXPECT_EQ(end->reason, FinishReason::kills_workers) << end->error;
    EXPECT_EQ(end->cause, FailureCause::kills_workers);
    for (std::uint64_t id = 2; id < 12; ++id) EXPECT_TRUE(runs(id)) << "request " << id;
    EXPECT_EQ(cluster_.view().workers.size(), 3U);
}

TEST_F(PoisonTest, WhereWorkersDieOfSomethingElseItRunsAloneAgain) {
    submit(1);
    kill(1);
    kill(1);
    kill(1);
    submit(2);
    ASSERT_FALSE(runs(1));
    ASSERT_TRUE(runs(2));
    EXPECT_FALSE(find<FinishRequest>(kill(2)));
    ASSERT_TRUE(runs(1));
    ASSERT_TRUE(runs(2));
    EXPECT_NE(worker_of(1), worker_of(2));
    EXPECT_FALSE(find<FinishRequest>(cluster_.tokens(1, {7})));
    EXPECT_EQ(cluster_.request(1).deaths, 0);
    cluster_.wait(base::from_seconds(10));
    cluster_.step(CoordinatorTick{});
    EXPECT_TRUE(cluster_.open(1));
}

TEST_F(PoisonTest, OneThatComesOnBetweenDeathsOutlivesAnyNumber) {
    submit(1);
    for (int death = 0; death < 20; ++death) {
        ASSERT_TRUE(runs(1)) << "death " << death;
        if (death % 2 == 1) cluster_.tokens(1, {7});
        const WorkerId dead = worker_of(1);
        EXPECT_FALSE(find<FinishRequest>(kill(1)));
        WorkerJoined joined;
        joined.worker = dead;
        joined.incarnation = static_cast<std::uint64_t>(death) + 2;
        joined.node.name = "w" + std::to_string(dead.value);
        cluster_.step(joined);
        cluster_.wait(base::from_seconds(1));
        const auto plan = find<PlanCluster>(cluster_.step(CoordinatorTick{}));
        ASSERT_TRUE(plan);
        Planned planned;
        planned.plan = plan->plan;
        for (const WorkerId id : plan->workers) {
            planned.placement.layers.push_back({0, 4});
            const auto node = static_cast<std::int32_t>(planned.placement.layers.size()) - 1;
            planned.flows.push_back({spec::kCoordinator, node, 5});
            planned.flows.push_back({node, spec::kCoordinator, 5});
            EXPECT_TRUE(id.value < 6);
        }
        for (const CoordinatorAction& action : cluster_.step(planned)) {
            const auto* sent = std::get_if<SendToWorker>(&action);
            const auto* assign =
                sent == nullptr ? nullptr : std::get_if<AssignLayers>(&sent->message);
            if (assign == nullptr) continue;
            cluster_.step(FromWorker{sent->worker,
                                     LayersReady{assign->epoch, assign->layers, 400, 0, "plain"}});
        }
    }
}

TEST_F(PoisonTest, WhoHadNoRowsThereIsNotBlamedAndTheOthersRunAloneOneAfterTheOther) {
    // Six on six workers, then six more beside them; the workers of the first two die twice.
    for (std::uint64_t id = 1; id <= 12; ++id) submit(id);
    kill(1);
    kill(1);
    // Some share the death of others; none is blamed more than twice, nobody has ended.
    std::int32_t suspects = 0;
    for (std::uint64_t id = 1; id <= 12; ++id) {
        ASSERT_TRUE(cluster_.open(id));
        EXPECT_LE(cluster_.request(id).deaths, 2);
        suspects += is_suspect(cluster_.request(id)) ? 1 : 0;
    }
    ASSERT_GE(suspects, 1);
    // They come on as before, suspects one after the other where nothing else runs; none is blamed.
    for (int round = 0; round < 1000; ++round) {
        for (std::uint64_t id = 1; id <= 12; ++id) {
            if (runs(id)) cluster_.tokens(id, {7});
        }
    }
    EXPECT_EQ(cluster_.view().finished, 12);
    EXPECT_EQ(cluster_.view().failed, 0);
}

TEST_F(PoisonTest, AWorkerThatLeavesOrIsCutOffIsNoDeath) {
    submit(1);
    cluster_.step(WorkerLost{worker_of(1), "left", true});
    EXPECT_EQ(cluster_.request(1).deaths, 0);
    const WorkerId liar = worker_of(1);
    cluster_.step(FromWorker{liar, PeerLost{liar, true, ""}});
    EXPECT_NE(worker_of(1), liar);
    EXPECT_EQ(cluster_.request(1).deaths, 0);
}

}  // namespace
}  // namespace helix::core::coordinator_poison_test

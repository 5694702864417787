// Requests of several clients share the cluster: none waits behind all that another asked for.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/coordinator/fair_shares.h"
#include "core/find_action.h"
#include "core/scripted_cluster.h"
#include "core/worker_driver.h"

namespace helix::core::fair_queue_test {
namespace {

// ---- the order of what waits
// ----------------------------------------------------------------------

TEST(FairShares, OneClientAloneIsServedByArrivalAndTwoInTurns) {
    FairShares shares;
    std::vector<std::pair<std::uint64_t, int>> queue;
    for (int i = 0; i < 4; ++i) queue.emplace_back(shares.enter(0, 7, 100), i);
    EXPECT_TRUE(std::is_sorted(queue.begin(), queue.end()));
    for (int i = 4; i < 6; ++i) queue.emplace_back(shares.enter(0, 8, 150), i);
    std::stable_sort(queue.begin(), queue.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<int> order;
    for (const auto& [place, index] : queue) order.push_back(index);
    EXPECT_EQ(order, (std::vector<int>{0, 4, 1, 5, 2, 3}));
}

TEST(FairShares, WhatAClientDidNotUseItHasNoClaimTo) {
    FairShares shares;
    for (int i = 0; i < 100; ++i) shares.started(0, shares.enter(0, 7, 100));
    // The other one was away all the time, so it comes beside the first, not a hundred times before
    // it.
    const std::uint64_t first = shares.enter(0, 8, 100);
    const std::uint64_t second = shares.enter(0, 8, 100);
    const std::uint64_t other = shares.enter(0, 7, 100);
    EXPECT_LE(first, other);
    EXPECT_GE(second, other);
}

TEST(FairShares, ClientsThatAreGoneAreForgotten) {
    FairShares shares;
    for (std::uint64_t client = 1; client <= 10'000; ++client) {
        shares.started(0, shares.enter(0, client, 1));
        shares.started(0, shares.enter(0, 1, 1));
    }
    EXPECT_LT(shares.clients(), 1000U);
}

// ---- the coordinator
// ------------------------------------------------------------------------------

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 4096;
    config.balance.enabled = false;
    config.expected_output_tokens = 10;
    return config;
}

Request request_of(std::uint64_t id, std::uint64_t client, std::int32_t n = 1) {
    Request request;
    request.id = {id};
    request.client = client;
    request.prompt.assign(10, 1);
    request.max_tokens = 10;
    request.n = n;
    return request;
}

TEST(FairQueue, TheSecondClientsRequestRunsNextThoughTwentyOfTheFirstCameBefore) {
    CoordinatorConfig few = config();
    few.max_running = 2;
    ScriptedCluster cluster(few, 1, 1);
    for (std::uint64_t id = 1; id <= 20; ++id) cluster.step(Submitted{request_of(id, 7)});
    cluster.step(Submitted{request_of(21, 8)});
    EXPECT_FALSE(cluster.request(21).running);
    cluster.step(Ended{{1}});
    EXPECT_TRUE(cluster.request(21).running);
    // One that fails over is in its place again.
    const std::uint64_t place = cluster.request(21).place;
    cluster.stuck(21, StuckCause::out_of_pages);
    EXPECT_EQ(cluster.request(21).place, place);
}

TEST(FairQueue, GroupsLeaveRoomForRequestsOfOneSequence) {
    CoordinatorConfig full = config();
    full.max_running = 64;
    ScriptedCluster cluster(full, 1, 1, 1 << 20);
    for (std::uint64_t id = 1; id <= 4; ++id) cluster.step(Submitted{request_of(id, 7, 16)});
    EXPECT_TRUE(cluster.request(3).running);
    EXPECT_FALSE(cluster.request(4).running);  // a quarter is left
    cluster.step(Submitted{request_of(5, 8)});
    EXPECT_TRUE(cluster.request(5).running);
    // The client that sent the groups goes on beside them, too, since many people may share one
    // address.
    cluster.step(Submitted{request_of(6, 7)});
    EXPECT_TRUE(cluster.request(6).running);
    // A later group, small as it is, does not go before the one that waits.
    cluster.step(Submitted{request_of(7, 7, 2)});
    EXPECT_FALSE(cluster.request(7).running);
    cluster.step(Ended{{1}});
    EXPECT_TRUE(cluster.request(4).running);
    EXPECT_FALSE(cluster.request(7).running);
    cluster.step(Ended{{2}});
    EXPECT_TRUE(cluster.request(7).running);
}

TEST(FairQueue, OneClientLeavesAnEighthOfAllThatRunsToOthers) {
    CoordinatorConfig full = config();
    full.max_running = 16;
    ScriptedCluster cluster(full, 1, 1, 1 << 20);
    for (std::uint64_t id = 1; id <= 15; ++id) cluster.step(Submitted{request_of(id, 7)});
    EXPECT_TRUE(cluster.request(14).running);
    EXPECT_FALSE(cluster.request(15).running);
    cluster.step(Submitted{request_of(16, 8)});
    EXPECT_TRUE(cluster.request(16).running);
}

TEST(FairQueue, WhatIsQueuedHasABudgetOfTokensThatTheRefusalNames) {
    CoordinatorConfig little = config();
    little.max_running = 1;
    little.max_waiting_tokens = 40;
    ScriptedCluster cluster(little, 1, 1);
    for (std::uint64_t id = 1; id <= 5; ++id) {
        const auto actions = cluster.step(Submitted{request_of(id, 0)});
        EXPECT_FALSE(find<RejectRequest>(actions)) << id;  // one runs, four wait
    }
    const auto refused = find<RejectRequest>(cluster.step(Submitted{request_of(6, 0)}));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->reason, RejectReason::queue_full);
    EXPECT_NE(refused->message.find("40 tokens of prompts are waiting, at most 40 may"),
              std::string::npos)
        << refused->message;
    cluster.step(Ended{{1}});
    EXPECT_FALSE(find<RejectRequest>(cluster.step(Submitted{request_of(7, 0)})));
}

TEST(FairQueue, OneClientDoesNotFillTheQueue) {
    CoordinatorConfig little = config();
    little.max_running = 1;
    little.max_waiting = 8;
    ScriptedCluster cluster(little, 1, 1);
    for (std::uint64_t id = 1; id <= 7; ++id) {
        EXPECT_FALSE(find<RejectRequest>(cluster.step(Submitted{request_of(id, 7)}))) << id;
    }
    const auto refused = find<RejectRequest>(cluster.step(Submitted{request_of(8, 7)}));
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->message.find("at most 6 of one client may"), std::string::npos);
    EXPECT_FALSE(find<RejectRequest>(cluster.step(Submitted{request_of(9, 8)})));
}

// ---- a worker's batches
// ---------------------------------------------------------------------------

TEST(FairBatches, ASingleRequestIsInTheNextBatchThoughAGroupOfSixtyFourHasRowsWaiting) {
    WorkerConfig config = WorkerDriver::small();
    config.max_batch_seqs = 8;
    WorkerDriver worker(1000, 0, config);
    worker.run(worker.start(WorkerDriver::key(1), {1, 2, 3, 4}));
    std::vector<std::uint32_t> members;
    for (std::uint32_t member = 1; member < 64; ++member) members.push_back(member);
    worker.say(ForkSequences{WorkerDriver::key(1), 4, members});
    worker.run(worker.start(WorkerDriver::key(2), {1, 2, 3, 4}));
    // The single sequence comes last of all.
    StageInputs inputs;
    for (std::uint32_t member = 0; member < 64; ++member) {
        inputs.inputs.push_back(WorkerDriver::rows(WorkerDriver::key(1, member), 4, {7}));
    }
    worker.say(inputs);
    worker.say(StageInputs{{WorkerDriver::rows(WorkerDriver::key(2), 4, {7})}});
    int batches = 0;
    const auto has_single = [&] {
        return std::any_of(worker.plan().chunks.begin(), worker.plan().chunks.end(),
                           [](const BatchChunk& chunk) { return chunk.key.request.value == 2; });
    };
    while (worker.plan().id != 0 && !has_single()) {
        worker.finish();
        ++batches;
    }
    EXPECT_TRUE(has_single());
    EXPECT_LE(batches, 1);  // the one that had begun when it came
    worker.drain();
}

}  // namespace
}  // namespace helix::core::fair_queue_test

#include <gtest/gtest.h>

#include "core/scripted_cluster.h"

namespace helix::core::coordinator_prefix_test {
namespace {

constexpr std::int32_t kBlock = 4;

CoordinatorConfig config() {
    CoordinatorConfig config;
    config.n_layers = 4;
    config.context_length = 512;
    config.block_size = kBlock;
    config.expected_output_tokens = 10;
    config.prefix_cache = true;
    return config;
}

std::vector<Token> text(std::int32_t n, Token first = 1) {
    std::vector<Token> tokens;
    for (std::int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
    return tokens;
}

Request request(std::uint64_t id, std::vector<Token> prompt, std::int32_t max_tokens = 10) {
    Request made;
    made.id = {id};
    made.prompt = std::move(prompt);
    made.max_tokens = max_tokens;
    return made;
}

TEST(CoordinatorPrefix, TheSecondEqualPromptBeginsBehindItsCachedBlocks) {
    ScriptedCluster cluster(config(), 1, 2);
    const auto first = ScriptedCluster::rows(cluster.step(Submitted{request(1, text(12))}));
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].first_position, 0);
    EXPECT_TRUE(first[0].start->cached.empty());
    cluster.tokens(1, {70});

    const auto actions = cluster.step(Submitted{request(2, text(12))});
    const auto second = ScriptedCluster::rows(actions);
    ASSERT_EQ(second.size(), 1U);
    // Twelve tokens are three full blocks; the last token has to be computed to draw the next one.
    EXPECT_EQ(second[0].first_position, 8);
    EXPECT_EQ(second[0].start->cached, text(8));
    EXPECT_EQ(second[0].start->prompt_tokens, 12);
    EXPECT_EQ(std::vector<Token>(second[0].tokens.begin(), second[0].tokens.end()), text(4, 9));
    EXPECT_TRUE(second[0].sample);
    EXPECT_EQ(find<RequestRouted>(actions)->cached_tokens, 8);
    EXPECT_EQ(cluster.request(2).prompt_rows, 4);
    EXPECT_EQ(cluster.request(2).rows_going, 4);
    EXPECT_EQ(cluster.coordinator().impl().prompts.in_flight(), 4);
    EXPECT_TRUE(find<StreamToken>(cluster.tokens(2, {70})));
    EXPECT_EQ(cluster.view().prefix_queried_tokens, 24);
    EXPECT_EQ(cluster.view().prefix_hit_tokens, 8);
}

TEST(CoordinatorPrefix, WithoutThePrefixCacheEverythingIsComputed) {
    CoordinatorConfig off = config();
    off.prefix_cache = false;
    ScriptedCluster cluster(off, 1, 2);
    cluster.step(Submitted{request(1, text(12))});
    cluster.tokens(1, {70});
    const auto second = ScriptedCluster::rows(cluster.step(Submitted{request(2, text(12))}));
    EXPECT_EQ(second[0].first_position, 0);
    EXPECT_TRUE(second[0].start->cached.empty());
    EXPECT_EQ(cluster.view().prefix_queried_tokens, 0);
}

TEST(CoordinatorPrefix, NothingIsKnownBeforeTheFirstTokenHasSaidThatAllIsComputed) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{request(1, text(12))});
    EXPECT_EQ(
        ScriptedCluster::rows(cluster.step(Submitted{request(2, text(12))}))[0].first_position, 0);
    cluster.step(Ended{{1}, FinishReason::cancelled});
    cluster.step(Ended{{2}, FinishReason::cancelled});
    EXPECT_EQ(
        ScriptedCluster::rows(cluster.step(Submitted{request(3, text(12))}))[0].first_position, 0);
}

TEST(CoordinatorPrefix, AConversationGoesOnBehindPromptAndAnswer) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{request(1, text(9), 8)});
    const std::vector<Token> answer = text(8, 50);
    for (const Token token : answer) cluster.tokens(1, {token});
    EXPECT_FALSE(cluster.open(1));
    // Prompt and answer have 17 tokens; the KV of the last one was never computed.
    std::vector<Token> next = text(9);
    next.insert(next.end(), answer.begin(), answer.end());
    next.push_back(99);
    EXPECT_EQ(find<RequestRouted>(cluster.step(Submitted{request(2, next)}))->cached_tokens, 16);
}

TEST(CoordinatorPrefix, TheLastTokensOwnKvIsNotCounted) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{request(1, text(9), 7)});
    std::vector<Token> next = text(9);
    for (const Token token : text(7, 50)) {
        cluster.tokens(1, {token});
        next.push_back(token);
    }
    next.push_back(99);
    EXPECT_EQ(find<RequestRouted>(cluster.step(Submitted{request(2, next)}))->cached_tokens, 12);
}

TEST(CoordinatorTrouble, WhatCannotGoOnByItsOwnFaultEndsAsInvalidAndAllElseAsAnError) {
    for (const auto& [cause, reason] :
         {std::pair(StuckCause::failed, FinishReason::error),
          std::pair(StuckCause::invalid_request, FinishReason::invalid_request)}) {
        ScriptedCluster cluster(config(), 1, 2);
        cluster.step(Submitted{request(1, text(12))});
        const auto end = find<FinishRequest>(cluster.stuck(1, cause));
        ASSERT_TRUE(end);
        EXPECT_EQ(end->reason, reason);
        EXPECT_EQ(end->cause, FailureCause::worker_failed);
        EXPECT_FALSE(end->error.empty());
    }
}

TEST(CoordinatorPrefix, ALostPrefixStartsTheRequestAgainAtOnceAndIsNoPreemption) {
    ScriptedCluster cluster(config(), 1, 2);
    cluster.step(Submitted{request(1, text(12))});
    cluster.tokens(1, {70});
    cluster.step(Submitted{request(2, text(12))});
    const auto actions = cluster.stuck(2, StuckCause::prefix_lost);
    const auto freed = find<SendToWorker>(actions);
    ASSERT_TRUE(freed);
    EXPECT_EQ(std::get<FreeSequences>(freed->message).keys, (std::vector<SequenceKey>{{{2}, 1}}));
    const auto routed = find<RequestRouted>(actions);
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->attempt, 2U);
    EXPECT_EQ(routed->cached_tokens, 0);
    const auto rows = ScriptedCluster::rows(actions);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].first_position, 0);
    EXPECT_EQ(rows[0].tokens.size(), 12U);
    EXPECT_EQ(cluster.view().preemptions, 0);
    // The second stage did not have it either, but that attempt is over.
    const auto late =
        cluster.step(FromWorker{{1}, SequenceStuck{{{2}, 1}, StuckCause::prefix_lost, "not here"}});
    EXPECT_TRUE(late.empty());
    EXPECT_EQ(find<RequestRouted>(cluster.step(Submitted{request(3, text(12))}))->cached_tokens, 0)
        << "it is forgotten";
    cluster.tokens(2, {70});
    EXPECT_EQ(cluster.view().prefix_hit_tokens, 0);
    EXPECT_EQ(find<RequestRouted>(cluster.step(Submitted{request(4, text(12))}))->cached_tokens, 8)
        << "and has been computed again";
}

TEST(CoordinatorPrefix, AWorkerThatLosesWhatItWasNotAskedForIsCutOff) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{request(1, text(12))});
    const auto cut = find<CutOffWorker>(cluster.stuck(1, StuckCause::prefix_lost));
    ASSERT_TRUE(cut) << "or it would be started there for ever";
    EXPECT_EQ(cut->worker, WorkerId{0});
}

TEST(CoordinatorPrefix, AfterAPreemptionWhatIsStillThereIsNotComputedAgain) {
    ScriptedCluster cluster(config(), 1, 1);
    cluster.step(Submitted{request(1, text(10))});
    cluster.step(Submitted{request(2, text(10, 200))});
    for (const Token token : text(4, 50)) cluster.tokens(2, {token});
    cluster.stuck(2, StuckCause::out_of_pages);
    EXPECT_EQ(cluster.view().preemptions, 1);
    const auto rows = ScriptedCluster::rows(cluster.step(CoordinatorTick{}));
    ASSERT_EQ(rows.size(), 1U);
    // There are ten tokens of the prompt and four of the answer; the KV of the last one was never
    // computed.
    EXPECT_EQ(rows[0].first_position, 12);
    EXPECT_EQ(std::vector<Token>(rows[0].tokens.begin(), rows[0].tokens.end()), text(2, 52));
    EXPECT_EQ(rows[0].start->prompt_tokens, 10);
}

TEST(CoordinatorPrefix, ALostWorkerIsForgotten) {
    ScriptedCluster cluster(config(), 2, 1);
    cluster.step(Submitted{request(1, text(12))});
    cluster.tokens(1, {70});
    EXPECT_GT(cluster.coordinator().impl().prefixes.size(), 0U);
    const std::uint32_t lost = cluster.lane(1);
    cluster.step(WorkerLost{{lost}, "died"});
    EXPECT_EQ(cluster.coordinator().impl().prefixes.size(), 0U);
    EXPECT_EQ(find<RequestRouted>(cluster.step(Submitted{request(2, text(12))}))->cached_tokens, 0);
    EXPECT_NE(cluster.lane(2), lost);
}

TEST(CoordinatorPrefix, APromptGoesToTheLaneThatKnowsIt) {
    ScriptedCluster cluster(config(), 3, 2);
    // One after another, so that no lane is busier than the others for long.
    std::uint64_t id = 0;
    const auto ask = [&](Token first) {
        cluster.step(Submitted{request(++id, text(40, first), 1)});
        const std::uint32_t lane = cluster.lane(id);
        cluster.tokens(id, {7});
        return lane;
    };
    std::map<Token, std::uint32_t> home;
    for (const Token first : {100, 200, 300, 400, 500}) home[first] = ask(first);
    for (int round = 0; round < 3; ++round) {
        for (const Token first : {300, 100, 500, 200, 400}) EXPECT_EQ(ask(first), home[first]);
    }
    EXPECT_EQ(cluster.view().prefix_hit_tokens, 3 * 5 * 36);
}

// Everybody begins with the same text. If it alone decided, one lane would do all the work.
TEST(CoordinatorPrefix, OneHotPrefixDoesNotStarveTheOtherLanes) {
    constexpr std::uint64_t kRequests = 24;
    ScriptedCluster cluster(config(), 3, 2, 4000);
    cluster.step(Submitted{request(1, text(40), 10)});
    cluster.tokens(1, {70});
    std::map<std::uint32_t, int> per_lane;
    for (std::uint64_t id = 2; id < 2 + kRequests; ++id) {
        cluster.step(Submitted{request(id, text(40), 10)});
        ++per_lane[cluster.lane(id)];
        cluster.tokens(id, {70});
    }
    for (const auto& [lane, requests] : per_lane) EXPECT_GE(requests, 6) << "lane " << lane;
    EXPECT_EQ(per_lane.size(), 3U);
    // Each lane computes the text once.
    EXPECT_EQ(cluster.view().prefix_hit_tokens, static_cast<std::int64_t>(kRequests - 2) * 36);
}

TEST(CoordinatorPrefix, AFullLaneIsNotWaitedFor) {
    ScriptedCluster cluster(config(), 2, 1, 100);  // 100 tokens at a time
    cluster.step(Submitted{request(1, text(60), 20)});
    cluster.tokens(1, {70});
    const std::uint32_t home = cluster.lane(1);
    cluster.step(Submitted{request(2, text(60), 20)});
    EXPECT_EQ(cluster.lane(2), 1 - home);
    EXPECT_EQ(cluster.request(2).prefix.cached, 0);
}

}  // namespace
}  // namespace helix::core::coordinator_prefix_test

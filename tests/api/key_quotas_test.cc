#include "api/key_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace helix::api::key_quotas_test {
namespace {

using base::from_ms;
using base::from_seconds;
using ::testing::HasSubstr;

constexpr base::TimePoint at(double seconds) {
    return base::TimePoint{} + from_seconds(seconds);
}

TEST(MinuteBudget, WhatIsTakenComesBackEvenly) {
    MinuteBudget budget;
    EXPECT_EQ(budget.left(at(100), 6), 6);
    for (int left = 5; left >= 0; --left) {
        budget.take(at(100), 6, 1);
        EXPECT_EQ(budget.left(at(100), 6), left);
    }
    EXPECT_EQ(budget.until_one(at(100), 6), from_seconds(10));
    EXPECT_EQ(budget.until_all(at(100)), from_seconds(60));
    EXPECT_EQ(budget.left(at(109.9), 6), 0);
    EXPECT_EQ(budget.left(at(110), 6), 1);
    EXPECT_EQ(budget.until_one(at(110), 6), base::Duration());
    EXPECT_EQ(budget.left(at(159.9), 6), 5);
    EXPECT_EQ(budget.left(at(1000), 6), 6) << "it does not grow beyond its limit";
}

TEST(MinuteBudget, MoreThanIsLeftIsAwayForLonger) {
    MinuteBudget budget;
    budget.take(at(0), 100, 250);
    EXPECT_EQ(budget.left(at(0), 100), 0);
    EXPECT_EQ(budget.until_one(at(0), 100), from_ms(90'600));
    EXPECT_EQ(budget.left(at(90.5), 100), 0);
    EXPECT_EQ(budget.left(at(90.7), 100), 1);
    EXPECT_EQ(budget.left(at(150), 100), 100);
}

TEST(MinuteBudget, EveryLimitIsKeptExactlyAndTheLargestOverflowsNothing) {
    for (const std::int64_t limit :
         {std::int64_t{1}, std::int64_t{7}, std::int64_t{59}, std::int64_t{1013}}) {
        MinuteBudget budget;
        std::int64_t taken = 0;
        while (budget.left(at(5), limit) > 0 && taken <= limit) {
            budget.take(at(5), limit, 1);
            ++taken;
        }
        EXPECT_EQ(taken, limit);
        EXPECT_GT(budget.until_one(at(5), limit), base::Duration());
        const base::TimePoint then = at(5) + budget.until_one(at(5), limit);
        EXPECT_EQ(budget.left(then, limit), 1) << limit;
    }
    const std::int64_t most = MinuteBudget::kMostPerMinute;
    MinuteBudget budget;
    EXPECT_EQ(budget.left(at(0), most), most);
    budget.take(at(0), most, most);
    EXPECT_EQ(budget.left(at(0), most), 0);
    EXPECT_EQ(budget.left(at(30), most), most / 2);
    budget.take(at(0), 1, std::int64_t{1} << 62U);
    EXPECT_EQ(budget.left(at(1e6), 1), 0);
}

TEST(KeyQuotas, RequestsOverAMinutesLimitAreRefusedUntilThereIsRoom) {
    KeyQuotas quotas;
    const KeyLimits limits{.requests_per_minute = 2};
    EXPECT_FALSE(quotas.begin(at(0), "alice", limits));
    quotas.end("alice");
    EXPECT_EQ(quotas.requests(at(0), "alice")->left, 1);
    EXPECT_FALSE(quotas.begin(at(1), "alice", limits));
    quotas.end("alice");
    const auto refused = quotas.begin(at(1), "alice", limits);
    ASSERT_TRUE(refused);
    EXPECT_EQ(
        refused->why,
        "The key alice may use 2 requests a minute (requests_per_minute); try again in 29 s.");
    EXPECT_EQ(refused->retry_after_s, 29);
    EXPECT_FALSE(quotas.begin(at(1), "bob", limits)) << "each key has limits of its own";
    EXPECT_TRUE(quotas.begin(at(29.9), "alice", limits)) << "a refusal costs nothing";
    EXPECT_FALSE(quotas.begin(at(30), "alice", limits));
    const auto standing = quotas.requests(at(30), "alice");
    ASSERT_TRUE(standing);
    EXPECT_EQ(standing->limit, 2);
    EXPECT_EQ(standing->left, 0);
    EXPECT_EQ(standing->reset, from_seconds(60));
    EXPECT_FALSE(quotas.tokens(at(30), "alice"));
}

TEST(KeyQuotas, TokensAreCountedAsTheyAreUsedAndTheDebtIsWaitedFor) {
    KeyQuotas quotas;
    const KeyLimits limits{.tokens_per_minute = 600};
    ASSERT_FALSE(quotas.begin(at(0), "alice", limits));
    quotas.used_prompt(at(0), "alice", 500);
    EXPECT_EQ(quotas.tokens(at(0), "alice")->left, 100);
    ASSERT_FALSE(quotas.begin(at(0), "alice", limits)) << "tokens are left";
    for (int i = 0; i < 200; ++i) quotas.used_output(at(0), "alice", 1);
    const auto refused = quotas.begin(at(0), "alice", limits);
    ASSERT_TRUE(refused);
    EXPECT_THAT(refused->why, HasSubstr("600 tokens a minute (tokens_per_minute)"));
    EXPECT_EQ(refused->retry_after_s, 11) << "100 tokens are owed, and one must be left";
    EXPECT_FALSE(quotas.begin(at(11), "alice", limits));
}

TEST(KeyQuotas, RequestsAtOnceAreLimitedUntilOneEnds) {
    KeyQuotas quotas;
    const KeyLimits limits{.concurrent_requests = 2};
    EXPECT_FALSE(quotas.begin(at(0), "alice", limits));
    EXPECT_FALSE(quotas.begin(at(0), "alice", limits));
    const auto refused = quotas.begin(at(0), "alice", limits);
    ASSERT_TRUE(refused);
    EXPECT_THAT(refused->why, HasSubstr("2 requests at once (concurrent_requests)"));
    EXPECT_EQ(refused->retry_after_s, 1);
    quotas.end("alice");
    EXPECT_FALSE(quotas.begin(at(0), "alice", limits));
    EXPECT_FALSE(quotas.begin(at(0), "alice", {})) << "the limit was taken away meanwhile";
}

TEST(KeyQuotas, WhatKeysUseIsCountedAlsoWithoutLimits) {
    KeyQuotas quotas;
    EXPECT_FALSE(quotas.begin(at(0), "alice", {}));
    quotas.used_prompt(at(0), "alice", 10);
    quotas.used_output(at(0), "alice", 3);
    EXPECT_TRUE(quotas.begin(at(0), "alice", {.concurrent_requests = 1}));
    const auto usage = quotas.usage();
    ASSERT_EQ(usage.size(), 1U);
    const KeyUsage& alice = usage.at("alice");
    EXPECT_EQ(alice.requests, 1U);
    EXPECT_EQ(alice.refused, 1U);
    EXPECT_EQ(alice.prompt_tokens, 10U);
    EXPECT_EQ(alice.output_tokens, 3U);
}

}  // namespace
}  // namespace helix::api::key_quotas_test

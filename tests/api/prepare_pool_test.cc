#include "api/prepare_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <set>

#include "api/request_budget.h"

namespace helix::api::prepare_pool_test {
namespace {

// A pool whose threads stand still until they are told to go on, and what they did.
class PreparePoolTest : public ::testing::Test {
  protected:
    static constexpr std::size_t kLarge = std::size_t{1} << 20U;

    PreparePool::Job job(const std::string& client, const std::string& name,
                         std::size_t bytes = kLarge) {
        PreparePool::Job made;
        made.client = client;
        made.bytes = bytes;
        made.run = [this, name] {
            const std::lock_guard lock(mutex_);
            ran_.push_back(name);
            changed_.notify_all();
        };
        made.refuse = [this, name](const base::Error& why) {
            const std::lock_guard lock(mutex_);
            refused_.push_back(name + ": " + why.message);
        };
        return made;
    }
    // A job that keeps a thread until release(client).
    PreparePool::Job holder(const std::string& client, std::size_t bytes = kLarge) {
        PreparePool::Job made;
        made.client = client;
        made.bytes = bytes;
        made.run = [this, client] {
            std::unique_lock lock(mutex_);
            ++held_;
            changed_.notify_all();
            changed_.wait_for(lock, std::chrono::seconds(20),
                              [&] { return released_.count(client) > 0; });
        };
        return made;
    }
    void add(PreparePool& pool, PreparePool::Job job) {
        const auto ticket = pool.add(std::move(job));
        ASSERT_TRUE(ticket.ok()) << ticket.error().message;
    }
    void wait_held(int threads) {
        std::unique_lock lock(mutex_);
        ASSERT_TRUE(
            changed_.wait_for(lock, std::chrono::seconds(10), [&] { return held_ == threads; }));
    }
    void release(const std::string& client) {
        const std::lock_guard lock(mutex_);
        released_.insert(client);
        changed_.notify_all();
    }
    std::vector<std::string> wait_ran(std::size_t jobs) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return ran_.size() >= jobs; });
        return ran_;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> ran_;
    std::vector<std::string> refused_;
    int held_ = 0;
    std::set<std::string> released_;
};

TEST_F(PreparePoolTest, ClientsTakeTurnsHoweverManyJobsOneOfThemHas) {
    PreparePool pool({});
    add(pool, holder("many"));
    wait_held(1);
    for (int i = 0; i < 4; ++i) add(pool, job("many", "many " + std::to_string(i)));
    add(pool, job("one", "one"));
    add(pool, job("two", "two"));
    release("many");
    const auto ran = wait_ran(6);
    ASSERT_EQ(ran.size(), 6U);
    EXPECT_EQ(ran[0], "one");
    EXPECT_EQ(ran[1], "two");
}

TEST_F(PreparePoolTest, SmallJobsGoOnWhileEveryOtherThreadIsBusy) {
    PreparePool pool({});
    add(pool, holder("a"));
    wait_held(1);
    add(pool, job("b", "large"));
    add(pool, job("a", "small", 100));
    EXPECT_EQ(wait_ran(1), std::vector<std::string>{"small"});
    release("a");
    EXPECT_EQ(wait_ran(2).back(), "large");
}

TEST_F(PreparePoolTest, OfOneClientTheSmallerGoesFirstButALargeOneIsNotOvertakenForEver) {
    PreparePool pool({});
    add(pool, holder("a"));
    add(pool, holder("b", 10));
    wait_held(2);
    add(pool, job("a", "large"));
    for (int i = 0; i < 100; ++i) add(pool, job("a", "small", 0));
    release("a");
    const auto ran = wait_ran(101);
    ASSERT_EQ(ran.size(), 101U);
    // A MiB is worth 64 arrivals of 16 KiB.
    EXPECT_EQ(std::find(ran.begin(), ran.end(), "large") - ran.begin(), 63);
    release("b");
}

TEST_F(PreparePoolTest, WhatIsToBeAloneNeverRunsBesideItsClientsOthers) {
    PreparePool pool({.threads = 4});
    std::atomic<int> at_once{0};
    std::atomic<int> most{0};
    std::atomic<int> done{0};
    for (int i = 0; i < 50; ++i) {
        PreparePool::Job one = job("batches", "x", 0);
        one.alone = true;
        one.run = [&] {
            most = std::max(most.load(), ++at_once);
            std::this_thread::yield();
            --at_once;
            ++done;
        };
        add(pool, std::move(one));
    }
    for (int i = 0; i < 5000 && done < 50; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(done, 50);
    EXPECT_EQ(most, 1);
}

TEST_F(PreparePoolTest, WhenTooManyWaitTheClientWithTheMostGivesWay) {
    PreparePool pool({.threads = 2, .max_waiting = 3});
    add(pool, holder("greedy"));
    wait_held(1);
    for (int i = 0; i < 3; ++i) add(pool, job("greedy", "greedy " + std::to_string(i)));
    const auto more = pool.add(job("greedy", "greedy 3"));
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error().code, base::Errc::overloaded);
    EXPECT_NE(more.error().message.find("max_preparing"), std::string::npos);
    add(pool, job("modest", "modest"));
    ASSERT_EQ(refused_.size(), 1U);
    EXPECT_EQ(refused_[0].substr(0, 8), "greedy 2");
    EXPECT_EQ(pool.waiting(), 3U);
    release("greedy");
    EXPECT_EQ(wait_ran(3).front(), "modest");
}

TEST_F(PreparePoolTest, WhatIsCancelledNeverRunsAndWhatRunsCannotBe) {
    PreparePool pool({});
    const auto first = pool.add(holder("a"));
    ASSERT_TRUE(first.ok());
    wait_held(1);
    const auto ticket = pool.add(job("a", "cancelled"));
    ASSERT_TRUE(ticket.ok());
    add(pool, job("a", "kept"));
    EXPECT_TRUE(pool.cancel(*ticket));
    EXPECT_FALSE(pool.cancel(*ticket));
    EXPECT_FALSE(pool.cancel(*first));
    release("a");
    EXPECT_EQ(wait_ran(1), std::vector<std::string>{"kept"});
}

TEST_F(PreparePoolTest, AnExceptionEndsOneJobAndNotTheThread) {
    PreparePool pool({});
    PreparePool::Job bad = job("a", "bad");
    bad.run = [] { throw std::bad_alloc(); };
    add(pool, std::move(bad));
    add(pool, job("a", "next"));
    EXPECT_EQ(wait_ran(1), std::vector<std::string>{"next"});
}

TEST_F(PreparePoolTest, StoppingDropsWhatWaits) {
    auto kept = std::make_shared<int>(1);
    PreparePool pool({});
    add(pool, holder("a"));
    wait_held(1);
    PreparePool::Job waits = job("a", "waits");
    waits.run = [kept] {};
    add(pool, std::move(waits));
    EXPECT_EQ(kept.use_count(), 2);
    release("a");
    pool.stop();
    EXPECT_EQ(kept.use_count(), 1);
}

TEST(RequestBudget, CountsRequestsAndBytesAndGivesThemBack) {
    RequestBudget budget(4, 1000);
    auto one = budget.open("a", 300);
    auto two = budget.open("b", 500);
    auto empty = budget.open("c", 0);
    auto last = budget.open("c", 0);
    ASSERT_TRUE(one.ok() && two.ok() && empty.ok() && last.ok());
    const auto fifth = budget.open("d", 1);
    ASSERT_FALSE(fifth.ok());
    EXPECT_EQ(fifth.error().code, base::Errc::overloaded);
    EXPECT_NE(fifth.error().message.find("max_requests"), std::string::npos);
    const auto more = (*two)->resize(701);
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error().code, base::Errc::overloaded);
    EXPECT_NE(more.error().message.find("max_request_bytes"), std::string::npos);
    EXPECT_EQ((*two)->bytes(), 500);
    const auto never = (*two)->resize(751);
    ASSERT_FALSE(never.ok());
    EXPECT_EQ(never.error().code, base::Errc::too_large);
    EXPECT_TRUE((*two)->resize(700).ok());
    EXPECT_TRUE((*two)->resize(1).ok());
    EXPECT_EQ(budget.bytes(), 301);
    for (auto* share : {&one, &two, &empty, &last}) *share = base::invalid("");
    EXPECT_EQ(budget.bytes(), 0);
    EXPECT_EQ(budget.requests(), 0);
}

TEST(RequestBudget, OneClientLeavesAQuarterToOthers) {
    RequestBudget budget(4, 1000);
    const auto one = budget.open("a", 400);
    const auto two = budget.open("a", 350);
    ASSERT_TRUE(one.ok() && two.ok());
    const auto bytes = budget.open("a", 1);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.error().code, base::Errc::overloaded);
    EXPECT_NE(bytes.error().message.find("of yours"), std::string::npos) << bytes.error().message;
    const auto three = budget.open("a", 0);
    ASSERT_TRUE(three.ok());
    const auto number = budget.open("a", 0);
    ASSERT_FALSE(number.ok());
    EXPECT_NE(number.error().message.find("of yours"), std::string::npos);
    EXPECT_TRUE(budget.open("b", 250).ok());
    EXPECT_EQ(budget.requests(), 3) << "what was refused holds nothing";
}

TEST(RequestBudget, IsFullWhenHardlyAnythingMoreIsTaken) {
    RequestBudget few(2, 1600);
    EXPECT_FALSE(few.is_full());
    auto one = few.open("a", 700);
    EXPECT_FALSE(few.is_full());
    auto two = few.open("b", 0);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_TRUE(few.is_full()) << "there are two requests";
    two = base::invalid("");
    EXPECT_FALSE(few.is_full());

    RequestBudget small(4, 1600);
    auto first = small.open("a", 700);
    auto second = small.open("b", 800);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_FALSE(small.is_full());
    ASSERT_TRUE((*second)->resize(801).ok());
    EXPECT_TRUE(small.is_full()) << "less than a sixteenth is left";
}

}  // namespace
}  // namespace helix::api::prepare_pool_test

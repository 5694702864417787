// Batches that outlive the process that runs them, even where one of their lines kills it.

#include "api/batch_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/temp_folder.h"

namespace helix::api::batch_runner_test {
namespace {

using ::testing::HasSubstr;

constexpr int kLines = 12;

// Answers whatever is asked, until the process dies.
class Answers final : public LineWorld {
  public:
    void send(const LineKey& key, const std::string&, std::string) override {
        in_flight.insert(key.line);
        sent.push_back(key);
    }
    void abandon(const LineKey& key) override { in_flight.erase(key.line); }
    bool can_send(const std::string&) override { return true; }
    bool serves(const std::string&) override { return true; }
    std::int64_t unix_time() override { return 1000; }
    base::TimePoint now() override { return time; }

    std::vector<LineAnswer> take() {
        std::vector<LineAnswer> answers;
        for (const LineKey& key : sent) answers.push_back({key, 200, "req_1", "{}"});
        sent.clear();
        in_flight.clear();
        return answers;
    }

    std::set<std::int64_t> in_flight;
    std::vector<LineKey> sent;
    base::TimePoint time;
};

class BatchRunnerTest : public ::testing::Test {
  protected:
    void SetUp() override {
        auto store = open();
        std::string text;
        for (int i = 1; i <= kLines; ++i) {
            text += R"({"custom_id":"id-)" + std::to_string(i) +
                    R"(","method":"POST","url":"/v1/completions","body":{"prompt":"p"}})" + "\n";
        }
        const auto file = store->add_file("in.jsonl", "batch", text, 1);
        ASSERT_TRUE(file.ok());
        store::NewBatch batch;
        batch.input_file = file->id;
        batch.endpoint = "/v1/completions";
        batch.window = "24h";
        batch.metadata = "null";
        batch.expires_at = 1'000'000;
        const auto added = store->add_batch(batch, 1);
        ASSERT_TRUE(added.ok());
        batch_ = added->id;
    }
    std::unique_ptr<store::JobStore> open() {
        auto opened = store::JobStore::open(folder_.path());
        EXPECT_TRUE(opened.ok());
        return opened.ok() ? std::move(opened).value() : nullptr;
    }
    // Runs one process until it dies of one of these lines (true) or the batch is over. What was in
    // flight when it died is in died_with_.
    bool live(const std::set<std::int64_t>& poison, bool in_good_order = false) {
        const auto store = open();
        Answers world;
        BatchRunner runner(*store, world, BatchLimits{}, 4);
        for (int step = 0; step < 1000; ++step) {
            runner.advance();
            for (const std::int64_t line : world.in_flight) {
                if (!poison.contains(line)) continue;
                died_with_.push_back(world.in_flight);
                if (in_good_order) {
                    EXPECT_TRUE(runner.stop().ok());
                }
                return true;
            }
            runner.take(world.take());
            const auto batch = store->batch(batch_);
            if (batch.ok() && store::is_over(batch->status)) {
                completed_ = batch->completed;
                failed_ = batch->failed;
                if (!batch->error_file.empty()) errors_ = *store->content(batch->error_file);
                return false;
            }
        }
        ADD_FAILURE() << "the batch does not end";
        return false;
    }

    TempFolder folder_;
    std::string batch_;
    std::vector<std::set<std::int64_t>> died_with_;
    std::int64_t completed_ = 0;
    std::int64_t failed_ = 0;
    std::string errors_;
};

TEST_F(BatchRunnerTest, ALineThatKillsTheServerEndsWithAnErrorAfterTheThirdDeath) {
    int deaths = 0;
    while (deaths < 10 && live({6})) ++deaths;
    EXPECT_EQ(deaths, 3);
    ASSERT_EQ(died_with_.size(), 3U);
    EXPECT_EQ(died_with_.back(), (std::set<std::int64_t>{6}));  // nobody else is to blame
    EXPECT_EQ(completed_, kLines - 1);
    EXPECT_EQ(failed_, 1);
    EXPECT_THAT(errors_, HasSubstr("id-6"));
    EXPECT_THAT(errors_, HasSubstr("died three times"));
    EXPECT_THAT(errors_, HasSubstr("request_kills_workers"));
}

TEST_F(BatchRunnerTest, TwoSuchLinesCostThreeDeathsEachAtMost) {
    int deaths = 0;
    while (deaths < 20 && live({6, 7})) ++deaths;
    EXPECT_LE(deaths, 6);
    EXPECT_EQ(completed_, kLines - 2);
    EXPECT_EQ(failed_, 2);
}

TEST_F(BatchRunnerTest, AServerThatIsStoppedInGoodOrderAnyNumberOfTimesBlamesNobody) {
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(live({6}, true));
    EXPECT_FALSE(live({}));
    EXPECT_EQ(completed_, kLines);
    EXPECT_EQ(failed_, 0);
}

TEST_F(BatchRunnerTest, WhatWorkersDiedOfIsNotTriedAgain) {
    const auto store = open();
    Answers world;
    BatchRunner runner(*store, world, BatchLimits{}, kLines);
    for (int i = 0; i < 10 && world.sent.empty(); ++i) runner.advance();
    ASSERT_EQ(world.sent.size(), static_cast<std::size_t>(kLines));
    std::vector<LineAnswer> answers = world.take();
    answers.front().status = 500;
    answers.front().body = error_json(kills_workers_error("three workers died"));
    runner.take(std::move(answers));
    for (int i = 0; i < 5; ++i) runner.advance();
    const auto batch = store->batch(batch_);
    ASSERT_TRUE(batch.ok());
    EXPECT_EQ(batch->status, store::BatchStatus::completed);
    EXPECT_EQ(batch->failed, 1);
}

}  // namespace
}  // namespace helix::api::batch_runner_test

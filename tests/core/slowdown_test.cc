#include "core/coordinator/slowdown.h"

#include <gtest/gtest.h>

namespace helix::core::slowdown_test {
namespace {

// A worker of four layers that reports every second, half of it busy with batches of some rows.
class SlowdownTest : public ::testing::Test {
  protected:
    SlowdownTest() {
        node_.decode_s_per_layer = 1e-3;
        node_.decode_batch_s_per_layer = 2e-3;
        node_.prefill_s_per_token_layer = 1e-4;
    }
    // Runs batches of this many rows that take batch_s each. Returns how often the verdict changed.
    int work(int seconds, std::int64_t rows, double batch_s) {
        int changes = 0;
        for (int i = 0; i < seconds; ++i) {
            now_ = now_ + base::from_seconds(1);
            report_.batches += 100;
            report_.rows += 100 * rows;
            report_.busy_ns += static_cast<std::int64_t>(100 * batch_s * 1e9);
            changes += watch_.observe(now_, report_, node_, 4, config_) ? 1 : 0;
        }
        return changes;
    }

    spec::NodeSpec node_;
    SlowdownConfig config_;
    SlowdownWatch watch_;
    WorkerReport report_;
    TimePoint now_;
};

TEST_F(SlowdownTest, SlowForLongIsSlowAndTheWayBackNeedsAsLong) {
    EXPECT_EQ(work(30, 1, 6e-3), 0) << "half as fast as it measured itself, as ever";
    EXPECT_EQ(work(9, 1, 18e-3), 0) << "not for long yet";
    EXPECT_EQ(watch_.factor(), 1);
    EXPECT_EQ(work(3, 1, 18e-3), 1);
    EXPECT_NEAR(watch_.factor(), 3, 0.1);
    EXPECT_EQ(work(60, 1, 18e-3), 0) << "that it is slow is no news";
    EXPECT_EQ(work(8, 1, 6e-3), 0);
    EXPECT_EQ(work(4, 1, 6e-3), 1);
    EXPECT_EQ(watch_.factor(), 1);
}

TEST_F(SlowdownTest, ShortSpellsAndLargerBatchesAreNotSlow) {
    work(30, 1, 4e-3);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(work(5, 1, 12e-3), 0);
        EXPECT_EQ(work(5, 1, 4e-3), 0);
    }
    EXPECT_EQ(work(30, 8, 8e-3), 0) << "eight rows take twice as long, as was measured";
    EXPECT_EQ(watch_.factor(), 1);
}

TEST_F(SlowdownTest, BetweenTheTwoBoundsNothingChanges) {
    work(30, 1, 4e-3);
    work(15, 1, 10e-3);
    ASSERT_GT(watch_.factor(), 1);
    EXPECT_EQ(work(60, 1, 7e-3), 0);
    EXPECT_GT(watch_.factor(), 1);
}

TEST_F(SlowdownTest, AnIdleWorkerOrOneWithoutMeasurementsIsNotJudged) {
    work(30, 1, 4e-3);
    EXPECT_EQ(work(60, 1, 1e-6), 0) << "too little to tell";
    node_.decode_s_per_layer = 0;
    EXPECT_EQ(work(60, 1, 40e-3), 0);
    EXPECT_EQ(watch_.factor(), 1);
}

}  // namespace
}  // namespace helix::core::slowdown_test

#include "plan/milp/milp_stop.h"

#include <gtest/gtest.h>

#include <limits>

namespace helix::plan::milp_stop_test {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kUnknown = std::numeric_limits<double>::infinity();

// All criteria off but what the test turns on; the clock is a number.
struct Fake {
    double now_s = 1000;
    MilpStopOptions options{.near_bound = 0,
                            .good_enough = 0,
                            .no_gain_s = 0,
                            .time_limit_s = 0,
                            .now_s = [this] { return now_s; },
                            .asked = {}};
};

TEST(MilpStop, NothingFiresWithAllCriteriaOff) {
    Fake fake;
    MilpWatch watch(fake.options, 100);
    EXPECT_FALSE(watch.stop(kNone, kUnknown));
    fake.now_s += 1e6;
    EXPECT_FALSE(watch.stop(100, 100));
    EXPECT_EQ(watch.reason(), MilpStop::finished);
}

TEST(MilpStop, NearTheBoundFiresAlone) {
    Fake fake;
    fake.options.near_bound = 0.995;
    MilpWatch watch(fake.options, 100);
    fake.now_s += 1e6;
    EXPECT_FALSE(watch.stop(99.4, kUnknown));
    EXPECT_TRUE(watch.stop(99.5, kUnknown));
    EXPECT_EQ(watch.reason(), MilpStop::near_bound);
    MilpWatch tighter(fake.options, 100);  // the solver has proven less to be possible
    EXPECT_TRUE(tighter.stop(80, 80.1));
}

TEST(MilpStop, NoGainFiresOnlyWhenGoodEnoughAndLongEnoughWithoutABetterOne) {
    Fake fake;
    fake.options.good_enough = 0.95;
    fake.options.no_gain_s = 100;
    MilpWatch watch(fake.options, 100);
    EXPECT_FALSE(watch.stop(94, kUnknown));
    fake.now_s += 500;
    EXPECT_FALSE(watch.stop(94, kUnknown));  // long enough, not good enough
    EXPECT_FALSE(watch.stop(95, kUnknown));
    fake.now_s += 99;
    EXPECT_FALSE(watch.stop(95, kUnknown));
    EXPECT_FALSE(watch.stop(96, kUnknown));  // a better one: the clock starts anew
    fake.now_s += 99;
    EXPECT_FALSE(watch.stop(96, kUnknown));
    fake.now_s += 1;
    EXPECT_TRUE(watch.stop(96, kUnknown));
    EXPECT_EQ(watch.reason(), MilpStop::no_gain);
    ASSERT_EQ(watch.incumbents().size(), 3U);
    EXPECT_EQ(watch.incumbents()[1].tokens_per_s, 95);
    EXPECT_EQ(watch.incumbents()[1].seconds, 500);
}

TEST(MilpStop, TheTimeLimitFiresWithoutASolutionToo) {
    Fake fake;
    fake.options.time_limit_s = 60;
    MilpWatch watch(fake.options, 100);
    fake.now_s += 59;
    EXPECT_FALSE(watch.stop(kNone, kUnknown));
    fake.now_s += 1;
    EXPECT_TRUE(watch.stop(kNone, kUnknown));
    EXPECT_EQ(watch.reason(), MilpStop::time_limit);
    EXPECT_TRUE(watch.incumbents().empty());
}

TEST(MilpStop, IdleFiresHoweverFarFromTheBoundAndWithoutASolutionToo) {
    Fake fake;
    fake.options.idle_s = 30;
    MilpWatch watch(fake.options, 100);
    fake.now_s += 29;
    EXPECT_FALSE(watch.stop(1, kUnknown));  // a first one
    fake.now_s += 29;
    EXPECT_FALSE(watch.stop(2, kUnknown));  // a better one: the clock starts anew
    fake.now_s += 29;
    EXPECT_FALSE(watch.stop(2, kUnknown));
    fake.now_s += 1;
    EXPECT_TRUE(watch.stop(2, kUnknown));
    EXPECT_EQ(watch.reason(), MilpStop::idle);
    MilpWatch nothing(fake.options, 100);
    fake.now_s += 30;
    EXPECT_TRUE(nothing.stop(kNone, kUnknown));
    EXPECT_EQ(nothing.reason(), MilpStop::idle);
}

TEST(MilpStop, TheCallersReasonComesFirstAndStays) {
    Fake fake;
    bool asked = false;
    fake.options.asked = [&] { return asked; };
    fake.options.near_bound = 0.5;
    MilpWatch watch(fake.options, 100);
    EXPECT_FALSE(watch.stop(10, kUnknown));
    asked = true;
    EXPECT_TRUE(watch.stop(99, kUnknown));
    asked = false;
    EXPECT_TRUE(watch.stop(99, kUnknown));
    EXPECT_EQ(watch.reason(), MilpStop::asked);
}

}  // namespace
}  // namespace helix::plan::milp_stop_test

#include "base/log_budget.h"

#include <gtest/gtest.h>

namespace helix::base::log_budget_test {
namespace {

TimePoint at(double seconds) {
    return TimePoint{} + from_seconds(seconds);
}

TEST(LogBudget, SoManyLinesAMinuteAndThenOneThatCountsTheRest) {
    LogBudget budget(3);
    int written = 0;
    for (int i = 0; i < 1237; ++i) written += budget.take(at(100 + i * 0.01)) ? 1 : 0;
    EXPECT_EQ(written, 3);
    EXPECT_EQ(budget.take_summary(at(159)), "") << "the minute is not over";
    EXPECT_EQ(budget.take_summary(at(160)), "and 1,234 more in the last minute");
    EXPECT_EQ(budget.take_summary(at(161)), "");
    EXPECT_TRUE(budget.take(at(162)));
}

TEST(LogBudget, WhoStaysBelowItIsNeverSummedUp) {
    LogBudget budget(2);
    for (int minute = 0; minute < 5; ++minute) {
        EXPECT_TRUE(budget.take(at(minute * 60)));
        EXPECT_TRUE(budget.take(at(minute * 60 + 1)));
        EXPECT_EQ(budget.take_summary(at(minute * 60 + 2)), "");
    }
}

}  // namespace
}  // namespace helix::base::log_budget_test

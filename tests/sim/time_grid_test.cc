#include "sim/report/time_grid.h"

#include <gtest/gtest.h>

#include <numeric>

namespace helix::sim::time_grid_test {
namespace {

base::TimePoint at(double s) {
    return {base::from_seconds(s).ns};
}

TEST(TimeGrid, SpreadsAnAmountOverItsTime) {
    TimeGrid grid(TimeGrid::Fold::sum, 8, at(0));
    const std::size_t row = grid.add_row();
    ASSERT_EQ(grid.width(), base::from_ms(10));
    grid.add(row, at(0.005), at(0.035), 3);
    EXPECT_DOUBLE_EQ(grid.at(row, 0), 0.5);
    EXPECT_DOUBLE_EQ(grid.at(row, 1), 1);
    EXPECT_DOUBLE_EQ(grid.at(row, 2), 1);
    EXPECT_DOUBLE_EQ(grid.at(row, 3), 0.5);
    grid.add(row, at(0.02), at(0.02), 7);
    EXPECT_DOUBLE_EQ(grid.at(row, 2), 8);
}

TEST(TimeGrid, DoublesItsWidthWhenTimeRunsOnAndKeepsTheSum) {
    TimeGrid grid(TimeGrid::Fold::sum, 8, at(0));
    const std::size_t a = grid.add_row();
    const std::size_t b = grid.add_row();
    for (int i = 0; i < 8; ++i) grid.add(a, at(0.01 * i), at(0.01 * i + 0.01), i);
    grid.add(b, at(0.9), at(1.1), 10);
    EXPECT_EQ(grid.width(), base::from_ms(160));
    double sum = 0;
    for (std::size_t i = 0; i < 8; ++i) sum += grid.at(a, i);
    EXPECT_DOUBLE_EQ(sum, 28);
    EXPECT_DOUBLE_EQ(grid.at(a, 0), 28);
    EXPECT_NEAR(grid.at(b, 5), 10 * 0.06 / 0.2, 1e-12);
    EXPECT_NEAR(grid.at(b, 6), 10 * 0.14 / 0.2, 1e-12);
}

TEST(TimeGrid, RatesOfACutBucketAreOverWhatThereIs) {
    TimeGrid grid(TimeGrid::Fold::sum, 8, at(0));
    const std::size_t row = grid.add_row();
    grid.add(row, at(0), at(0.015), 0.015);
    EXPECT_EQ(grid.per_second(row, at(0.015)), (std::vector<double>{1, 1}));
}

TEST(TimeGrid, LeavesOutWhatLiesBeforeTheOrigin) {
    TimeGrid grid(TimeGrid::Fold::sum, 8, at(1));
    const std::size_t row = grid.add_row();
    grid.add(row, at(0.1), at(0.2), 5);
    grid.add(row, at(0.99), at(1.01), 2);
    EXPECT_EQ(grid.per_second(row, at(1.01)), (std::vector<double>{100}));
    EXPECT_EQ(grid.begin_of(1), at(1.01));
}

TEST(TimeGrid, HighestKeepsTheHighestOfAllJoinedBuckets) {
    TimeGrid grid(TimeGrid::Fold::highest, 4, at(0));
    const std::size_t row = grid.add_row();
    grid.add(row, at(0), at(0.02), 3);
    grid.add(row, at(0.01), at(0.015), 5);
    grid.add(row, at(0.02), at(0.08), 2);
    EXPECT_EQ(grid.width(), base::from_ms(20));
    EXPECT_EQ(grid.at(row, 0), 5);
    EXPECT_EQ(grid.at(row, 1), 2);
    EXPECT_EQ(grid.at(row, 3), 2);
}

TEST(TimeGrid, StepValueIsHeldUntilItIsSetAgain) {
    TimeGrid grid(TimeGrid::Fold::sum, 8, at(0));
    const std::size_t row = grid.add_row();
    StepValue steps;
    steps.set(at(0.01), 4, grid, row);
    steps.set(at(0.03), 1, grid, row);
    steps.set(at(0.04), 0, grid, row);
    const std::vector<double> rates = grid.per_second(row, at(0.05));
    EXPECT_NEAR(rates[0], 0, 1e-12);
    EXPECT_NEAR(rates[1], 4, 1e-12);
    EXPECT_NEAR(rates[2], 4, 1e-12);
    EXPECT_NEAR(rates[3], 1, 1e-12);
    EXPECT_NEAR(rates[4], 0, 1e-12);
}

}  // namespace
}  // namespace helix::sim::time_grid_test

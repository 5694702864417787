#include "plan/search/look_time.h"

#include <gtest/gtest.h>

namespace helix::plan::look_time_test {
namespace {

TEST(LookTime, LastLooksTakeTurns) {
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 1, 1), 7) << "420 s of the simulated clock, not 180 s";
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 4, 1), 28);
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 4, 2), 14);
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 4, 3), 14) << "three, and then one";
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 4, 16), 7);
    EXPECT_DOUBLE_EQ(time_of_last_looks(3, 0, 2), 0);
    EXPECT_DOUBLE_EQ(time_of_last_looks(0, 4, 2), 0);
}

}  // namespace
}  // namespace helix::plan::look_time_test

#include "base/split.h"

#include <gtest/gtest.h>

namespace helix::base::split_test {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Split, EveryMarkIsBetweenTwoParts) {
    EXPECT_EQ(split("", ','), Parts{""});
    EXPECT_EQ(split("a", ','), Parts{"a"});
    EXPECT_EQ(split("a,bc,d+e", ','), (Parts{"a", "bc", "d+e"}));
    EXPECT_EQ(split(",a,,", ','), (Parts{"", "a", "", ""}));
    EXPECT_EQ(split("d+e", '+'), (Parts{"d", "e"}));
}

}  // namespace
}  // namespace helix::base::split_test

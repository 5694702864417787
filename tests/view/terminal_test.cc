#include "view/draw/terminal.h"

#include <gtest/gtest.h>

#include <string>

namespace helix::view::terminal_test {
namespace {

TEST(Terminal, NamesAreFilledOrCutInTheMiddle) {
    EXPECT_EQ(fitted("den", 5), "den  ");
    EXPECT_EQ(fitted("très-long-name", 8), "trè…name");
    EXPECT_EQ(fitted("a\x1b[2J", 5), "a?[2J");
}

TEST(Terminal, LongTextIsBrokenAtSpaces) {
    const std::string word(60, 'x');
    EXPECT_EQ(wrapped(word + " " + word), word + "\n  " + word);
    EXPECT_EQ(wrapped("a b"), "a b");
    EXPECT_EQ(wrapped(std::string(120, 'y')), std::string(120, 'y'));
}

TEST(Terminal, AStripShowsHalfColumns) {
    const StripScale scale{.columns = 4, .length = 8};
    EXPECT_EQ(range_strip(scale, 0, 8, false), "████");
    EXPECT_EQ(range_strip(scale, 1, 5, false), "▐█▌·");
    EXPECT_EQ(range_strip(scale, 3, 3, false), "····");
    EXPECT_EQ(range_strip(scale, 2, 4, true), "·\x1b[36m█\x1b[0m··");
}

}  // namespace
}  // namespace helix::view::terminal_test

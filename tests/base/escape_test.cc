#include "base/escape.h"

#include <gtest/gtest.h>

namespace helix::base::escape_test {
namespace {

TEST(Escape, TextThatCanOnlyBeReadStaysAsItIs) {
    EXPECT_EQ(escaped("RTX 4090 \"left\" Zürich 東京 🙂 \\"),
              "RTX 4090 \"left\" Zürich 東京 🙂 \\");
    EXPECT_EQ(escaped(""), "");
}

TEST(Escape, WhatWouldMoveTheCursorOrBeginALineIsWrittenOut) {
    EXPECT_EQ(escaped("a\x1b[2Jb"), "a\\x1b[2Jb");
    EXPECT_EQ(escaped("a\nWARN b\r\t"), "a\\nWARN b\\r\\t");
    EXPECT_EQ(escaped_lines("a\nb\r"), "a\nb\\r");
    EXPECT_EQ(escaped(std::string("a\0b", 3)), "a\\x00b");
    EXPECT_EQ(escaped("\x7f\xc2\x9b"), "\\x7f\\xc2\\x9b");          // DEL, and CSI as one character
    EXPECT_EQ(escaped("\xe2\x80\xae txt"), "\\xe2\\x80\\xae txt");  // writes from right to left
}

TEST(Escape, BytesThatAreNoTextAreWrittenOut) {
    EXPECT_EQ(escaped("\xff"), "\\xff");
    EXPECT_EQ(escaped("\xc3"), "\\xc3");                    // cut off
    EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");           // not the shortest form
    EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
    EXPECT_EQ(escaped("\xe2\x28z"), "\\xe2(z");
}

TEST(Escape, MarkupStaysTextInContentAndInAttributes) {
    EXPECT_EQ(escaped_markup("<a href=\"b\">'c' & d</a>"),
              "&lt;a href=&#34;b&#34;&gt;&#39;c&#39; &amp; d&lt;/a&gt;");
    EXPECT_EQ(escaped_markup("très\n"), "très\n");
}

}  // namespace
}  // namespace helix::base::escape_test

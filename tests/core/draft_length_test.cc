#include "core/coordinator/draft_length.h"

#include <gtest/gtest.h>

namespace helix::core::draft_length_test {
namespace {

TEST(DraftLength, BeginsWithAFewAndGrowsWhileDraftsAreRight) {
    DraftLength length;
    EXPECT_EQ(length.next(16), 4);
    EXPECT_EQ(length.next(2), 2);
    EXPECT_EQ(length.next(0), 0);
    for (int i = 0; i < 3; ++i) length.note(4, 4);
    EXPECT_GT(length.next(100), 10);
    EXPECT_EQ(length.next(8), 8);
}

TEST(DraftLength, OnlyDraftsThatWerePutToTheTestCount) {
    DraftLength one;
    DraftLength many;
    one.note(1, 0);
    many.note(10, 0);
    EXPECT_EQ(one.rate(), many.rate()) << "after the first wrong one the others say nothing";
}

TEST(DraftLength, WhenDraftsAreWrongItStopsAndTriesAgainNowAndThen) {
    DraftLength length;
    int sent = 0;
    while (length.next(8) > 0) {
        length.note(8, 0);
        ASSERT_LT(++sent, 20);
    }
    int tried = 0;
    for (int step = 1; step < 160; ++step) {
        const std::int32_t count = length.next(8);
        ASSERT_LE(count, 1);
        if (count == 1) length.note(1, 0);
        tried += count;
    }
    EXPECT_EQ(tried, 10) << "one in sixteen steps";
    // The text becomes easy.
    int steps = 0;
    while (length.next(8) < 8) {
        length.note(1, 1);
        ASSERT_LT(++steps, 200);
    }
}

}  // namespace
}  // namespace helix::core::draft_length_test

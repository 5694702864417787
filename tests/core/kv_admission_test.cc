#include "core/kv/admission.h"

#include <gtest/gtest.h>

namespace helix::core::kv_admission_test {
namespace {

TEST(KvAdmission, TheWatermarkIsAHundredthRoundedDown) {
    EXPECT_EQ(kv_watermark(99), 0);
    EXPECT_EQ(kv_watermark(100), 1);
    EXPECT_EQ(kv_watermark(1999), 19);
}

TEST(KvAdmission, ANewSequenceLeavesTheWatermarkFree) {
    struct Case {
        std::int64_t needed, free, total;
        KvRoom room;
    };
    const Case cases[] = {
        {990, 1000, 1000, KvRoom::ok},   {991, 1000, 1000, KvRoom::never},
        {90, 100, 1000, KvRoom::ok},     {91, 100, 1000, KvRoom::later},
        {990, 999, 1000, KvRoom::later}, {1, 0, 1000, KvRoom::later},
        {1, 11, 1000, KvRoom::ok},       {2, 11, 1000, KvRoom::later},
        {40, 40, 40, KvRoom::ok},  // below 100 pages nothing is kept
        {41, 40, 40, KvRoom::never},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(can_allocate(c.needed, c.free, c.total), c.room)
            << c.needed << " of " << c.free << " free of " << c.total;
    }
}

TEST(KvAdmission, ARunningSequenceMayTakeTheLastPage) {
    EXPECT_TRUE(can_append(3, 3));
    EXPECT_FALSE(can_append(4, 3));
    EXPECT_TRUE(can_append(0, 0));
}

TEST(KvAdmission, SwappingOutNeedsASlotForEachPage) {
    EXPECT_TRUE(can_swap_out(8, 8));
    EXPECT_FALSE(can_swap_out(9, 8));
}

TEST(KvAdmission, SwappingInLeavesTheWatermarkAndANextBlockForEach) {
    EXPECT_TRUE(can_swap_in(80, 10, 100, 1000));
    EXPECT_FALSE(can_swap_in(81, 10, 100, 1000));
    EXPECT_FALSE(can_swap_in(80, 11, 100, 1000));
    // When nothing else has pages, what went out comes in again.
    EXPECT_TRUE(can_swap_in(1000, 10, 1000, 1000));
    EXPECT_FALSE(can_swap_in(1000, 10, 999, 1000));
}

}  // namespace
}  // namespace helix::core::kv_admission_test

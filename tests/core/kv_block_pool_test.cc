#include "base/effort.h"
#include "core/kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "core/kv/block_table.h"
#include "core/kv/kv_estimate.h"

namespace helix::core::kv_block_pool_test {
namespace {

TEST(KvBlockPool, TakesNothingWhenTooFewAreFree) {
    KvBlockPool pool(3);
    std::vector<PageId> pages;
    EXPECT_FALSE(pool.allocate(4, pages));
    EXPECT_TRUE(pages.empty());
    EXPECT_TRUE(pool.allocate(3, pages));
    EXPECT_EQ(pool.free_pages(), 0);
    pool.release(pages);
    EXPECT_EQ(pool.free_pages(), 3);
}

TEST(KvBlockPoolDeathTest, FreeingAPageTwiceAborts) {
    KvBlockPool pool(2);
    std::vector<PageId> pages;
    ASSERT_TRUE(pool.allocate(1, pages));
    pool.release(pages);
    EXPECT_DEATH(pool.release(pages), "CHECK failed");
}

bool grow(BlockTable& table, std::int64_t tokens, KvBlockPool& pool) {
    std::vector<PageCopy> copies;
    if (table.pages_to_write(0, tokens, pool) > pool.free_pages()) return false;
    table.make_writable(0, tokens, pool, copies);
    return copies.empty();
}

TEST(BlockTable, ThreeOfEightLayersTakeThreeEighths) {
    KvBlockPool pool(800);
    BlockTable all({0, 8}, 16);
    BlockTable three({2, 5}, 16);
    ASSERT_TRUE(grow(all, 160, pool));
    EXPECT_EQ(pool.used(), 80);
    ASSERT_TRUE(grow(three, 160, pool));
    EXPECT_EQ(pool.used(), 110);
    all.release_all(pool);
    three.release_all(pool);
    EXPECT_EQ(pool.used(), 0);
}

TEST(BlockTable, WastesLessThanOneBlockPerLayer) {
    KvBlockPool pool(1000);
    BlockTable table({0, 4}, 16);
    for (std::int64_t tokens = 1; tokens <= 200; ++tokens) {
        ASSERT_TRUE(grow(table, tokens, pool));
        EXPECT_EQ(table.page_count(), 4 * ((tokens + 15) / 16));
        EXPECT_EQ(table.pages_to_hold(tokens), 0);
    }
    EXPECT_EQ(table.flatten(17).size(), 8U);
}

TEST(BlockTable, PagesThatNobodyAsksForAreOnlyCounted) {
    KvBlockPool pool(100);
    BlockTable table({0, 4}, 16, false);
    ASSERT_TRUE(grow(table, 40, pool));
    EXPECT_EQ(pool.used(), 12);
    EXPECT_EQ(pool.unnamed(), 12);
    EXPECT_EQ(pool.untouched(), 0U);
    EXPECT_EQ(table.page_count(), 12);
    table.release_all(pool);
    EXPECT_EQ(pool.used(), 0);
    EXPECT_EQ(table.page_count(), 0);
}

TEST(BlockTable, PagesAreNamedBeforeTheyAreShared) {
    KvBlockPool pool(20);
    BlockTable parent({0, 4}, 16, false);
    ASSERT_TRUE(grow(parent, 40, pool));
    BlockTable child = parent.fork(20, pool);
    EXPECT_EQ(pool.used(), 12);
    EXPECT_EQ(pool.unnamed(), 0);
    ASSERT_EQ(child.pages().size(), 8U);
    EXPECT_EQ(pool.references(child.pages().front()), 2U);
    std::vector<PageCopy> copies;
    child.make_writable(20, 21, pool, copies);
    EXPECT_EQ(copies.size(), 4U);
    parent.make_writable(40, 64, pool, copies);  // all the memory there is
    EXPECT_EQ(copies.size(), 4U);
    EXPECT_EQ(parent.pages().size(), 16U);
    EXPECT_EQ(pool.free_pages(), 0);
    parent.release_all(pool);
    child.release_all(pool);
    EXPECT_EQ(pool.used(), 0);
}

TEST(BlockTable, RandomGrowthAndReleaseKeepsPagesDisjoint) {
    base::Random random(11);
    KvBlockPool pool(500);
    std::vector<BlockTable> tables(8, BlockTable({0, 3}, 4));
    std::vector<std::int64_t> lengths(8, 0);
    for (int step = 0; step < (kSanitized ? 3000 : 20000); ++step) {
        const auto i = static_cast<std::size_t>(random.below(8));
        if (random.chance(0.05)) {
            tables[i].release_all(pool);
            lengths[i] = 0;
        } else {
            const std::int64_t wanted = lengths[i] + random.between(1, 5);
            const bool fits = tables[i].pages_to_hold(wanted) <= pool.free_pages();
            ASSERT_EQ(grow(tables[i], wanted, pool), fits);
            if (fits) lengths[i] = wanted;
        }
        std::set<PageId> seen;
        std::int64_t pages = 0;
        for (const BlockTable& table : tables) {
            seen.insert(table.pages().begin(), table.pages().end());
            pages += table.page_count();
        }
        ASSERT_EQ(static_cast<std::int64_t>(seen.size()), pages);
        ASSERT_EQ(pool.used(), pages);
    }
}

TEST(KvEstimate, HighWaterMarkAndReportsBound) {
    KvEstimate kv;
    kv.reset(100);
    EXPECT_TRUE(kv.can_add(100, 0.9));  // nobody there: whatever fits
    EXPECT_FALSE(kv.can_add(101, 0.9));
    kv.add({1}, 50);
    EXPECT_TRUE(kv.can_add(40, 0.9));
    EXPECT_FALSE(kv.can_add(41, 0.9));
    kv.set_reported(70);  // the worker knows better
    EXPECT_FALSE(kv.can_add(21, 0.9));
    EXPECT_TRUE(kv.can_add(20, 0.9));
    kv.remove({1});
    EXPECT_EQ(kv.used(), 0);
}

TEST(KvEstimate, ManyRequestsFillMoreThanAFew) {
    KvEstimate kv;
    kv.reset(10'000);
    for (std::uint64_t id = 1; id <= 100; ++id) kv.add({id}, 90);
    EXPECT_TRUE(kv.can_add(300, 0.9)) << "1 - 0.7 / sqrt 100 = 0.93";
    EXPECT_FALSE(kv.can_add(301, 0.9));
    for (std::uint64_t id = 1; id <= 80; ++id) kv.set({id}, 0);  // swapped ones say nothing
    EXPECT_EQ(kv.most_pages(0.9), 9000);
    EXPECT_EQ(kv.most_pages(1), 10'000);
}

}  // namespace
}  // namespace helix::core::kv_block_pool_test

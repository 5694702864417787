// Blocks that are kept for later sequences.

#include "core/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include "core/kv/block_hash.h"
#include "core/worker_driver.h"

namespace helix::core::prefix_cache_test {
namespace {

base::Hash128 hash(std::uint64_t n) {
    return {n, 0};
}

class PrefixCacheTest : public ::testing::Test {
  protected:
    // A block of two pages that somebody uses.
    std::vector<PageId> block() {
        std::vector<PageId> pages;
        EXPECT_TRUE(pool_.allocate(2, pages));
        return pages;
    }
    void use(const std::vector<PageId>& pages) {
        for (const PageId page : pages) pool_.acquire(page);
    }
    void end(const std::vector<PageId>& pages) {
        pool_.release(pages);
        cache_.note_idle(pool_);
    }

    KvBlockPool pool_{8};
    PrefixCache cache_;
};

TEST_F(PrefixCacheTest, TheHashTellsLayersOrderAndCutsApart) {
    const std::vector<Token> a{1, 2, 3, 4};
    const std::vector<Token> b{5, 6, 7, 8};
    const auto chain = [](LayerRange layers, const std::vector<std::vector<Token>>& blocks) {
        base::Hash128 hash = PrefixCache::root(layers);
        for (const auto& tokens : blocks) hash = block_hash(hash, tokens);
        return hash;
    };
    EXPECT_EQ(chain({0, 2}, {a, b}), chain({0, 2}, {a, b}));
    EXPECT_NE(chain({0, 2}, {a, b}), chain({0, 2}, {b, a}));
    EXPECT_NE(chain({0, 2}, {a, b}), chain({0, 3}, {a, b}));
    EXPECT_NE(chain({0, 2}, {a, b}), chain({0, 2}, {b}));
    EXPECT_NE(chain({0, 2}, {a}), chain({0, 2}, {a, a}));
}

TEST_F(PrefixCacheTest, KeptPagesThatNobodyUsesCountAsFree) {
    const auto pages = block();
    cache_.add(hash(1), 0, pages, pool_);
    EXPECT_EQ(pool_.used(), 2);
    EXPECT_EQ(pool_.cached_only(), 0);
    end(pages);
    EXPECT_EQ(pool_.used(), 0);
    EXPECT_EQ(pool_.free_pages(), 8);
    EXPECT_EQ(pool_.unused(), 6);
    EXPECT_EQ(pool_.cached_only(), 2);
    ASSERT_NE(cache_.find(hash(1)), nullptr);
    use(*cache_.find(hash(1)));
    EXPECT_EQ(pool_.used(), 2);
    EXPECT_EQ(pool_.cached_only(), 0);
}

TEST_F(PrefixCacheTest, OfEqualBlocksTheFirstStays) {
    const auto first = block();
    const auto second = block();
    cache_.add(hash(1), 0, first, pool_);
    cache_.add(hash(1), 0, second, pool_);
    EXPECT_EQ(*cache_.find(hash(1)), first);
    end(second);
    EXPECT_EQ(pool_.unused(), 6);
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedGoesFirstAndASuffixBeforeItsPrefix) {
    const auto old = block();
    const auto head = block();
    const auto tail = block();
    cache_.add(hash(1), 0, head, pool_);
    cache_.add(hash(2), 1, tail, pool_);
    cache_.add(hash(3), 0, old, pool_);
    end(old);
    pool_.release(head);
    end(tail);
    cache_.make_room(2, pool_);
    EXPECT_EQ(cache_.size(), 3U) << "there was room";
    cache_.make_room(4, pool_);
    EXPECT_EQ(cache_.find(hash(3)), nullptr);
    cache_.make_room(5, pool_);
    EXPECT_EQ(cache_.find(hash(2)), nullptr);
    EXPECT_NE(cache_.find(hash(1)), nullptr);
    cache_.make_room(8, pool_);
    EXPECT_EQ(cache_.size(), 0U);
    EXPECT_EQ(pool_.unused(), 8);
}

TEST_F(PrefixCacheTest, WhatIsInUseAgainStaysAndIsTheLatestUsedAfterwards) {
    const auto a = block();
    const auto b = block();
    cache_.add(hash(1), 0, a, pool_);
    cache_.add(hash(2), 0, b, pool_);
    end(a);
    end(b);
    use(a);
    cache_.make_room(6, pool_);
    EXPECT_NE(cache_.find(hash(1)), nullptr);
    EXPECT_EQ(cache_.find(hash(2)), nullptr);
    const auto c = block();
    cache_.add(hash(3), 0, c, pool_);
    end(c);
    end(a);
    cache_.make_room(6, pool_);
    EXPECT_EQ(cache_.find(hash(3)), nullptr);
    EXPECT_NE(cache_.find(hash(1)), nullptr);
}

// ---- on a worker: 2 layers, blocks of 4
// ---------------------------------------------------------

using Driver = WorkerDriver;

Driver with_cache(std::int64_t pages, std::int64_t swap_pages = 0) {
    WorkerConfig config = Driver::small();
    config.prefix_cache = true;
    return Driver(pages, swap_pages, config);
}

TEST(WorkerPrefix, ASequenceThatBeginsAsAnEarlierOneStartsBehindTheirCommonBlocks) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5, 6, 7, 8, 9}));
    worker.say(FreeSequences{{Driver::key(1)}});
    const WorkerReport idle = worker.report();
    EXPECT_EQ(idle.used_pages, 0);
    EXPECT_EQ(idle.cached_pages, 4);
    EXPECT_EQ(held_when_idle(worker.worker()), "");
    worker.say(StageInputs{{worker.start(Driver::key(2), {9, 9}, {1, 2, 3, 4, 5, 6, 7, 8})}});
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_EQ(worker.plan().chunks[0].first_position, 8);
    EXPECT_EQ(worker.plan().chunks[0].tokens.size(), 2U);
    EXPECT_TRUE(worker.plan().copies.empty());
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 6);
    EXPECT_EQ(worker.report().cached_pages, 0);
}

TEST(WorkerPrefix, TheOwnerMayStillRun) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5}));
    worker.run(worker.start(Driver::key(2), {6}, {1, 2, 3, 4}));
    EXPECT_EQ(worker.report().used_pages, 6);
    worker.run(Driver::rows(Driver::key(1), 5, {6}));
    EXPECT_EQ(worker.report().used_pages, 6) << "full blocks are never written: nothing is copied";
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(worker.report().used_pages, 4);
}

TEST(WorkerPrefix, WhatIsNotKeptIsSaidAndNothingBegins) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5, 6, 7}));
    worker.say(StageInputs{{worker.start(Driver::key(2), {9}, {1, 2, 3, 4, 5, 6, 7, 8})}});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].key, Driver::key(2));
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::prefix_lost);
    EXPECT_EQ(worker.stuck()[0].reason, "the KV of the first 8 tokens is not kept here");
    EXPECT_EQ(worker.report().held, (std::vector<SequenceKey>{Driver::key(1)}));
    Driver without(40);
    without.run(without.start(Driver::key(1), {1, 2, 3, 4, 5}));
    without.say(StageInputs{{without.start(Driver::key(2), {9}, {1, 2, 3, 4})}});
    EXPECT_EQ(without.stuck().at(0).cause, StuckCause::prefix_lost);
}

TEST(WorkerPrefix, KeptPagesGiveWayToSequencesAndAreThenLost) {
    Driver worker = with_cache(8);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5, 6, 7, 8}));
    worker.say(FreeSequences{{Driver::key(1)}});
    worker.run(worker.start(Driver::key(2), {9, 9, 9, 9, 9, 9}));
    EXPECT_EQ(worker.report().cached_pages, 4);
    worker.run(worker.start(Driver::key(3), {8, 8}));
    EXPECT_EQ(worker.report().cached_pages, 2) << "the second block of the first is gone";
    worker.say(StageInputs{{worker.start(Driver::key(4), {9}, {1, 2, 3, 4, 5, 6, 7, 8})}});
    EXPECT_EQ(worker.stuck().at(0).cause, StuckCause::prefix_lost);
    worker.say(StageInputs{{worker.start(Driver::key(5), {9}, {1, 2, 3, 4})}});
    EXPECT_EQ(worker.plan().id, 0U) << "the block is there, but no page for the next";
    EXPECT_EQ(worker.stuck().at(0).cause, StuckCause::out_of_pages);
}

TEST(WorkerPrefix, DraftsAreKeptOnlyWhenTheyWereRight) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2}));
    StageInput rows = Driver::rows(Driver::key(1), 2, {3, 4});
    rows.drafts = 1;
    worker.run(rows);
    worker.say(StageInputs{{worker.start(Driver::key(2), {9}, {1, 2, 3, 4})}});
    EXPECT_EQ(worker.stuck().at(0).cause, StuckCause::prefix_lost);
    worker.run(Driver::rows(Driver::key(1), 3, {7}));
    worker.say(StageInputs{{worker.start(Driver::key(3), {9}, {1, 2, 3, 4})}});
    EXPECT_EQ(worker.stuck().at(0).cause, StuckCause::prefix_lost);
    worker.say(StageInputs{{worker.start(Driver::key(4), {9}, {1, 2, 3, 7})}});
    EXPECT_TRUE(worker.stuck().empty());
}

TEST(WorkerPrefix, ForksKeepTheirOwnBlocks) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5, 6}));
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.run(Driver::rows(Driver::key(1), 6, {7, 8}));
    worker.run(Driver::rows(Driver::key(1, 1), 6, {7, 9}, 0));
    worker.say(FreeSequences{{Driver::key(1), Driver::key(1, 1)}});
    EXPECT_EQ(worker.report().cached_pages, 6);
    worker.run(worker.start(Driver::key(2), {5}, {1, 2, 3, 4, 5, 6, 7, 8}));
    worker.run(worker.start(Driver::key(3), {5}, {1, 2, 3, 4, 5, 6, 7, 9}));
    EXPECT_EQ(worker.report().used_pages, 10);
}

TEST(WorkerPrefix, WhatIsSwappedOutLeavesItsKeptBlocksBehind) {
    Driver worker = with_cache(40, 40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5}));
    worker.say(SwapSequences{true, {Driver::key(1)}});
    worker.finish();
    EXPECT_EQ(worker.report().cached_pages, 2);
    worker.run(worker.start(Driver::key(2), {9}, {1, 2, 3, 4}));
    worker.say(SwapSequences{false, {Driver::key(1)}});
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 8);
}

TEST(WorkerPrefix, OtherLayersDropWhatWasKept) {
    Driver worker = with_cache(40);
    worker.run(worker.start(Driver::key(1), {1, 2, 3, 4, 5}));
    worker.say(AssignLayers{2, {0, 1}, 1, {}});
    worker.step(LayersLoaded{2, 40});
    worker.say(AssignLayers{3, {0, 2}, 1, {}});
    worker.step(LayersLoaded{3, 40});
    EXPECT_EQ(worker.report().cached_pages, 0);
    worker.say(StageInputs{{worker.start(Driver::key(2), {9}, {1, 2, 3, 4})}});
    EXPECT_EQ(worker.stuck().at(0).cause, StuckCause::prefix_lost);
}

}  // namespace
}  // namespace helix::core::prefix_cache_test

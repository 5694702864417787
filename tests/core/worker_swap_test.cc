// Sequences in host memory. 2 layers, blocks of 4 tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/worker_driver.h"

namespace helix::core::worker_swap_test {
namespace {

using Driver = WorkerDriver;

RowTokens prompt(std::size_t n) {
    RowTokens tokens;
    tokens.assign(n, 5);
    return tokens;
}
SwapSequences out(std::vector<SequenceKey> keys) {
    return {true, std::move(keys)};
}
SwapSequences in(std::vector<SequenceKey> keys) {
    return {false, std::move(keys)};
}

TEST(WorkerSwap, OutItFreesItsPagesAndItsRowsWaitUntilItIsBack) {
    Driver worker(40, 10);
    EXPECT_EQ(worker.said<LayersReady>()[0].swap_pages, 10);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(out({Driver::key(1)}));
    EXPECT_EQ(worker.plan().swap_out.size(), 4U);
    EXPECT_TRUE(worker.plan().chunks.empty());
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 0);
    EXPECT_EQ(worker.report().swapped_pages, 4);
    EXPECT_EQ(worker.report().held.size(), 1U);
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 6, {1})}});
    EXPECT_EQ(worker.plan().id, 0U) << "its rows wait";
    worker.say(in({Driver::key(1)}));
    EXPECT_EQ(worker.plan().swap_in.size(), 4U);
    ASSERT_EQ(worker.plan().chunks.size(), 1U) << "in the batch that brings it back";
    worker.finish();
    EXPECT_EQ(worker.report().swapped_pages, 0);
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSwap, NothingNewBeginsInTheBatchThatSwapsOut) {
    Driver worker(4, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(StageInputs{{worker.start(Driver::key(2), prompt(1))}});
    EXPECT_EQ(worker.plan().id, 0U) << "no page";
    worker.say(out({Driver::key(1)}));
    EXPECT_EQ(worker.plan().swap_out.size(), 4U);
    EXPECT_TRUE(worker.plan().chunks.empty());
    worker.finish();
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_TRUE(worker.plan().swap_out.empty());
}

TEST(WorkerSwap, ARunningSequenceTakesThePagesInTheSameBatch) {
    Driver worker(6, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.run(worker.start(Driver::key(2), prompt(4)));
    worker.say(StageInputs{{Driver::rows(Driver::key(2), 4, {1})}});
    EXPECT_EQ(worker.plan().id, 0U);
    ASSERT_EQ(worker.stuck().size(), 1U);
    worker.say(out({Driver::key(1)}));
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    std::set<PageId> left;
    for (const PageSwap& swap : worker.plan().swap_out) left.insert(swap.page);
    EXPECT_TRUE(left.contains(worker.plan().chunks[0].pages[1]));
}

TEST(WorkerSwap, AGroupsSharedPagesMoveOnceAndStayShared) {
    Driver worker(40, 40);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(ForkSequences{Driver::key(1), 8, {1, 2}});
    for (std::uint32_t m = 0; m < 3; ++m) worker.run(Driver::rows(Driver::key(1, m), 8, {1}));
    EXPECT_EQ(worker.report().used_pages, 10);
    const std::vector<SequenceKey> group{Driver::key(1), Driver::key(1, 1), Driver::key(1, 2)};
    worker.say(out(group));
    EXPECT_EQ(worker.plan().swap_out.size(), 10U);
    worker.finish();
    EXPECT_EQ(worker.report().swapped_pages, 10);
    worker.say(in(group));
    EXPECT_EQ(worker.plan().swap_in.size(), 10U);
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 10);
    worker.say(FreeSequences{{group[0], group[2]}});
    EXPECT_EQ(worker.report().used_pages, 6);
}

TEST(WorkerSwap, PagesThatOthersUseStayForThem) {
    Driver worker(40, 40);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(ForkSequences{Driver::key(1), 8, {1}});
    worker.say(out({Driver::key(1, 1)}));
    EXPECT_EQ(worker.plan().swap_out.size(), 4U);
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 4);
    worker.say(in({Driver::key(1, 1)}));
    worker.finish();
    EXPECT_EQ(worker.report().used_pages, 8) << "a copy of its own now";
}

TEST(WorkerSwap, WithoutRoomInHostMemoryNothingChangesAndTheOthersGoOn) {
    Driver worker(40, 3);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(out({Driver::key(1)}));
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::no_swap_space);
    EXPECT_EQ(worker.stuck()[0].reason, "4 KV pages to swap out, room for 3 in host memory");
    EXPECT_EQ(worker.plan().id, 0U);
    worker.run(Driver::rows(Driver::key(1), 8, {1}));
    EXPECT_EQ(worker.report().used_pages, 6);
}

TEST(WorkerSwap, WhatRunsLeavesWhenItsBatchHasFinished) {
    Driver worker(40, 10);
    worker.say(StageInputs{{worker.start(Driver::key(1), prompt(6))}});
    worker.say(out({Driver::key(1)}));
    worker.say(in({Driver::key(1)}));
    worker.say(out({Driver::key(1)}));
    EXPECT_EQ(worker.report().swapped_pages, 0);
    worker.finish();
    EXPECT_EQ(worker.plan().swap_out.size(), 4U);
    worker.finish();
    EXPECT_EQ(worker.plan().id, 0U) << "the last word was out";
    EXPECT_EQ(worker.report().swapped_pages, 4);
}

TEST(WorkerSwap, ItComesBackOnlyWithRoomForItsNextBlockAndSaysSoOnce) {
    Driver worker(8, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.run(worker.start(Driver::key(2), prompt(4)));  // 2 pages: 4 + 2 are free
    worker.run(worker.start(Driver::key(3), prompt(1)));
    worker.say(in({Driver::key(1)}));
    EXPECT_EQ(worker.plan().id, 0U);
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].cause, StuckCause::out_of_pages);
    worker.say(StageInputs{{worker.start(Driver::key(4), prompt(1))}});
    EXPECT_EQ(worker.plan().id, 0U) << "nothing new overtakes it";
    EXPECT_TRUE(worker.stuck().empty()) << "once is enough";
    worker.report();
    EXPECT_EQ(worker.stuck().size(), 1U) << "but again after a report";
    worker.say(FreeSequences{{Driver::key(3)}});
    EXPECT_EQ(worker.plan().swap_in.size(), 4U);
}

TEST(WorkerSwap, OutAndInAreNeverInOneBatch) {
    Driver worker(40, 40);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.run(worker.start(Driver::key(2), prompt(8)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.say(StageInputs{{Driver::rows(Driver::key(2), 8, {1})}});
    worker.say(in({Driver::key(1)}));
    worker.say(out({Driver::key(2)}));
    worker.finish();
    EXPECT_FALSE(worker.plan().swap_out.empty());
    EXPECT_TRUE(worker.plan().swap_in.empty());
    worker.finish();
    EXPECT_TRUE(worker.plan().swap_out.empty());
    EXPECT_FALSE(worker.plan().swap_in.empty());
}

TEST(WorkerSwap, FreedInHostMemoryItReturnsItsRoomThere) {
    Driver worker(40, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.say(StageInputs{{Driver::rows(Driver::key(1), 8, {1})}});
    worker.say(FreeSequences{{Driver::key(1)}});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
    worker.say(in({Driver::key(1)}));
    EXPECT_EQ(worker.plan().id, 0U);
    EXPECT_TRUE(worker.stuck().empty());
}

TEST(WorkerSwap, AForkOfWhatIsOutIsOutTooAndTheyReturnTogether) {
    Driver worker(8, 20);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.run(worker.start(Driver::key(2), prompt(8)));
    worker.say(in({Driver::key(1)}));
    EXPECT_EQ(worker.plan().id, 0U) << "no room yet";
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 6, {1}, 0)}});
    EXPECT_EQ(worker.report().swapped_pages, 4) << "they share them there";
    worker.say(FreeSequences{{Driver::key(2)}});
    EXPECT_EQ(worker.plan().swap_in.size(), 4U);
    ASSERT_EQ(worker.plan().chunks.size(), 1U);
    EXPECT_EQ(worker.plan().copies.size(), 2U);
}

// Rows come on another connection than the message that their group may return, and may overtake
// it.
TEST(WorkerSwap, AForkThatOvertookTheReturnOfItsGroupReturnsWithIt) {
    Driver worker(8, 20);
    worker.run(worker.start(Driver::key(1), prompt(6)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.say(ForkSequences{Driver::key(1), 6, {1}});
    worker.say(StageInputs{{Driver::rows(Driver::key(1, 1), 6, {1}, 0)}});
    EXPECT_EQ(worker.plan().id, 0U);
    worker.say(in({Driver::key(1)}));
    EXPECT_EQ(worker.plan().swap_in.size(), 4U);
    ASSERT_EQ(worker.plan().chunks.size(), 1U) << "the row that waited";
    worker.finish();
    EXPECT_EQ(worker.report().swapped_pages, 0);
}

TEST(WorkerSwap, WhatABatchThatFailedMovedEndsWithTheReason) {
    Driver worker(40, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(out({Driver::key(1)}));
    worker.step(BatchFailed{worker.plan().id, "no memory"});
    ASSERT_EQ(worker.stuck().size(), 1U);
    EXPECT_EQ(worker.stuck()[0].reason, "no memory");
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

TEST(WorkerSwap, OtherLayersDropWhatIsSwappedOut) {
    Driver worker(40, 10);
    worker.run(worker.start(Driver::key(1), prompt(8)));
    worker.say(out({Driver::key(1)}));
    worker.finish();
    worker.say(AssignLayers{2, {0, 1}, 1, {}});
    worker.step(LayersLoaded{2, 40, 10});
    EXPECT_EQ(held_when_idle(worker.worker()), "");
}

}  // namespace
}  // namespace helix::core::worker_swap_test

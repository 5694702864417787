// Pages of layers with a window, which are given back when it has passed them.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/kv/block_pool.h"
#include "core/kv/block_table.h"
#include "core/worker_driver.h"

namespace helix::core::kv_window_test {
namespace {

// Of layers 2 ... 5 the first and the third have a window of 6 positions.
const spec::AttentionWindow kWindow{6, false, {false, false, true, false, true, false}};
constexpr LayerRange kLayers{2, 6};
constexpr std::int32_t kBlock = 4;

std::int64_t given_back(const std::vector<PageId>& pages) {
    return std::count(pages.begin(), pages.end(), kNoPage);
}

class KvWindow : public ::testing::TestWithParam<bool> {
  protected:
    KvWindow() : pool_(100), table_(kLayers, kBlock, GetParam(), &kWindow) {}
    void write(std::int64_t from, std::int64_t to) {
        table_.make_writable(from, to, pool_, copies_);
    }

    KvBlockPool pool_;
    BlockTable table_;
    std::vector<PageCopy> copies_;
};
INSTANTIATE_TEST_SUITE_P(NamedOrNot, KvWindow, testing::Bool());

TEST_P(KvWindow, BlocksThatNoRowSeesAnyMoreAreGivenBack) {
    write(0, 12);
    EXPECT_EQ(pool_.used(), 12);
    EXPECT_FALSE(table_.give_back_before(8, pool_)) << "row 8 still sees position 3";
    EXPECT_EQ(pool_.used(), 12);
    EXPECT_TRUE(table_.give_back_before(9, pool_));
    EXPECT_EQ(table_.blocks_given_back(), 1);
    EXPECT_EQ(table_.page_count(), 10);
    EXPECT_EQ(pool_.used(), 10);
    EXPECT_FALSE(table_.give_back_before(9, pool_)) << "once";
    EXPECT_EQ(table_.pages_to_hold(16), 4) << "a new block is written in every layer";
    write(12, 16);
    table_.name_pages(pool_);
    const std::vector<PageId> pages = table_.flatten(16);
    ASSERT_EQ(pages.size(), 16U);
    EXPECT_EQ(given_back(pages), 2);
    EXPECT_EQ(pages[0], kNoPage) << "the first block of layer 2";
    EXPECT_EQ(pages[8], kNoPage) << "and of layer 4";
    EXPECT_EQ(pool_.used(), 14);
    table_.release_all(pool_);
    EXPECT_EQ(pool_.used(), 0);
    EXPECT_EQ(pool_.unnamed(), 0);
}

TEST_P(KvWindow, ASharedBlockIsGivenBackByOneAndKeptByTheOther) {
    write(0, 12);
    BlockTable child = table_.fork(12, pool_);
    EXPECT_TRUE(table_.give_back_before(12, pool_));
    EXPECT_EQ(child.blocks_given_back(), 0);
    EXPECT_EQ(pool_.used(), 12);
    EXPECT_TRUE(child.give_back_before(11, pool_));
    EXPECT_EQ(pool_.used(), 10);
    BlockTable other = child.fork(12, pool_);
    EXPECT_EQ(other.blocks_given_back(), 1);
    EXPECT_EQ(other.page_count(), 10);
    for (BlockTable* table : {&child, &table_, &other}) table->release_all(pool_);
    EXPECT_EQ(pool_.used(), 0);
}

TEST_P(KvWindow, WhatIsWrittenAgainStaysWhole) {
    write(0, 20);
    BlockTable child = table_.fork(18, pool_);
    table_.give_back_before(18, pool_);
    EXPECT_EQ(table_.blocks_given_back(), 3);
    EXPECT_EQ(table_.pages_to_write(18, 19, pool_), 4) << "a copy of the last block";
    write(18, 19);
    EXPECT_EQ(copies_.size(), 4U);
    child.release_all(pool_);
    table_.release_all(pool_);
    EXPECT_EQ(pool_.used(), 0);
}

TEST(KvWindowTable, ComesToHoldAPromptWithFewPages) {
    const BlockTable table(kLayers, kBlock, true, &kWindow);
    EXPECT_EQ(table.least_pages_to_hold(400), 100 * 2 + 3 * 2);
    EXPECT_EQ(table.least_pages_to_hold(4), 4);
    EXPECT_EQ(BlockTable(kLayers, kBlock).least_pages_to_hold(400), 400);
    EXPECT_FALSE(BlockTable({1, 2}, kBlock, true, &kWindow).has_window());
}

TEST(KvWindowTable, BeginsWithBlocksOfWhichPartsAreMissing) {
    KvBlockPool pool(20);
    BlockTable donor(kLayers, kBlock, true, &kWindow);
    std::vector<PageCopy> copies;
    donor.make_writable(0, 12, pool, copies);
    donor.give_back_before(10, pool);
    BlockTable table(kLayers, kBlock, true, &kWindow);
    for (std::int64_t block = 0; block < 3; ++block) table.share_block(donor.block(block), pool);
    EXPECT_EQ(table.blocks_given_back(), 1);
    donor.release_all(pool);
    EXPECT_EQ(pool.used(), 10);
    table.release_all(pool);
    EXPECT_EQ(pool.used(), 0);
}

// A worker with two layers, the first of which has a window.
WorkerConfig windowed(bool prefix_cache = false) {
    WorkerConfig config = WorkerDriver::small();
    config.window = {6, false, {true, false}};
    config.prefix_cache = prefix_cache;
    config.max_batch_rows = 8;
    return config;
}

RowTokens tokens(std::int32_t n) {
    RowTokens all;
    for (Token t = 0; t < n; ++t) all.push_back(t);
    return all;
}

TEST(KvWindowWorker, ALongPromptGivesBackWhileItIsComputed) {
    // A page for each of 10 blocks of the second layer, and for the window and the rows of a batch
    // in the first.
    WorkerDriver worker(10 + 4, 0, windowed());
    worker.run(worker.start(WorkerDriver::key(1), tokens(40)));
    EXPECT_TRUE(worker.stuck().empty());
    // The next row sees positions 35 ... 40.
    EXPECT_EQ(worker.report().used_pages, 10 + 2);
    worker.say(FreeSequences{{WorkerDriver::key(1)}});
    EXPECT_EQ(worker.report().used_pages, 0);
    WorkerDriver plain(10 + 4);
    plain.run(plain.start(WorkerDriver::key(1), tokens(40)));
    EXPECT_EQ(plain.report().used_pages, 0) << "without a window it is refused";
}

TEST(KvWindowWorker, ADraftThatWasWrongFindsWhatItsRowsSee) {
    WorkerDriver worker(100, 0, windowed());
    worker.run(worker.start(WorkerDriver::key(1), tokens(12)));
    StageInput drafted = WorkerDriver::rows(WorkerDriver::key(1), 12, tokens(6));
    drafted.drafts = 5;
    worker.say(StageInputs{{drafted}});
    const std::vector<PageId> before = worker.plan().chunks.at(0).pages;
    worker.finish({{WorkerDriver::key(1), 13, 99, 0, {}}});
    // Rows up to 17 are computed, but 13 comes again: it sees positions from 8 on.
    worker.say(StageInputs{{WorkerDriver::rows(WorkerDriver::key(1), 13, tokens(1))}});
    const std::vector<PageId> pages = worker.plan().chunks.at(0).pages;
    ASSERT_EQ(pages.size(), 8U);
    EXPECT_EQ(given_back({pages.begin(), pages.begin() + 2}), 2);
    EXPECT_EQ(pages[2], before[2]);
    EXPECT_EQ(given_back(pages), 2);
    worker.finish();
}

TEST(KvWindowWorker, MembersThatAreForkedLaterFindTheWholePrompt) {
    WorkerDriver worker(100, 0, windowed());
    StageInput first = worker.start(WorkerDriver::key(1), tokens(20));
    SequenceStart start = *first.start;
    start.forks = true;
    first.start = std::move(start);
    worker.run(first);
    worker.run(WorkerDriver::rows(WorkerDriver::key(1), 20, tokens(4)));
    EXPECT_EQ(worker.report().used_pages, 12) << "nothing is given back";
    worker.say(ForkSequences{WorkerDriver::key(1), 20, {1}});
    EXPECT_TRUE(worker.stuck().empty());
    worker.run(WorkerDriver::rows(WorkerDriver::key(1, 1), 20, tokens(1)));
    EXPECT_EQ(worker.report().used_pages, 14);
}

TEST(KvWindowWorker, TheCacheKeepsWholeBlocksThatSequencesGaveBack) {
    WorkerDriver worker(100, 0, windowed(true));
    worker.run(worker.start(WorkerDriver::key(1), tokens(20)));
    worker.say(FreeSequences{{WorkerDriver::key(1)}});
    EXPECT_EQ(worker.report().used_pages, 0);
    EXPECT_EQ(worker.report().cached_pages, 10);
    std::vector<Token> cached;
    for (Token t = 0; t < 16; ++t) cached.push_back(t);
    worker.run(worker.start(WorkerDriver::key(2), RowTokens{16, 17, 18}, cached));
    EXPECT_TRUE(worker.stuck().empty());
    // Of the 5 blocks, the first layer's window has passed 3.
    EXPECT_EQ(worker.report().used_pages, 5 + 2);
    worker.say(FreeSequences{{WorkerDriver::key(2)}});
    EXPECT_EQ(worker.report().used_pages, 0);
}

TEST(KvWindowWorker, VllmsOrderOfWorkKeepsAll) {
    WorkerConfig config = windowed();
    config.prompts_first.emplace();
    WorkerDriver worker(100, 0, config);
    worker.run(worker.start(WorkerDriver::key(1), tokens(40)));
    EXPECT_EQ(worker.report().used_pages, 20);
}

}  // namespace
}  // namespace helix::core::kv_window_test

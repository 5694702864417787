// Pages with several users: references, fork, copy-on-write.

#include <gtest/gtest.h>

#include "core/kv/block_pool.h"
#include "core/kv/block_table.h"

namespace helix::core::kv_sharing_test {
namespace {

TEST(KvBlockPool, FreeingTheLastReferenceReturnsThePage) {
    KvBlockPool pool(2);
    const PageId page = pool.allocate();
    pool.acquire(page);
    EXPECT_EQ(pool.references(page), 2U);
    pool.release(page);
    EXPECT_EQ(pool.used(), 1);
    pool.release(page);
    EXPECT_EQ(pool.used(), 0);
    EXPECT_EQ(pool.references(page), 0U);
}

TEST(KvBlockPoolDeathTest, AFreePageCannotBeSharedNorReleased) {
    KvBlockPool pool(2);
    const PageId page = pool.allocate();
    pool.release(page);
    EXPECT_DEATH(pool.acquire(page), "CHECK failed");
    EXPECT_DEATH(pool.release(page), "CHECK failed");
    EXPECT_DEATH(pool.release(PageId{9}), "CHECK failed");
}

// A worker with 2 layers and blocks of 4.
class Forked : public ::testing::Test {
  protected:
    Forked() : pool_(20), parent_({0, 2}, 4) {
        parent_.make_writable(0, 10, pool_, copies_);  // 3 blocks, 6 pages
        EXPECT_TRUE(copies_.empty());
    }

    KvBlockPool pool_;
    BlockTable parent_;
    std::vector<PageCopy> copies_;
};

TEST_F(Forked, TheChildHasTheBlocksOfItsTokensAndNothingIsAllocated) {
    std::vector<PageId> rest;
    ASSERT_TRUE(pool_.allocate(pool_.free_pages(), rest));
    BlockTable child = parent_.fork(5, pool_);
    EXPECT_EQ(child.page_count(), 4);
    EXPECT_EQ(child.flatten(5), parent_.flatten(5));
    for (const PageId page : child.pages()) EXPECT_EQ(pool_.references(page), 2U);
    child.release_all(pool_);
    for (const PageId page : parent_.pages()) EXPECT_EQ(pool_.references(page), 1U);
}

TEST_F(Forked, WhoWritesFirstCopiesAndTheOtherKeepsThePage) {
    BlockTable child = parent_.fork(10, pool_);
    const auto before = parent_.flatten(10);
    EXPECT_EQ(child.pages_to_write(10, 11, pool_), 2);
    EXPECT_EQ(parent_.pages_to_write(10, 11, pool_), 2);
    child.make_writable(10, 11, pool_, copies_);
    ASSERT_EQ(copies_.size(), 2U);  // the last block, in both layers
    const auto after = child.flatten(11);
    EXPECT_EQ(copies_[0], (PageCopy{before[2], after[2]}));
    EXPECT_EQ(copies_[1], (PageCopy{before[5], after[5]}));
    EXPECT_EQ(parent_.flatten(10), before);
    EXPECT_EQ(parent_.pages_to_write(10, 12, pool_), 0) << "it is the parent's alone again";
    parent_.make_writable(10, 12, pool_, copies_);
    EXPECT_EQ(copies_.size(), 2U);
    EXPECT_EQ(pool_.used(), 8);
}

TEST_F(Forked, AChildThatEndsAtABlockCopiesNothing) {
    BlockTable child = parent_.fork(8, pool_);
    EXPECT_EQ(child.pages_to_write(8, 9, pool_), 2) << "a new block";
    child.make_writable(8, 9, pool_, copies_);
    EXPECT_TRUE(copies_.empty());
    EXPECT_EQ(pool_.used(), 8);
    for (const PageId page : child.block(0)) EXPECT_EQ(pool_.references(page), 2U);
}

TEST_F(Forked, WithTooFewPagesTheRowsThatCanBeWrittenEndBeforeTheCopy) {
    BlockTable child = parent_.fork(6, pool_);
    EXPECT_EQ(child.writable_with(1, 6, pool_), 6);
    EXPECT_EQ(child.writable_with(2, 6, pool_), 8) << "the copy, but no new block";
    EXPECT_EQ(child.writable_with(4, 6, pool_), 12);
    EXPECT_EQ(parent_.writable_with(0, 10, pool_), 12) << "its last block is its own";
    EXPECT_EQ(parent_.writable_with(-3, 10, pool_), 12);
}

TEST_F(Forked, EveryChildOfManyWritesItsOwnPage) {
    std::vector<BlockTable> children;
    for (int i = 0; i < 4; ++i) children.push_back(parent_.fork(10, pool_));
    for (BlockTable& child : children) child.make_writable(10, 12, pool_, copies_);
    EXPECT_EQ(copies_.size(), 8U);
    EXPECT_EQ(pool_.used(), 6 + 4 * 2) << "the prompt's blocks once";
    for (BlockTable& child : children) child.release_all(pool_);
    parent_.release_all(pool_);
    EXPECT_EQ(pool_.used(), 0);
}

}  // namespace
}  // namespace helix::core::kv_sharing_test

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "core/kv/block_pool.h"
#include "core/protocol/batch_plan.h"
#include "core/protocol/types.h"

namespace helix::core {

// BlockTable says where one sequence's KV lives on one worker: for each of the layers it runs
// there, the pages of its logical blocks in order. All layers grow together. Tables may share
// blocks; before a table writes to a shared one it gets a copy of its own.
//
// A table that is made without names only counts its pages. It has them from when they are named,
// which is before anybody shares, sends or swaps them.
class BlockTable {
  public:
    BlockTable(LayerRange layers, std::int32_t block_size, bool named = true);

    // Returns the pages that growing to hold these tokens would take from the pool; 0 when it
    // already does.
    std::int64_t pages_to_hold(std::int64_t tokens) const;
    // Returns the pages that writing rows [from, to) would take from the pool: those of new blocks,
    // and of a copy of each block that others use too.
    std::int64_t pages_to_write(std::int64_t from, std::int64_t to, const KvBlockPool& pool) const;
    // Returns the greatest `to` for which pages_to_write(from, to) is at most pages; `from` or
    // more.
    std::int64_t writable_with(std::int64_t pages, std::int64_t from,
                               const KvBlockPool& pool) const;
    // Makes rows [from, to) this table's alone, which takes pages_to_write() free pages; adds the
    // copies to make before the rows are written.
    void make_writable(std::int64_t from, std::int64_t to, KvBlockPool& pool,
                       std::vector<PageCopy>& copies);
    // Returns a table that shares the blocks which hold the first tokens; this one must hold that
    // many. Allocates nothing.
    BlockTable fork(std::int64_t tokens, KvBlockPool& pool);
    // From now on others may refer to pages of this one, which then does not write to them.
    void note_shared() {
        CHECK(named_);
        may_share_ = true;
    }
    // Adds a block of pages in use, one for each layer.
    void share_block(std::span<const PageId> pages, KvBlockPool& pool);
    void release_all(KvBlockPool& pool);
    void name_pages(KvBlockPool& pool);  // all pages, those that will come included
    bool named() const { return named_; }

    std::int64_t page_count() const;
    // pages[(layer - layers.begin) * n_blocks + block], as BatchChunk::pages wants them, for the
    // first n_blocks = ceil(tokens / block_size) blocks.
    std::vector<PageId> flatten(std::int64_t tokens) const;
    std::size_t full_blocks(std::int64_t tokens) const {
        return static_cast<std::size_t>(tokens / block_size_);
    }
    // Returns every page that has a name, layers of a block together.
    const std::vector<PageId>& pages() const { return pages_; }
    std::span<const PageId> block(std::int64_t block) const {
        return std::span(pages_).subspan(slot(block, 0), static_cast<std::size_t>(layers_));
    }
    // Replaces all pages, which are named, by others, whose references this table takes over.
    void replace_pages(std::vector<PageId> pages);

  private:
    std::int64_t blocks_for(std::int64_t tokens) const;
    std::size_t slot(std::int64_t block, std::int64_t layer) const {
        return static_cast<std::size_t>(block * layers_ + layer);
    }
    bool is_shared(std::int64_t block, const KvBlockPool& pool) const;
    void copy_block(std::int64_t block, KvBlockPool& pool, std::vector<PageCopy>& copies);

    std::int32_t block_size_;
    std::int32_t layers_;
    bool named_;
    bool may_share_ = false;     // the page that is written next may be in others' tables
    std::int64_t blocks_ = 0;    // of each layer
    std::vector<PageId> pages_;  // [block][layer]
};

}  // namespace helix::core

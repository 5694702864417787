#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "core/kv/block_pool.h"
#include "core/protocol/batch_plan.h"
#include "core/protocol/types.h"
#include "spec/attention_window.h"

namespace helix::core {

// BlockTable says where one sequence's KV lives on one worker: for each of the layers it runs
// there, the pages of its logical blocks in order. All layers grow together. Tables may share
// blocks; before a table writes to a shared one it gets a copy of its own.
//
// A table that is made without names only counts its pages. It has them from when they are named,
// which is before anybody shares, sends or swaps them.
//
// The last of the layers may have no KV of their own: they take no pages, and "layers" means the
// others, but in flatten().
//
// Where some of the layers have a window, their first blocks can be given back; the others stay.
// kNoPage stands in their place.
class BlockTable {
  public:
    // The window, if there is one, must outlive the table and its forks. kv_layers: those of the
    // layers, the first, that have KV of their own, which are not none.
    BlockTable(LayerRange layers, LayerRange kv_layers, std::int32_t block_size, bool named = true,
               const spec::AttentionWindow* window = nullptr);
    BlockTable(LayerRange layers, std::int32_t block_size, bool named = true,
               const spec::AttentionWindow* window = nullptr)
        : BlockTable(layers, layers, block_size, named, window) {}

    // Returns the pages that growing to hold these tokens would take from the pool; 0 when it
    // already does.
    std::int64_t pages_to_hold(std::int64_t tokens) const;
    // Returns the fewest pages that an empty table needs at once to come to hold these tokens: what
    // lies before the window is given back on the way.
    std::int64_t least_pages_to_hold(std::int64_t tokens) const;
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
    // Gives back what rows from `next` on attend to nothing of, the pages of whole blocks of layers
    // with a window. Every row before `next` that stays must be computed, and no row before it may
    // come again. Says whether there was anything.
    bool give_back_before(std::int64_t next, KvBlockPool& pool);
    bool has_window() const { return windowed_ > 0; }  // in some layer
    // Returns how many blocks, the first, were given back in layers with a window.
    std::int64_t blocks_given_back() const { return given_back_; }
    // Returns how many blocks, the first, rows from `next` on attend to nothing of in these layers.
    std::int64_t needless_blocks(std::int64_t next) const {
        return windowed_ == 0 ? 0 : window_->needless_blocks(next, block_size_);
    }
    // Says whether the block's page of the layer, which counts from the table's first, is given
    // back with so many blocks.
    bool is_given_back(std::int64_t block, std::int32_t layer, std::int64_t given_back) const {
        return block < given_back && window_ != nullptr && window_->has(first_layer_ + layer);
    }
    // Adds a block of pages in use, one for each layer; kNoPage where it was given back, which then
    // holds for all layers with a window and for the blocks before.
    void share_block(std::span<const PageId> pages, KvBlockPool& pool);
    void release_all(KvBlockPool& pool);
    void name_pages(KvBlockPool& pool);  // all pages, those that will come included
    bool named() const { return named_; }

    std::int64_t page_count() const;
    // pages[(layer - layers.begin) * n_blocks + block], as BatchChunk::pages wants them, for the
    // first n_blocks = ceil(tokens / block_size) blocks. kNoPage for layers without KV.
    std::vector<PageId> flatten(std::int64_t tokens) const;
    std::size_t full_blocks(std::int64_t tokens) const {
        return static_cast<std::size_t>(tokens / block_size_);
    }
    // Returns every page that has a name, layers of a block together, and kNoPage where one was
    // given back.
    const std::vector<PageId>& pages() const { return pages_; }
    std::span<const PageId> block(std::int64_t block) const {
        return std::span(pages_).subspan(slot(block, 0), static_cast<std::size_t>(layers_));
    }
    // Replaces all pages, which are named, by others, whose references this table takes over; those
    // that were given back stay so.
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
    std::int32_t first_layer_;
    std::int32_t windowed_ = 0;  // of the layers, those with a window
    bool named_;
    bool may_share_ = false;       // the page that is written next may be in others' tables
    std::int32_t without_kv_;      // layers that follow on those above
    std::int64_t blocks_ = 0;      // of each layer,
    std::int64_t given_back_ = 0;  // and of these, the first ones of layers with a window
    std::vector<PageId> pages_;    // [block][layer]
    const spec::AttentionWindow* window_ = nullptr;  // null: no layer has one
};

}  // namespace helix::core

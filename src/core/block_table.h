#pragma once

#include <cstdint>
#include <vector>

#include "core/kv_block_pool.h"
#include "core/types.h"

namespace helix::core {

// Where one sequence's KV lives on one worker: for each of the layers it runs there, the pages of
// its logical blocks in order (FEATURES V1). All layers grow together.
class BlockTable {
  public:
    BlockTable(LayerRange layers, std::int32_t block_size);

    // Pages that growing to hold tokens would take from the pool; 0 when it already does.
    std::int64_t pages_to_hold(std::int64_t tokens) const;
    // The most tokens it could hold with so many more pages.
    std::int64_t tokens_with(std::int64_t more_pages) const;
    // Makes room for tokens; false, and no change, when the pool has too few pages.
    [[nodiscard]] bool grow(std::int64_t tokens, KvBlockPool& pool);
    void release_all(KvBlockPool& pool);

    std::int64_t page_count() const;
    // pages[(layer - layers.begin) * n_blocks + block], as BatchChunk::pages wants them, for the
    // first n_blocks = ceil(tokens / block_size) blocks.
    std::vector<PageId> flatten(std::int64_t tokens) const;
    // Every page, layers of a block together.
    const std::vector<PageId>& pages() const { return pages_; }

  private:
    std::int64_t blocks_for(std::int64_t tokens) const;
    std::size_t slot(std::int64_t block, std::int64_t layer) const {
        return static_cast<std::size_t>(block * layers_ + layer);
    }

    std::int32_t block_size_;
    std::int32_t layers_;
    std::int64_t blocks_ = 0;    // of each layer
    std::vector<PageId> pages_;  // [block][layer]
};

}  // namespace helix::core

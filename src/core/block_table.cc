#include "core/block_table.h"

#include "base/check.h"

namespace helix::core {

BlockTable::BlockTable(LayerRange layers, std::int32_t block_size)
    : block_size_(block_size), layers_(layers.size()) {
    CHECK(!layers.empty());
    CHECK(block_size > 0);
}

std::int64_t BlockTable::blocks_for(std::int64_t tokens) const {
    return (tokens + block_size_ - 1) / block_size_;
}

std::int64_t BlockTable::pages_to_hold(std::int64_t tokens) const {
    if (tokens <= blocks_ * block_size_) return 0;
    return (blocks_for(tokens) - blocks_) * layers_;
}

std::int64_t BlockTable::tokens_with(std::int64_t more_pages) const {
    return (blocks_ + more_pages / layers_) * block_size_;
}

bool BlockTable::grow(std::int64_t tokens, KvBlockPool& pool) {
    const std::int64_t more = pages_to_hold(tokens);
    if (more == 0) return true;
    if (more > pool.free_pages()) return false;
    const std::int64_t first = blocks_;
    blocks_ += more / layers_;
    pages_.resize(slot(blocks_, 0));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = first; block < blocks_; ++block) {
            pages_[slot(block, layer)] = pool.allocate();
        }
    }
    return true;
}

void BlockTable::release_all(KvBlockPool& pool) {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = 0; block < blocks_; ++block) {
            pool.release(pages_[slot(block, layer)]);
        }
    }
    pages_.clear();
    blocks_ = 0;
}

std::int64_t BlockTable::page_count() const {
    return blocks_ * layers_;
}

std::vector<PageId> BlockTable::flatten(std::int64_t tokens) const {
    const std::int64_t n_blocks = blocks_for(tokens);
    CHECK(n_blocks <= blocks_);
    std::vector<PageId> pages;
    pages.reserve(slot(n_blocks, 0));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = 0; block < n_blocks; ++block) {
            pages.push_back(pages_[slot(block, layer)]);
        }
    }
    return pages;
}

}  // namespace helix::core

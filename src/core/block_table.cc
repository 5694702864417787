#include "core/block_table.h"

#include "base/check.h"

namespace helix::core {

BlockTable::BlockTable(LayerRange layers, std::int32_t block_size)
    : block_size_(block_size), by_layer_(static_cast<std::size_t>(layers.size())) {
    CHECK(!layers.empty());
    CHECK(block_size > 0);
}

std::int64_t BlockTable::blocks_for(std::int64_t tokens) const {
    return (tokens + block_size_ - 1) / block_size_;
}

std::int64_t BlockTable::blocks() const {
    return static_cast<std::int64_t>(by_layer_.front().size());
}

std::int64_t BlockTable::pages_to_hold(std::int64_t tokens) const {
    const std::int64_t missing = blocks_for(tokens) - blocks();
    return missing <= 0 ? 0 : missing * static_cast<std::int64_t>(by_layer_.size());
}

std::int64_t BlockTable::tokens_with(std::int64_t more_pages) const {
    const auto layers = static_cast<std::int64_t>(by_layer_.size());
    return (blocks() + more_pages / layers) * block_size_;
}

bool BlockTable::grow(std::int64_t tokens, KvBlockPool& pool) {
    const std::int64_t pages = pages_to_hold(tokens);
    if (pages == 0) return true;
    if (pages > pool.free_pages()) return false;
    const std::int64_t per_layer = pages / static_cast<std::int64_t>(by_layer_.size());
    for (auto& layer : by_layer_) CHECK(pool.allocate(per_layer, layer));
    return true;
}

void BlockTable::release_all(KvBlockPool& pool) {
    for (auto& layer : by_layer_) {
        pool.release(layer);
        layer.clear();
    }
}

std::int64_t BlockTable::page_count() const {
    return blocks() * static_cast<std::int64_t>(by_layer_.size());
}

std::vector<PageId> BlockTable::flatten(std::int64_t tokens) const {
    const std::int64_t n_blocks = blocks_for(tokens);
    CHECK(n_blocks <= blocks());
    std::vector<PageId> pages;
    pages.reserve(static_cast<std::size_t>(n_blocks) * by_layer_.size());
    for (const auto& layer : by_layer_) {
        pages.insert(pages.end(), layer.begin(), layer.begin() + n_blocks);
    }
    return pages;
}

}  // namespace helix::core

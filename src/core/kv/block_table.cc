#include "core/kv/block_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

BlockTable::BlockTable(LayerRange layers, LayerRange kv_layers, std::int32_t block_size, bool named,
                       const spec::AttentionWindow* window)
    : block_size_(block_size),
      layers_(kv_layers.size()),
      first_layer_(kv_layers.begin),
      windowed_(window == nullptr ? 0 : window->count(kv_layers)),
      named_(named),
      without_kv_(layers.end - kv_layers.end),
      window_(windowed_ == 0 ? nullptr : window) {
    CHECK(!kv_layers.empty() && kv_layers.begin == layers.begin && without_kv_ >= 0);
    CHECK(block_size > 0);
}

std::int64_t BlockTable::blocks_for(std::int64_t tokens) const {
    return (tokens + block_size_ - 1) / block_size_;
}

bool BlockTable::is_shared(std::int64_t block, const KvBlockPool& pool) const {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        if (pool.references(pages_[slot(block, layer)]) > 1) return true;
    }
    return false;
}

std::int64_t BlockTable::pages_to_hold(std::int64_t tokens) const {
    if (tokens <= blocks_ * block_size_) return 0;
    return (blocks_for(tokens) - blocks_) * layers_;
}

std::int64_t BlockTable::least_pages_to_hold(std::int64_t tokens) const {
    const std::int64_t blocks = blocks_for(tokens);
    if (windowed_ == 0) return blocks * layers_;
    return blocks * (layers_ - windowed_) +
           window_->most_blocks(tokens, 1, block_size_) * windowed_;
}

std::int64_t BlockTable::pages_to_write(std::int64_t from, std::int64_t to,
                                        const KvBlockPool& pool) const {
    std::int64_t pages = pages_to_hold(to);
    if (!may_share_) return pages;
    const std::int64_t last = std::min(blocks_, blocks_for(to));
    for (std::int64_t block = from / block_size_; block < last; ++block) {
        if (is_shared(block, pool)) pages += layers_;
    }
    return pages;
}

std::int64_t BlockTable::writable_with(std::int64_t pages, std::int64_t from,
                                       const KvBlockPool& pool) const {
    if (may_share_) {
        for (std::int64_t block = from / block_size_; block < blocks_; ++block) {
            if (!is_shared(block, pool)) continue;
            if (pages < layers_) return std::max(from, block * block_size_);
            pages -= layers_;
        }
    }
    return std::max(from, (blocks_ + std::max<std::int64_t>(0, pages) / layers_) * block_size_);
}

void BlockTable::make_writable(std::int64_t from, std::int64_t to, KvBlockPool& pool,
                               std::vector<PageCopy>& copies) {
    if (may_share_ && !base::planted(base::PlantedBug::shared_page_written)) {
        const std::int64_t last = std::min(blocks_, blocks_for(to));
        may_share_ = false;
        for (std::int64_t block = from / block_size_; block < blocks_; ++block) {
            if (!is_shared(block, pool)) continue;
            if (block < last) {
                copy_block(block, pool, copies);
            } else {
                may_share_ = true;
            }
        }
    }
    const std::int64_t more = pages_to_hold(to);
    if (more == 0) return;
    const std::int64_t first = blocks_;
    blocks_ += more / layers_;
    if (!named_) return pool.take_unnamed(more);
    pages_.resize(slot(blocks_, 0));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = first; block < blocks_; ++block) {
            pages_[slot(block, layer)] = pool.allocate();
        }
    }
}

void BlockTable::copy_block(std::int64_t block, KvBlockPool& pool, std::vector<PageCopy>& copies) {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        PageId& page = pages_[slot(block, layer)];
        const PageId copy = pool.allocate();
        copies.push_back({page, copy});
        pool.release(page);
        page = copy;
    }
}

void BlockTable::name_pages(KvBlockPool& pool) {
    if (named_) return;
    named_ = true;
    pool.give_back_unnamed(page_count());
    pages_.reserve(slot(blocks_, 0));
    for (std::int64_t block = 0; block < blocks_; ++block) {
        for (std::int32_t layer = 0; layer < layers_; ++layer) {
            pages_.push_back(is_given_back(block, layer, given_back_) ? kNoPage : pool.allocate());
        }
    }
}

bool BlockTable::give_back_before(std::int64_t next, KvBlockPool& pool) {
    const std::int64_t early = base::planted(base::PlantedBug::window_given_back_early) ? 1 : 0;
    const std::int64_t until = std::min(blocks_, needless_blocks(next) + early);
    if (windowed_ == 0 || until <= given_back_) return false;
    const std::int64_t from = std::exchange(given_back_, until);
    if (!named_) {
        pool.give_back_unnamed((until - from) * windowed_);
        return true;
    }
    for (std::int64_t block = from; block < until; ++block) {
        for (std::int32_t layer = 0; layer < layers_; ++layer) {
            if (!is_given_back(block, layer, until)) continue;
            pool.release(std::exchange(pages_[slot(block, layer)], kNoPage));
        }
    }
    return true;
}

BlockTable BlockTable::fork(std::int64_t tokens, KvBlockPool& pool) {
    name_pages(pool);
    BlockTable child = *this;
    child.blocks_ = blocks_for(tokens);
    CHECK(child.blocks_ <= blocks_);
    child.given_back_ = std::min(given_back_, child.blocks_);
    child.pages_.resize(slot(child.blocks_, 0));
    for (const PageId page : child.pages_) {
        if (page != kNoPage) pool.acquire(page);
    }
    may_share_ = child.may_share_ = true;
    return child;
}

void BlockTable::share_block(std::span<const PageId> pages, KvBlockPool& pool) {
    CHECK(static_cast<std::int64_t>(pages.size()) == layers_);
    name_pages(pool);
    const bool given_back = std::find(pages.begin(), pages.end(), kNoPage) != pages.end();
    CHECK(!given_back || given_back_ == blocks_);
    if (given_back) ++given_back_;
    for (std::size_t layer = 0; layer < pages.size(); ++layer) {
        const bool none = is_given_back(blocks_, static_cast<std::int32_t>(layer), given_back_);
        CHECK(none == (pages[layer] == kNoPage));
        if (!none) pool.acquire(pages[layer]);
    }
    pages_.insert(pages_.end(), pages.begin(), pages.end());
    ++blocks_;
}

void BlockTable::release_all(KvBlockPool& pool) {
    if (!named_) {
        pool.give_back_unnamed(page_count());
        blocks_ = 0;
    }
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = 0; block < blocks_; ++block) {
            const PageId page = pages_[slot(block, layer)];
            if (page != kNoPage) pool.release(page);
        }
    }
    pages_.clear();
    blocks_ = given_back_ = 0;
}

std::int64_t BlockTable::page_count() const {
    return blocks_ * layers_ - given_back_ * windowed_;
}

std::vector<PageId> BlockTable::flatten(std::int64_t tokens) const {
    const std::int64_t n_blocks = blocks_for(tokens);
    CHECK(n_blocks <= blocks_ && named_);
    std::vector<PageId> pages;
    const auto all = static_cast<std::size_t>(n_blocks * (layers_ + without_kv_));
    pages.reserve(all);
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
        for (std::int64_t block = 0; block < n_blocks; ++block) {
            pages.push_back(pages_[slot(block, layer)]);
        }
    }
    pages.resize(all, kNoPage);
    return pages;
}

void BlockTable::replace_pages(std::vector<PageId> pages) {
    CHECK(named_ && pages.size() == pages_.size());
    pages_ = std::move(pages);
}

}  // namespace helix::core

#include "core/kv_block_pool.h"

#include "base/check.h"

namespace helix::core {

KvBlockPool::KvBlockPool(std::int64_t total_pages) : total_(total_pages) {
    CHECK(total_pages >= 0);
    free_.reserve(static_cast<std::size_t>(total_pages));
    for (std::int64_t page = total_pages; page > 0; --page) {
        free_.push_back(static_cast<PageId>(page - 1));
    }
    in_use_.assign(static_cast<std::size_t>(total_pages), false);
}

bool KvBlockPool::allocate(std::int64_t count, std::vector<PageId>& out) {
    CHECK(count >= 0);
    if (count > free_pages()) return false;
    for (std::int64_t i = 0; i < count; ++i) {
        const PageId page = free_.back();
        free_.pop_back();
        CHECK(!in_use_[page]);
        in_use_[page] = true;
        out.push_back(page);
    }
    return true;
}

void KvBlockPool::release(const std::vector<PageId>& pages) {
    for (const PageId page : pages) {
        CHECK(static_cast<std::int64_t>(page) < total_);
        CHECK(in_use_[page]);
        in_use_[page] = false;
        free_.push_back(page);
    }
}

}  // namespace helix::core

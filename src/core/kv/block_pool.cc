#include "core/kv/block_pool.h"

#include "base/check.h"
#include "base/planted_bug.h"

namespace helix::core {

KvBlockPool::KvBlockPool(std::int64_t total_pages) : total_(total_pages) {
    CHECK(total_pages >= 0);
}

PageId KvBlockPool::allocate() {
    if (released_.empty()) {
        CHECK(static_cast<std::int64_t>(refs_.size()) < total_);
        refs_.push_back(1);
        return static_cast<PageId>(refs_.size() - 1);
    }
    const PageId page = released_.back();
    released_.pop_back();
    CHECK(refs_[page] == 0);
    refs_[page] = 1;
    return page;
}

bool KvBlockPool::allocate(std::int64_t count, std::vector<PageId>& out) {
    CHECK(count >= 0);
    if (count > unused()) return false;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(allocate());
    return true;
}

void KvBlockPool::acquire(PageId page) {
    CHECK(page < refs_.size() && refs_[page] > 0);
    if (refs_[page] == 1 && kept(page)) --cached_only_;
    ++refs_[page];
}

void KvBlockPool::release(PageId page) {
    CHECK(page < refs_.size() && refs_[page] > 0);
    --refs_[page];
    if (refs_[page] == 1 && kept(page)) {
        ++cached_only_;
        idle_.push_back(page);
    }
    if (refs_[page] > 0) return;
    released_.push_back(page);
    if (base::planted(base::PlantedBug::page_freed_twice)) released_.push_back(page);
}

void KvBlockPool::keep(PageId page) {
    CHECK(page < refs_.size() && refs_[page] > 0 && !kept(page));
    if (kept_.size() <= page) kept_.resize(refs_.size(), false);
    kept_[page] = true;
    ++refs_[page];
}

void KvBlockPool::give_up(PageId page) {
    CHECK(kept(page));
    kept_[page] = false;
    if (refs_[page] == 1) --cached_only_;
    release(page);
}

void KvBlockPool::release(const std::vector<PageId>& pages) {
    for (const PageId page : pages) release(page);
}

}  // namespace helix::core

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/protocol/types.h"

namespace helix::core {

// KvBlockPool has the pages of one worker's KV memory: one pool for all its layers, where a page is
// block_size tokens x one layer. Each page has the number of those that use it. After a reset the
// lowest free ids are handed out first, then the most recently freed, so equal histories give equal
// tables.
//
// Where nobody asks which pages a sequence has, its pages are only counted: they are in use without
// being any page in particular.
class KvBlockPool {
  public:
    explicit KvBlockPool(std::int64_t total_pages = 0);

    std::int64_t total() const { return total_; }
    // Pages that nobody but the prefix cache refers to count as free: it gives them up when asked.
    std::int64_t used() const { return held() - cached_only_; }
    std::int64_t free_pages() const { return total_ - used(); }
    std::int64_t cached_only() const { return cached_only_; }
    // Returns how many pages are free and not the cache's either.
    std::int64_t unused() const { return total_ - held(); }
    std::uint32_t references(PageId page) const { return page < refs_.size() ? refs_[page] : 0; }

    // Pages from here up were never handed out.
    PageId untouched() const { return static_cast<PageId>(refs_.size()); }

    PageId allocate();  // needs an unused page; the caller gets its only reference
    // Appends count pages to out; false (and nothing taken) when fewer are unused.
    [[nodiscard]] bool allocate(std::int64_t count, std::vector<PageId>& out);
    void acquire(PageId page);  // adds a reference to a page in use
    void release(PageId page);  // drops a reference; the page is free after the last
    void release(const std::vector<PageId>& pages);
    void take_unnamed(std::int64_t count) {  // needs so many unused pages
        CHECK(count <= unused());
        unnamed_ += count;
    }
    void give_back_unnamed(std::int64_t count) {
        CHECK(count <= unnamed_);
        unnamed_ -= count;
    }
    std::int64_t unnamed() const { return unnamed_; }

    bool kept(PageId page) const { return page < kept_.size() && kept_[page]; }  // by the cache
    // The prefix cache takes a reference of its own to a page in use, or gives it up.
    void keep(PageId page);
    void give_up(PageId page);
    // The pages that only the cache refers to since this was last called; some may be in use again.
    std::vector<PageId> take_idle() { return std::exchange(idle_, {}); }

  private:
    std::int64_t held() const {
        return static_cast<std::int64_t>(refs_.size() - released_.size()) + unnamed_;
    }

    std::int64_t total_ = 0;
    std::int64_t unnamed_ = 0;
    std::vector<std::uint32_t> refs_;  // of the pages handed out so far, which are the lowest
    std::vector<PageId> released_;     // those of them that are free again; a stack
    std::vector<bool> kept_;           // by the prefix cache
    std::int64_t cached_only_ = 0;
    std::vector<PageId> idle_;
};

}  // namespace helix::core

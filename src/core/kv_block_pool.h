#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"

namespace helix::core {

// The pages of one worker's KV memory: one pool for all its layers, page = block_size tokens x one
// layer (FEATURES H18, V1), each with the number of those that use it (V2). Hands out the lowest
// free ids first after a reset, then the most recently freed, so equal histories give equal tables.
class KvBlockPool {
  public:
    explicit KvBlockPool(std::int64_t total_pages = 0);

    std::int64_t total() const { return total_; }
    std::int64_t used() const { return static_cast<std::int64_t>(refs_.size() - released_.size()); }
    std::int64_t free_pages() const { return total_ - used(); }
    std::uint32_t references(PageId page) const { return page < refs_.size() ? refs_[page] : 0; }

    // Pages from here up were never handed out.
    PageId untouched() const { return static_cast<PageId>(refs_.size()); }

    PageId allocate();  // there is a free one; its only reference is the caller's
    // Appends count pages to out; false (and nothing taken) when fewer are free.
    [[nodiscard]] bool allocate(std::int64_t count, std::vector<PageId>& out);
    void acquire(PageId page);  // it is in use: one reference more
    void release(PageId page);  // it is in use: one reference less; free after the last
    void release(const std::vector<PageId>& pages);

  private:
    std::int64_t total_ = 0;
    std::vector<std::uint32_t> refs_;  // of the pages handed out so far, which are the lowest
    std::vector<PageId> released_;     // those of them that are free again; a stack
};

}  // namespace helix::core

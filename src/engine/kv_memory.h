#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/batch_plan.h"
#include "engine/aligned_buffer.h"

namespace helix::engine {

// A worker's KV pages, and host memory beside them for pages that are swapped out. Physical memory
// is taken at first touch.
class KvMemory {
  public:
    // All content is lost. unavailable: no address space.
    base::Status allocate(std::int64_t pages, std::int64_t swap_pages, std::int64_t page_bytes);
    void clear();

    std::int64_t pages() const { return pages_; }
    std::int64_t swap_pages() const { return swap_pages_; }
    std::byte* page(core::PageId page) { return pool_.data() + page * page_bytes_; }

    // Swaps and copies what the plan names, in its order. invalid, and nothing is moved, when it
    // names what is not there or swaps both ways.
    base::Status move(const core::BatchPlan& plan);

  private:
    std::byte* slot(std::uint32_t slot) { return swapped_.data() + slot * page_bytes_; }

    std::int64_t pages_ = 0;
    std::int64_t swap_pages_ = 0;
    std::int64_t page_bytes_ = 0;
    AlignedBuffer pool_;
    AlignedBuffer swapped_;
};

// What is wrong with the pages and slots that the plan moves, of which there are so many; ok when
// nothing is.
base::Status check_moves(const core::BatchPlan& plan, std::int64_t pages, std::int64_t swap_pages);

}  // namespace helix::engine

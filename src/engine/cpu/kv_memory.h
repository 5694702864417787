#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "core/protocol/batch_plan.h"
#include "engine/host/aligned_buffer.h"
#include "engine/host/thread_pool.h"
#include "engine/ops/kv_layout.h"

namespace helix::engine {

// A worker's KV pages, and host memory beside them for pages that are swapped out. Each tensor
// parallel rank has its part of every page, in memory that its threads touch first. Physical memory
// is taken at first touch.
class KvMemory {
  public:
    // All content is lost. unavailable: no address space.
    base::Status allocate(std::int64_t pages, std::int64_t swap_pages, int ranks,
                          std::int64_t rank_page_bytes);
    void clear();

    std::int64_t pages() const { return pages_; }
    std::int64_t swap_pages() const { return swap_pages_; }
    // Rank 0's part; that of rank r is r * rank_stride() bytes further.
    std::byte* page(core::PageId page) { return pool_.data() + page * page_bytes_; }
    std::int64_t rank_stride() const { return stride_; }
    std::span<const std::byte> page_of_rank(core::PageId page, int rank) const {
        return {pool_.data() + rank * stride_ + page * page_bytes_,
                static_cast<std::size_t>(page_bytes_)};
    }

    // A page as it travels: as one rank alone would hold it, whatever the ranks here. layout: of
    // these pages. Not synchronised: nobody else writes the page, or uses it, meanwhile.
    void read(core::PageId page, const ops::KvLayout& layout, std::byte* bytes) const;
    void write(core::PageId page, const ops::KvLayout& layout, const std::byte* bytes);

    // Each rank its own part: swaps and copies what the plan names, in its order. invalid, and
    // nothing is moved, when it names what is not there or swaps both ways.
    base::Status move(const core::BatchPlan& plan, ThreadPool& pool);

  private:
    void move_rank(const core::BatchPlan& plan, int rank);

    std::int64_t pages_ = 0;
    std::int64_t swap_pages_ = 0;
    int ranks_ = 1;
    std::int64_t page_bytes_ = 0;  // of one rank
    std::int64_t stride_ = 0;
    std::int64_t swap_stride_ = 0;
    AlignedBuffer pool_;
    AlignedBuffer swapped_;
};

// What is wrong with the pages and slots that the plan moves, of which there are so many; ok when
// nothing is.
base::Status check_moves(const core::BatchPlan& plan, std::int64_t pages, std::int64_t swap_pages);

}  // namespace helix::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "core/protocol/batch_plan.h"
#include "engine/device/memory.h"
#include "engine/host/aligned_buffer.h"
#include "engine/host/thread_pool.h"
#include "engine/ops/kv_layout.h"

namespace helix::engine {

// The CPU device's KV pages. Each tensor parallel rank has its part of every page, in memory that
// its threads touch first. Physical memory is taken at first touch.
class KvMemory final : public KvArena {
  public:
    // layout: with the pool's ranks. unavailable: no address space.
    static base::Result<std::unique_ptr<KvArena>> allocate(const ops::KvLayout& layout,
                                                           std::int64_t pages,
                                                           std::int64_t swap_pages,
                                                           ThreadPool& pool);

    std::int64_t pages() const override { return pages_; }
    std::int64_t swap_pages() const override { return swap_pages_; }
    // Each rank moves its own part.
    base::Status move(const core::BatchPlan& plan) override;
    base::Status read(core::PageId page, std::byte* bytes) const override;
    base::Status write(core::PageId page, const std::byte* bytes) override;

    // Of these pages, with all ranks.
    const ops::KvLayout& layout() const { return layout_; }
    // Rank 0's part; that of rank r is r * layout().rank_stride bytes further.
    std::byte* page(core::PageId page) { return pool_.data() + page * page_bytes_; }
    const std::byte* page(core::PageId page) const { return pool_.data() + page * page_bytes_; }
    std::span<const std::byte> page_of_rank(core::PageId page, int rank) const {
        return {this->page(page) + rank * layout_.rank_stride,
                static_cast<std::size_t>(page_bytes_)};
    }

  private:
    KvMemory(const ops::KvLayout& layout, ThreadPool& threads)
        : layout_(layout), threads_(threads), page_bytes_(layout.rank_page_bytes()) {}
    void move_rank(const core::BatchPlan& plan, int rank);

    ops::KvLayout layout_;
    ThreadPool& threads_;
    std::int64_t page_bytes_ = 0;  // of one rank
    std::int64_t pages_ = 0;
    std::int64_t swap_pages_ = 0;
    std::int64_t swap_stride_ = 0;
    AlignedBuffer pool_;
    AlignedBuffer swapped_;
};

}  // namespace helix::engine

#include "engine/cpu/kv_memory.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace helix::engine {
namespace {

// From one rank's part to the next: a huge page lies between them, so that none holds both.
std::int64_t rank_stride_for(std::int64_t bytes, int ranks) {
    constexpr std::int64_t kHugePageBytes = 2 << 20;
    return ranks == 1
               ? bytes
               : (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes + kHugePageBytes;
}

// Where each piece of a page lies here and as it travels.
template <typename Copy>
void for_each_piece(const ops::KvLayout& here, Copy copy) {
    ops::KvLayout travelling = here;
    travelling.ranks = 1;
    travelling.rank_stride = 0;
    for (int head = 0; head < here.n_kv_heads; ++head) {
        copy(here.keys_of_head(head), travelling.keys_of_head(head), here.head_keys_bytes());
        copy(here.values_of_head(head), travelling.values_of_head(head), here.head_values_bytes());
    }
}

}  // namespace

base::Result<std::unique_ptr<KvArena>> KvMemory::allocate(const ops::KvLayout& layout,
                                                          std::int64_t pages,
                                                          std::int64_t swap_pages,
                                                          ThreadPool& pool) {
    CHECK(layout.ranks == pool.ranks());
    const int ranks = layout.ranks;
    std::unique_ptr<KvMemory> kv(new KvMemory(layout, pool));
    const std::int64_t stride = rank_stride_for(pages * kv->page_bytes_, ranks);
    const std::int64_t swap_stride = rank_stride_for(swap_pages * kv->page_bytes_, ranks);
    TRY(kv->pool_, AlignedBuffer::allocate(static_cast<std::size_t>(ranks * stride)));
    if (swap_pages > 0) {
        TRY(kv->swapped_, AlignedBuffer::allocate(static_cast<std::size_t>(ranks * swap_stride)));
    }
    kv->layout_.rank_stride = stride;
    kv->swap_stride_ = swap_stride;
    kv->pages_ = pages;
    kv->swap_pages_ = swap_pages;
    return std::unique_ptr<KvArena>(std::move(kv));
}

base::Status KvMemory::read(core::PageId page, std::byte* bytes) const {
    const std::byte* from = this->page(page);
    for_each_piece(layout_, [&](std::int64_t here, std::int64_t travelling, std::int64_t size) {
        std::memcpy(bytes + travelling, from + here, static_cast<std::size_t>(size));
    });
    return base::Ok{};
}

base::Status KvMemory::write(core::PageId page, const std::byte* bytes) {
    std::byte* to = this->page(page);
    for_each_piece(layout_, [&](std::int64_t here, std::int64_t travelling, std::int64_t size) {
        std::memcpy(to + here, bytes + travelling, static_cast<std::size_t>(size));
    });
    return base::Ok{};
}

base::Status KvMemory::move(const core::BatchPlan& plan) {
    if (plan.swap_out.empty() && plan.swap_in.empty() && plan.copies.empty()) return base::Ok{};
    threads_.run_ranks(1, [&](int rank, std::int64_t, int) { move_rank(plan, rank); });
    return base::Ok{};
}

void KvMemory::move_rank(const core::BatchPlan& plan, int rank) {
    const auto bytes = static_cast<std::size_t>(page_bytes_);
    const auto page_at = [&](core::PageId id) { return page(id) + rank * layout_.rank_stride; };
    const auto slot = [&](std::uint32_t id) {
        return swapped_.data() + rank * swap_stride_ + id * page_bytes_;
    };
    for (const core::PageSwap& swap : plan.swap_out)
        std::memcpy(slot(swap.slot), page_at(swap.page), bytes);
    for (const core::PageSwap& swap : plan.swap_in)
        std::memcpy(page_at(swap.page), slot(swap.slot), bytes);
    for (const core::PageCopy& copy : plan.copies)
        std::memcpy(page_at(copy.to), page_at(copy.from), bytes);
}

}  // namespace helix::engine

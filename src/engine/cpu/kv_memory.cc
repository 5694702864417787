#include "engine/cpu/kv_memory.h"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

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

base::Status check_moves(const core::BatchPlan& plan, std::int64_t pages, std::int64_t swap_pages) {
    const auto bad = [&](const char* what, std::int64_t which, std::int64_t count) {
        return base::invalid(
            fmt::format("batch {} moves {} {} of {}", plan.id, what, which, count));
    };
    for (const auto* swaps : {&plan.swap_out, &plan.swap_in}) {
        for (const core::PageSwap& swap : *swaps) {
            if (swap.page >= pages) return bad("page", swap.page, pages);
            if (swap.slot >= swap_pages) return bad("swapped page", swap.slot, swap_pages);
        }
    }
    for (const core::PageCopy& copy : plan.copies) {
        if (copy.from >= pages) return bad("page", copy.from, pages);
        if (copy.to >= pages) return bad("page", copy.to, pages);
        if (copy.from == copy.to) {
            return base::invalid(
                fmt::format("batch {} copies page {} to itself", plan.id, copy.from));
        }
    }
    if (!plan.swap_out.empty() && !plan.swap_in.empty()) {
        return base::invalid(fmt::format("batch {} swaps out and in at once", plan.id));
    }
    return base::Ok{};
}

base::Status KvMemory::allocate(std::int64_t pages, std::int64_t swap_pages, int ranks,
                                std::int64_t rank_page_bytes) {
    clear();
    const std::int64_t stride = rank_stride_for(pages * rank_page_bytes, ranks);
    const std::int64_t swap_stride = rank_stride_for(swap_pages * rank_page_bytes, ranks);
    TRY(AlignedBuffer pool, AlignedBuffer::allocate(static_cast<std::size_t>(ranks * stride)));
    if (swap_pages > 0) {
        TRY(swapped_, AlignedBuffer::allocate(static_cast<std::size_t>(ranks * swap_stride)));
    }
    pool_ = std::move(pool);
    pages_ = pages;
    swap_pages_ = swap_pages;
    ranks_ = ranks;
    page_bytes_ = rank_page_bytes;
    stride_ = stride;
    swap_stride_ = swap_stride;
    return base::Ok{};
}

void KvMemory::clear() {
    pool_ = {};
    swapped_ = {};
    pages_ = swap_pages_ = 0;
}

void KvMemory::read(core::PageId page, const ops::KvLayout& layout, std::byte* bytes) const {
    const std::byte* from = pool_.data() + page * page_bytes_;
    for_each_piece(layout, [&](std::int64_t here, std::int64_t travelling, std::int64_t size) {
        std::memcpy(bytes + travelling, from + here, static_cast<std::size_t>(size));
    });
}

void KvMemory::write(core::PageId page, const ops::KvLayout& layout, const std::byte* bytes) {
    std::byte* to = pool_.data() + page * page_bytes_;
    for_each_piece(layout, [&](std::int64_t here, std::int64_t travelling, std::int64_t size) {
        std::memcpy(to + here, bytes + travelling, static_cast<std::size_t>(size));
    });
}

base::Status KvMemory::move(const core::BatchPlan& plan, ThreadPool& pool) {
    TRY_VOID(check_moves(plan, pages_, swap_pages_));
    if (plan.swap_out.empty() && plan.swap_in.empty() && plan.copies.empty()) return base::Ok{};
    CHECK(pool.ranks() == ranks_);
    pool.run_ranks(1, [&](int rank, std::int64_t, int) { move_rank(plan, rank); });
    return base::Ok{};
}

void KvMemory::move_rank(const core::BatchPlan& plan, int rank) {
    const auto bytes = static_cast<std::size_t>(page_bytes_);
    const auto page = [&](core::PageId id) {
        return pool_.data() + rank * stride_ + id * page_bytes_;
    };
    const auto slot = [&](std::uint32_t id) {
        return swapped_.data() + rank * swap_stride_ + id * page_bytes_;
    };
    for (const core::PageSwap& swap : plan.swap_out)
        std::memcpy(slot(swap.slot), page(swap.page), bytes);
    for (const core::PageSwap& swap : plan.swap_in)
        std::memcpy(page(swap.page), slot(swap.slot), bytes);
    for (const core::PageCopy& copy : plan.copies)
        std::memcpy(page(copy.to), page(copy.from), bytes);
}

}  // namespace helix::engine

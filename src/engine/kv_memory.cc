#include "engine/kv_memory.h"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace helix::engine {

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

base::Status KvMemory::allocate(std::int64_t pages, std::int64_t swap_pages,
                                std::int64_t page_bytes) {
    clear();
    TRY(AlignedBuffer pool, AlignedBuffer::allocate(static_cast<std::size_t>(pages * page_bytes)));
    if (swap_pages > 0) {
        TRY(swapped_, AlignedBuffer::allocate(static_cast<std::size_t>(swap_pages * page_bytes)));
    }
    pool_ = std::move(pool);
    pages_ = pages;
    swap_pages_ = swap_pages;
    page_bytes_ = page_bytes;
    return base::Ok{};
}

void KvMemory::clear() {
    pool_ = {};
    swapped_ = {};
    pages_ = swap_pages_ = 0;
}

base::Status KvMemory::move(const core::BatchPlan& plan) {
    TRY_VOID(check_moves(plan, pages_, swap_pages_));
    const auto bytes = static_cast<std::size_t>(page_bytes_);
    for (const core::PageSwap& swap : plan.swap_out)
        std::memcpy(slot(swap.slot), page(swap.page), bytes);
    for (const core::PageSwap& swap : plan.swap_in)
        std::memcpy(page(swap.page), slot(swap.slot), bytes);
    for (const core::PageCopy& copy : plan.copies)
        std::memcpy(page(copy.to), page(copy.from), bytes);
    return base::Ok{};
}

}  // namespace helix::engine

#include "engine/backend/page_moves.h"

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

}  // namespace helix::engine

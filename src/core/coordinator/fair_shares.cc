#include "core/coordinator/fair_shares.h"

#include <algorithm>

namespace helix::core {

std::uint64_t FairShares::enter(std::int32_t priority, std::uint64_t client, std::int64_t tokens) {
    if (next_.size() >= forget_at_) {
        std::erase_if(next_, [&](const auto& one) { return one.second <= now_[one.first.first]; });
        forget_at_ = std::max<std::size_t>(64, 2 * next_.size());
    }
    std::uint64_t& next = next_[{priority, client}];
    const std::uint64_t place = std::max(next, now_[priority]);
    next = place + static_cast<std::uint64_t>(std::max<std::int64_t>(1, tokens));
    return place;
}

void FairShares::started(std::int32_t priority, std::uint64_t place) {
    std::uint64_t& now = now_[priority];
    now = std::max(now, place);
}

}  // namespace helix::core

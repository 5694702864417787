#include "core/coordinator/link_health.h"

#include <algorithm>

#include "base/check.h"

namespace helix::core {
namespace {

// This is as long as several report intervals of a worker.
constexpr Duration kComplaintLasts = base::from_seconds(5);

}  // namespace

LinkHealth::Heard LinkHealth::hear(TimePoint now, WorkerId said_by, WorkerId other, bool down_now) {
    CHECK(said_by != other);
    const bool was_down = down(said_by, other);
    if (down_now) {
        complaints_[{said_by, other}] = now;
        if (was_down) return {};
    } else {
        complaints_.erase({said_by, other});
    }
    const bool known = std::any_of(breaks_.begin(), breaks_.end(), [&](const Break& link) {
        return std::minmax(link.one, link.other) == std::minmax(said_by, other);
    });
    if (!known) breaks_.push_back({now, said_by, other});
    return {.broke = true, .changed = down(said_by, other) != was_down};
}

std::optional<LinkHealth::Ends> LinkHealth::forget_next_old(TimePoint now) {
    for (auto it = complaints_.begin(); it != complaints_.end();) {
        const auto [ends, heard] = *it;
        if (now - heard <= kComplaintLasts) {
            ++it;
            continue;
        }
        it = complaints_.erase(it);
        if (!down(ends.first, ends.second)) return ends;
    }
    return std::nullopt;
}

void LinkHealth::forget(WorkerId worker) {
    std::erase_if(complaints_, [&](const auto& complaint) {
        return complaint.first.first == worker || complaint.first.second == worker;
    });
}

std::optional<LinkHealth::Break> LinkHealth::take_settled(TimePoint now, Duration settle) {
    if (breaks_.empty() || now - breaks_.front().at < settle) return std::nullopt;
    const Break link = breaks_.front();
    breaks_.pop_front();
    return link;
}

bool LinkHealth::down(WorkerId one, WorkerId other) const {
    if (complaints_.empty()) return false;
    return complaints_.contains({one, other}) || complaints_.contains({other, one});
}

std::vector<LinkHealth::Ends> LinkHealth::all_down() const {
    std::vector<Ends> links;
    for (const auto& [ends, heard] : complaints_) {
        const bool twice = complaints_.contains({ends.second, ends.first});
        if (!twice || ends.first < ends.second) links.push_back(ends);
    }
    return links;
}

}  // namespace helix::core

#include "sim/cluster/virtual_clock.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"

namespace helix::sim {

void VirtualClock::at(base::TimePoint when, std::uint64_t place, Happening what,
                      Preparation before) {
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
        slot = static_cast<std::uint32_t>(happenings_.size());
        happenings_.push_back({std::move(what), before});
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
        happenings_[slot].what = std::move(what);
        happenings_[slot].before = before;
    }
    add({when.ns, place, slot});
}

void VirtualClock::add(const Event& event) {
    const bool full = n_soon_ == soon_.size();
    if (full && !(event < soon_.back())) return queue_.push(event);
    if (full) {
        queue_.push(soon_.back());
    } else {
        ++n_soon_;
    }
    std::size_t hole = n_soon_ - 1;
    for (; hole > 0 && event < soon_[hole - 1]; --hole) soon_[hole] = soon_[hole - 1];
    soon_[hole] = event;
}

void VirtualClock::prepare_soon() const {
    if (n_soon_ == soon_.size()) base::prefetch<sizeof(Slot)>(&happenings_[soon_.back().slot]);
    const std::size_t known = std::min(n_soon_, soon_.size() - 1);
    for (std::size_t i = 0; i < known; ++i) {
        const Preparation& before = happenings_[soon_[i].slot].before;
        if (before.prepare == nullptr) continue;
        before.prepare(before.whom, before.which, kSteps - 1 - static_cast<int>(i));
    }
}

void VirtualClock::run_next() {
    const Event event = soon_.front();
    std::copy(soon_.begin() + 1, soon_.end(), soon_.begin());
    if (queue_.empty()) {
        --n_soon_;
    } else {
        soon_.back() = queue_.pop();
    }
    prepare_soon();
    now_ = {event.at_ns};
    const Happening what = std::exchange(happenings_[event.slot].what, nullptr);
    free_slots_.push_back(event.slot);
    what();
}

}  // namespace helix::sim

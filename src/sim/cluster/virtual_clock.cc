#include "sim/cluster/virtual_clock.h"

#include <utility>

namespace helix::sim {

void VirtualClock::at(base::TimePoint when, std::uint64_t place, Happening what) {
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
        slot = static_cast<std::uint32_t>(happenings_.size());
        happenings_.push_back(std::move(what));
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
        happenings_[slot] = std::move(what);
    }
    queue_.push({when.ns, place, slot});
}

void VirtualClock::run_next() {
    const Event event = queue_.pop();
    now_ = {event.at_ns};
    const Happening what = std::exchange(happenings_[event.slot], nullptr);
    free_slots_.push_back(event.slot);
    what();
}

}  // namespace helix::sim

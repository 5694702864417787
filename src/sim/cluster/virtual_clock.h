#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/cluster/event_queue.h"

namespace helix::sim {

// Virtual time, and what is to happen in it. What is to happen at one time happens in the order in
// which it was asked for, so that equal questions make equal runs.
class VirtualClock {
  public:
    using Happening = std::function<void()>;

    base::TimePoint now() const { return now_; }
    void at(base::TimePoint when, Happening what) { at(when, keep_places(1), std::move(what)); }
    // As if it had been asked for when the place was kept.
    void at(base::TimePoint when, std::uint64_t place, Happening what);
    // Keeps so many places, one after the other, for what will be asked for later; returns the
    // first. So a long list of what is to happen need not lie in the queue all the time.
    std::uint64_t keep_places(std::uint64_t count) {
        const std::uint64_t first = order_;
        order_ += count;
        return first;
    }
    void after(double seconds, Happening what) {
        at(now_ + base::from_seconds(seconds), std::move(what));
    }

    bool empty() const { return queue_.empty(); }
    // When the next one happens; there is one.
    base::TimePoint next() const { return {queue_.top().at_ns}; }
    // Moves on to the next one, of which there is one, and lets it happen.
    void run_next();
    // Moves on to a time before which nothing is to happen.
    void pass_to(base::TimePoint when) { now_ = when; }

  private:
    struct Event {
        std::int64_t at_ns = 0;
        std::uint64_t order = 0;
        std::uint32_t slot = 0;
        bool operator<(const Event& other) const {
            return at_ns != other.at_ns ? at_ns < other.at_ns : order < other.order;
        }
    };

    base::TimePoint now_;
    std::uint64_t order_ = 0;
    EventQueue<Event> queue_;
    std::vector<Happening> happenings_;  // by slot
    std::vector<std::uint32_t> free_slots_;
};

}  // namespace helix::sim

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/cluster/event_queue.h"

namespace helix::sim {

// What may be asked of memory before something happens, so that it is there when it is needed:
// a large cluster does not fit a processor's cache. It is called for what comes next, with
// rising steps from 0 to VirtualClock::kSteps - 1, each an event later; some steps are left out
// where it comes at once. It changes nothing.
struct Preparation {
    void (*prepare)(const void* whom, std::uint32_t which, int step) = nullptr;
    const void* whom = nullptr;
    std::uint32_t which = 0;
};

// Virtual time, and what is to happen in it. What is to happen at one time happens in the order in
// which it was asked for, so that equal questions make equal runs.
class VirtualClock {
  public:
    using Happening = std::function<void()>;
    static constexpr int kSteps = 4;

    base::TimePoint now() const { return now_; }
    void at(base::TimePoint when, Happening what, Preparation before = {}) {
        at(when, keep_places(1), std::move(what), before);
    }
    // As if it had been asked for when the place was kept.
    void at(base::TimePoint when, std::uint64_t place, Happening what, Preparation before = {});
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

    bool empty() const { return n_soon_ == 0; }
    // When the next one happens; there is one.
    base::TimePoint next() const { return {soon_.front().at_ns}; }
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

    struct Slot {
        Happening what;
        Preparation before;
    };
    void add(const Event& event);
    void prepare_soon() const;

    base::TimePoint now_;
    std::uint64_t order_ = 0;
    // The first ones, in order; the queue has those after them, and none while there is a place
    // here.
    std::array<Event, kSteps + 1> soon_;
    std::size_t n_soon_ = 0;
    EventQueue<Event> queue_;
    std::vector<Slot> happenings_;  // by slot
    std::vector<std::uint32_t> free_slots_;
};

}  // namespace helix::sim

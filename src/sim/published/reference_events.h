#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace helix::sim {

// The published simulator's event queue: by time, then by order of creation. What happens "now"
// goes through a ring instead of the heap, which halves the work.
class ReferenceEvents {
  public:
    enum class Kind : std::uint32_t {
        arrive,              // argument: query
        start_transmission,  // endpoint
        sent,                // link
        received,            // query
        gather,              // -
        start_execution,     // node
        finish_execution,    // node
    };
    struct Event {
        double at_s = 0;
        std::uint64_t order = 0;
        Kind kind = Kind::gather;
        std::uint32_t argument = 0;
    };

    double now_s() const { return now_s_; }
    void at(double at_s, Kind kind, std::uint32_t argument) {
        if (at_s <= now_s_) {
            ring_[tail_++ & mask()] = {now_s_, order_++, kind, argument};
            if (tail_ - head_ == ring_.size()) grow();
            return;
        }
        heap_.push_back({at_s, order_++, kind, argument});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    void now(Kind kind, std::uint32_t argument) { at(now_s_, kind, argument); }

    bool empty() const { return head_ == tail_ && heap_.empty(); }
    double next_s() const { return head_ != tail_ ? now_s_ : heap_.front().at_s; }  // if not empty
    Event pop() {
        const bool ring_first =
            head_ != tail_ && (heap_.empty() || heap_.front().at_s > now_s_ ||
                               heap_.front().order > ring_[head_ & mask()].order);
        if (ring_first) return ring_[head_++ & mask()];
        std::pop_heap(heap_.begin(), heap_.end(), later);
        const Event event = heap_.back();
        heap_.pop_back();
        now_s_ = event.at_s;
        return event;
    }
    std::uint64_t n_created() const { return order_; }

  private:
    static bool later(const Event& a, const Event& b) {
        return a.at_s > b.at_s || (a.at_s == b.at_s && a.order > b.order);
    }
    std::size_t mask() const { return ring_.size() - 1; }
    void grow() {
        std::vector<Event> larger(ring_.size() * 2);
        for (std::size_t i = head_; i != tail_; ++i) {
            larger[i & (larger.size() - 1)] = ring_[i & mask()];
        }
        ring_ = std::move(larger);
    }

    double now_s_ = 0;
    std::uint64_t order_ = 0;
    std::vector<Event> heap_;
    std::vector<Event> ring_ = std::vector<Event>(64);  // a power of two
    std::size_t head_ = 0;
    std::size_t tail_ = 0;
};

}  // namespace helix::sim

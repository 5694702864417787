#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace helix::sim {

// The earliest of many plain values first, by their operator<; a heap with four children to a node,
// which has half the levels of std::priority_queue's.
template <typename Event>
class EventQueue {
  public:
    bool empty() const { return heap_.empty(); }
    const Event& top() const { return heap_.front(); }

    void push(const Event& event) {
        std::size_t hole = heap_.size();
        heap_.push_back(event);
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / kChildren;
            if (!(event < heap_[parent])) break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = event;
    }

    // There is one.
    Event pop() {
        const Event first = heap_.front();
        const Event last = heap_.back();
        heap_.pop_back();
        if (!heap_.empty()) sink(last);
        return first;
    }

  private:
    static constexpr std::size_t kChildren = 4;

    // Puts the event where it belongs, from the root down.
    void sink(const Event& event) {
        std::size_t hole = 0;
        for (std::size_t child = 1; child < heap_.size(); child = hole * kChildren + 1) {
            const std::size_t end = std::min(child + kChildren, heap_.size());
            std::size_t least = child;
            for (std::size_t other = child + 1; other < end; ++other) {
                if (heap_[other] < heap_[least]) least = other;
            }
            if (!(heap_[least] < event)) break;
            heap_[hole] = heap_[least];
            hole = least;
        }
        heap_[hole] = event;
    }

    std::vector<Event> heap_;
};

}  // namespace helix::sim

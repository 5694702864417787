#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "text/grammar/automaton.h"

namespace helix::text::grammar {

using StackSet = std::uint32_t;

// One way to read a text: the node it is at, and what may follow when the node's rule has ended.
struct Way {
    NodeIndex node = 0;
    StackSet stack = 0;
    auto operator<=>(const Way&) const = default;
};

// A set of ways that can be emptied at once, however large it was.
class WaySet {
  public:
    // Adds a way; false when it was there.
    bool insert(const Way& way) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        return place(way);
    }
    std::size_t size() const { return size_; }
    void clear() {
        size_ = 0;
        if (++round_ != 0) return;
        slots_.assign(slots_.size(), {});  // the number of the round has wrapped around
        round_ = 1;
    }

  private:
    struct Slot {
        Way way;
        std::uint32_t round = 0;  // it holds something in this round only
    };

    bool place(const Way& way) {
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = static_cast<std::size_t>(base::hash_pair(way.node, way.stack)) & mask;
        for (; slots_[at].round == round_; at = (at + 1) & mask) {
            if (slots_[at].way == way) return false;
        }
        slots_[at] = {way, round_};
        ++size_;
        return true;
    }
    void grow() {
        std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
        old.swap(slots_);
        size_ = 0;
        for (const Slot& slot : old) {
            if (slot.round == round_) place(slot.way);
        }
    }

    std::vector<Slot> slots_;  // a power of two, at most half full
    std::size_t size_ = 0;
    std::uint32_t round_ = 1;
};

}  // namespace helix::text::grammar

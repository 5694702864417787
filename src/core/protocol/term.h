#pragma once

#include <cstdint>

#include "base/check.h"

namespace helix::core {

// Coordinators have terms, which rise: of two, the one of the higher term is the later. A
// coordinator that was replaced may not know it: it stood still or was cut off, comes back and
// speaks on. These rules see to it that nobody is led by two.

// What one who follows coordinators, a worker or a gateway, knows of their terms. Whoever has
// joined a coordinator joins none of a lower term, and hears none of another one.
class FollowedTerm {
  public:
    explicit FollowedTerm(std::uint64_t highest = 0) : highest_(highest) {}

    // Of those that were joined; 0: none was, or that does not count any more.
    std::uint64_t highest() const { return highest_; }
    bool may_join(std::uint64_t term) const { return term >= highest_; }
    // The coordinator is a later one than all that were joined.
    bool is_next(std::uint64_t term) const { return term > highest_; }
    void join(std::uint64_t term) {
        CHECK(may_join(term));
        highest_ = term;
    }
    // What a coordinator of this term says counts.
    bool hears(std::uint64_t term) const { return term == highest_; }
    void forget() { highest_ = 0; }

  private:
    std::uint64_t highest_;
};

// A coordinator hears of another's term. If that is higher it was replaced: it takes nobody in and
// says nothing more.
inline bool is_replaced(std::uint64_t own_term, std::uint64_t heard_term) {
    return heard_term > own_term;
}

}  // namespace helix::core

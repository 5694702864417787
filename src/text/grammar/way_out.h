#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "text/grammar/automaton.h"

namespace helix::text::grammar {

// For each node of an automaton the fewest bytes after which its rule may end. Which bytes those
// are follows: each step that takes one away.
class WayOut {
  public:
    // No text is that long.
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    // Takes O(edges log edges) (Knuth, "A generalization of Dijkstra's algorithm", 1977).
    explicit WayOut(const Automaton& automaton);

    std::uint32_t bytes(NodeIndex node) const { return bytes_[node]; }

  private:
    std::vector<std::uint32_t> bytes_;
};

// a + b, where kNone stays what it is.
std::uint32_t add_bytes(std::uint32_t a, std::uint32_t b);

}  // namespace helix::text::grammar

#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spec/layer_range.h"

namespace helix::text {

// Finds whole special tokens in text: the leftmost, and of those that begin there the longest.
class SpecialMatcher {
  public:
    struct Match {
        std::size_t begin;
        std::size_t length;
        spec::Token token;
    };

    // An empty text is ignored.
    void add(std::string_view text, spec::Token token);
    std::optional<Match> find(std::string_view text, std::size_t from) const;

  private:
    using Node = std::uint32_t;

    // A trie: edges_ by node * 256 + byte; node 0 is the root.
    std::unordered_map<std::uint64_t, Node> edges_;
    std::vector<spec::Token> tokens_{-1};  // per node; -1: no token ends here
    std::bitset<256> first_bytes_;
};

}  // namespace helix::text

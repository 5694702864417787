#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "spec/layer_range.h"

namespace helix::text {

// A piece of the text on the way to becoming a token. Pieces form a list in text order.
struct Symbol {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;  // 0 once merged into its left neighbour
    spec::Token token = -1;    // -1: no token stands for it
    std::int32_t prev = -1;
    std::int32_t next = -1;
};

struct Merge {
    double order;  // smaller goes first
    spec::Token token;
};

class MergeRules {
  public:
    virtual ~MergeRules() = default;
    // The rule that joins two neighbours, if there is one.
    virtual std::optional<Merge> find(std::string_view text, const Symbol& left,
                                      const Symbol& right) const = 0;
};

// Appends to the list that symbols is.
void append_symbol(std::vector<Symbol>& symbols, std::uint32_t length, spec::Token token);

// Byte-pair encoding: applies the rule of smallest order, leftmost first among equals, until none
// applies. O(n log n). The remaining pieces are those that next links from symbols[0].
void merge_symbols(std::string_view text, const MergeRules& rules, std::span<Symbol> symbols);

}  // namespace helix::text

#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace helix::text::grammar {

struct CodeRange {
    char32_t first = 0;
    char32_t last = 0;  // included
    bool operator==(const CodeRange&) const = default;
};

// A set of code points: ranges in ascending order, with gaps between them.
using CharSet = std::vector<CodeRange>;

constexpr char32_t kLastCodePoint = 0x10FFFF;

// Makes a set of ranges in any order, which may overlap.
CharSet make_char_set(std::vector<CodeRange> ranges);
// All code points (surrogates are none) outside the set.
CharSet complement(const CharSet& set);
CharSet intersect(const CharSet& a, const CharSet& b);
CharSet subtract(const CharSet& a, const CharSet& b);
bool contains(const CharSet& set, char32_t code);

struct ByteRange {
    std::uint8_t first = 0;
    std::uint8_t last = 0;  // included
};

// One to four bytes, each from its range.
struct ByteSequence {
    std::array<ByteRange, 4> bytes;
    std::size_t length = 0;
};

// The UTF-8 of a set: every code point is in exactly one sequence. Surrogates have none.
std::vector<ByteSequence> utf8_sequences(const CharSet& set);

}  // namespace helix::text::grammar

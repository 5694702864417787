#include "text/grammar/char_set.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace helix::text::grammar {
namespace {

constexpr CodeRange kSurrogates{0xD800, 0xDFFF};

std::size_t utf8_length(char32_t code) {
    if (code < 0x80) return 1;
    if (code < 0x800) return 2;
    return code < 0x10000 ? 3 : 4;
}

// Both ends have the same length. Cutting where continuation bytes do not cover their whole range
// leaves products of byte ranges.
void split_same_length(CodeRange range, std::vector<ByteSequence>& out) {
    const std::size_t length = utf8_length(range.first);
    for (std::size_t i = 1; i < length; ++i) {
        const char32_t low_bits = (char32_t{1} << (6 * i)) - 1;
        if ((range.first & ~low_bits) == (range.last & ~low_bits)) continue;
        if ((range.first & low_bits) != 0) {
            split_same_length({range.first, range.first | low_bits}, out);
            split_same_length({(range.first | low_bits) + 1, range.last}, out);
            return;
        }
        if ((range.last & low_bits) != low_bits) {
            split_same_length({range.first, (range.last & ~low_bits) - 1}, out);
            split_same_length({range.last & ~low_bits, range.last}, out);
            return;
        }
    }
    std::string first;
    std::string last;
    append_utf8(first, range.first);
    append_utf8(last, range.last);
    ByteSequence sequence;
    sequence.length = length;
    for (std::size_t i = 0; i < length; ++i) {
        sequence.bytes[i] = {static_cast<std::uint8_t>(first[i]),
                             static_cast<std::uint8_t>(last[i])};
    }
    out.push_back(sequence);
}

}  // namespace

CharSet make_char_set(std::vector<CodeRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
    CharSet set;
    for (const CodeRange& range : ranges) {
        if (!set.empty() && range.first <= set.back().last + 1) {
            set.back().last = std::max(set.back().last, range.last);
        } else {
            set.push_back(range);
        }
    }
    return set;
}

CharSet complement(const CharSet& set) {
    std::vector<CodeRange> taken = set;
    taken.push_back(kSurrogates);
    CharSet out;
    char32_t next = 0;
    for (const CodeRange& range : make_char_set(std::move(taken))) {
        if (range.first > next) out.push_back({next, range.first - 1});
        next = range.last + 1;
    }
    if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
    return out;
}

CharSet intersect(const CharSet& a, const CharSet& b) {
    CharSet out;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const char32_t first = std::max(a[i].first, b[j].first);
        const char32_t last = std::min(a[i].last, b[j].last);
        if (first <= last) out.push_back({first, last});
        if (a[i].last < b[j].last) {
            ++i;
        } else {
            ++j;
        }
    }
    return out;
}

CharSet subtract(const CharSet& a, const CharSet& b) {
    return intersect(a, complement(b));
}

bool contains(const CharSet& set, char32_t code) {
    return std::any_of(set.begin(), set.end(), [code](const CodeRange& range) {
        return range.first <= code && code <= range.last;
    });
}

std::vector<ByteSequence> utf8_sequences(const CharSet& set) {
    constexpr std::array<CodeRange, 5> kOfOneLength = {
        {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCodePoint}}};
    std::vector<ByteSequence> out;
    for (const CodeRange& band : kOfOneLength) {
        for (const CodeRange& range : intersect(set, {band})) split_same_length(range, out);
    }
    return out;
}

}  // namespace helix::text::grammar

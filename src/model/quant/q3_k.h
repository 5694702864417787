#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 16 groups of 16: value = scale * (group_scale - 32) * (q - 4), q of 3 bits and
// group_scale of 6. Element 128 h + 32 j + i (h 0-1, j 0-3, i 0-31) has its low two bits at bit 2 j
// of low[32 h + i] and its third at bit 4 h + j of high[i].
struct BlockQ3K {
    std::uint8_t high[32];
    std::uint8_t low[64];
    std::uint8_t packed[12];  // see group_scale
    std::uint16_t scale;      // binary16
};
static_assert(sizeof(BlockQ3K) == 110);

// The 6-bit scale of a group (0-15): the low four bits of 0-7 and 8-15 are the nibbles of the first
// eight bytes, the upper two lie in fours in the last four bytes.
constexpr std::uint8_t group_scale(const std::uint8_t (&packed)[12], int group) {
    const unsigned low = group < 8 ? packed[group] & 15U : unsigned{packed[group - 8]} >> 4U;
    const unsigned high = (unsigned{packed[8 + group % 4]} >> (2 * (group / 4))) & 3U;
    return static_cast<std::uint8_t>(low | (high << 4U));
}

// Sets the scale of a group, whose bits must be zero before.
constexpr void put_group_scale(std::uint8_t (&packed)[12], int group, unsigned value) {
    std::uint8_t& low = packed[group % 8];
    std::uint8_t& high = packed[8 + group % 4];
    low = static_cast<std::uint8_t>(low | ((value & 15U) << (group < 8 ? 0U : 4U)));
    high =
        static_cast<std::uint8_t>(high | ((value >> 4U) << static_cast<unsigned>(2 * (group / 4))));
}

// Sets q of an element, likewise.
constexpr void put_element(BlockQ3K& block, int e, unsigned q) {
    const int half = e / 128;
    const int quarter = e % 128 / 32;
    std::uint8_t& low = block.low[32 * half + e % 32];
    std::uint8_t& high = block.high[e % 32];
    low = static_cast<std::uint8_t>(low | ((q & 3U) << static_cast<unsigned>(2 * quarter)));
    high =
        static_cast<std::uint8_t>(high | ((q >> 2U) << static_cast<unsigned>(4 * half + quarter)));
}

extern const Format kQ3K;

}  // namespace helix::model::quant

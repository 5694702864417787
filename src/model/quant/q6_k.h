#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 16 groups of 16: value = scale * group_scale * (q - 32), q of 6 bits. Elements
// come in two halves of 128. Within a half, element 32 k + i (k 0-3, i 0-31) has its low four bits
// in low[32 (k % 2) + i] (low nibble for k < 2, high nibble else) and its upper two at bit 2 k of
// high[i].
struct BlockQ6K {
    std::uint8_t low[128];   // 64 per half
    std::uint8_t high[64];   // 32 per half
    std::int8_t scales[16];  // group scales
    std::uint16_t scale;     // binary16
};
static_assert(sizeof(BlockQ6K) == 210);

// Where element e (0-255) lies in low and high.
struct PlaceQ6K {
    int low;
    int low_shift;
    int high;
    int high_shift;
};
constexpr PlaceQ6K place_in_q6_k(int element) {
    const int half = element / 128;
    const int k = element % 128 / 32;
    const int i = element % 32;
    return {half * 64 + k % 2 * 32 + i, k < 2 ? 0 : 4, half * 32 + i, 2 * k};
}

// Sets q of an element, whose bits must be zero before.
constexpr void put_element(BlockQ6K& block, int e, unsigned q) {
    const PlaceQ6K at = place_in_q6_k(e);
    std::uint8_t& low = block.low[at.low];
    std::uint8_t& high = block.high[at.high];
    low = static_cast<std::uint8_t>(low | ((q & 15U) << at.low_shift));
    high = static_cast<std::uint8_t>(high | ((q >> 4U) << at.high_shift));
}

extern const Format kQ6K;

}  // namespace helix::model::quant

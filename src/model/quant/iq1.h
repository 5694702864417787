#pragma once

#include "model/quant/format.h"

// 256 elements, eight to a point of a grid: value = scale * (2 odd + 1) * (point + delta), delta
// being an eighth or minus an eighth. As codes, whole numbers: 8 * point + 1 or - 1.

namespace helix::model::quant {

// A short for each 32 elements: three bits more for each of four points, three of odd, and whether
// delta is negative.
struct BlockIq1S {
    std::uint16_t scale;  // binary16
    std::uint8_t points[32];
    std::uint16_t groups[8];
};
static_assert(sizeof(BlockIq1S) == 50);

// A nibble for each point, the lower first: three bits more, and whether delta is negative. A short
// for each 64 elements: three bits of odd for each sixteen, and four bits of the scale (binary16),
// those of the first short lowest.
struct BlockIq1M {
    std::uint8_t points[32];
    std::uint8_t nibbles[16];
    std::uint8_t scales[8];
};
static_assert(sizeof(BlockIq1M) == 56);

extern const Format kIq1S;
extern const Format kIq1M;

}  // namespace helix::model::quant

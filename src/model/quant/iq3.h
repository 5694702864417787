#pragma once

#include "model/quant/format.h"

// 256 elements, four to a point of a grid, each with a sign; a scale for 32.

namespace helix::model::quant {

// value = scale * (2 odd + 1) / 4 * point. Groups of 32 have 8 bytes of points, and four of what
// eight signs are (see eight_signs), 7 bits each, and odd in the top four bits.
struct BlockIq3Xxs {
    std::uint16_t scale;  // binary16
    std::uint8_t points[64];
    std::uint8_t signs[32];
};
static_assert(sizeof(BlockIq3Xxs) == 98);

// value = scale * (2 odd + 1) * point. Points have a ninth bit: of group g, that of its point p is
// bit p of high[g]. The nibbles of odd are in the groups' order.
struct BlockIq3S {
    std::uint16_t scale;  // binary16
    std::uint8_t points[64];
    std::uint8_t high[8];
    std::uint8_t signs[32];
    std::uint8_t odd[4];
};
static_assert(sizeof(BlockIq3S) == 110);

extern const Format kIq3Xxs;
extern const Format kIq3S;

}  // namespace helix::model::quant

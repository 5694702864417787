#pragma once

#include "model/quant/format.h"

// 256 elements, eight to a point of a grid, each with a sign: value = scale * (2 odd + 1) / 8 *
// point.

namespace helix::model::quant {

// Groups of 32 have four bytes of points, and four of what their signs are (see eight_signs), 7
// bits each, and odd in the top four bits.
struct BlockIq2Xxs {
    std::uint16_t scale;  // binary16
    std::uint8_t groups[64];
};
static_assert(sizeof(BlockIq2Xxs) == 66);

// Points of nine bits, the seven above them signs; a nibble of odd for each sixteen elements, the
// lower first.
struct BlockIq2Xs {
    std::uint16_t scale;  // binary16
    std::uint8_t points[64];
    std::uint8_t odd[8];
};
static_assert(sizeof(BlockIq2Xs) == 74);

// Points of ten bits: bits 2 p and 2 p + 1 of high[g] are the upper two of point p of group g.
struct BlockIq2S {
    std::uint16_t scale;  // binary16
    std::uint8_t points[32];
    std::uint8_t signs[32];
    std::uint8_t high[8];
    std::uint8_t odd[8];  // as in BlockIq2Xs
};
static_assert(sizeof(BlockIq2S) == 82);

extern const Format kIq2Xxs;
extern const Format kIq2Xs;
extern const Format kIq2S;

}  // namespace helix::model::quant

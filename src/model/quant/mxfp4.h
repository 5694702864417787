#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements (OCP microscaling, E2M1 with an E8M0 scale): value[i] = 2^(exponent - 128) *
// kMxfp4Levels[nibble[i]]; low nibbles are elements 0-15, high ones 16-31. The levels are doubled,
// which the 128 in place of 127 undoes.
struct BlockMxfp4 {
    std::uint8_t exponent;
    std::uint8_t q[16];
};
static_assert(sizeof(BlockMxfp4) == 17);

constexpr std::int8_t kMxfp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The number of the level nearest to value / unit.
unsigned nearest_mxfp4_level(float value, float unit);

extern const Format kMxfp4;

}  // namespace helix::model::quant

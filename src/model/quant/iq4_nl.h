#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * kIq4Levels[nibble[i]]; low nibbles are elements 0-15, high ones
// 16-31.
struct BlockIq4Nl {
    std::uint16_t scale;  // binary16
    std::uint8_t q[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

// The steps between levels widen away from zero, where weights are rarer.
constexpr std::int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

// The level nearest to value / unit: its number.
unsigned nearest_iq4_level(float value, float unit);

extern const Format kIq4Nl;

}  // namespace helix::model::quant

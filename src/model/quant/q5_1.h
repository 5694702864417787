#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * q[i] + min, the 5 bits of q as in BlockQ5_0.
struct BlockQ5_1 {
    std::uint16_t scale;  // binary16
    std::uint16_t min;    // binary16
    std::uint8_t high[4];
    std::uint8_t low[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

extern const Format kQ5_1;

}  // namespace helix::model::quant

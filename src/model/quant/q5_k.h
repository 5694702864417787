#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 8 groups of 32: value = scale * group_scale * q - min * group_min, q of 5 bits.
// Low four bits and the packed scales as in BlockQ4K; the fifth bit of element i of group g is bit
// g of high[i].
struct BlockQ5K {
    std::uint16_t scale;      // binary16
    std::uint16_t min;        // binary16
    std::uint8_t packed[12];  // see group_scale_min
    std::uint8_t high[32];
    std::uint8_t low[128];
};
static_assert(sizeof(BlockQ5K) == 176);

extern const Format kQ5K;

}  // namespace helix::model::quant

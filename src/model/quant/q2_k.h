#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 16 groups of 16: value = scale * group_scale * q - min * group_min, q of 2 bits.
// Element 128 h + 32 j + i (h 0-1, j 0-3, i 0-31) is at bit 2 j of q[32 h + i].
struct BlockQ2K {
    std::uint8_t packed[16];  // of each group: scale in the low nibble, min in the high one
    std::uint8_t q[64];
    std::uint16_t scale;  // binary16
    std::uint16_t min;    // binary16
};
static_assert(sizeof(BlockQ2K) == 84);

extern const Format kQ2K;

}  // namespace helix::model::quant

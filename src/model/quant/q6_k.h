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

extern const Format kQ6K;

}  // namespace helix::model::quant

#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * (q[i] - 16), q of 5 bits. Low four bits: low nibbles are elements
// 0-15, high ones 16-31; the fifth bit of element i is bit i % 8 of high[i / 8].
struct BlockQ5_0 {
    std::uint16_t scale;  // binary16
    std::uint8_t high[4];
    std::uint8_t low[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

extern const Format kQ5_0;

}  // namespace helix::model::quant

#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * nibble[i] + min; low nibbles are elements 0-15, high ones 16-31.
struct BlockQ4_1 {
    std::uint16_t scale;  // binary16
    std::uint16_t min;    // binary16
    std::uint8_t q[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

extern const Format kQ4_1;

}  // namespace helix::model::quant

#pragma once

#include "model/quant/format.h"

// 256 elements of few whole numbers and one scale: value = scale * (q - 1).

namespace helix::model::quant {

// q from 0 to 3, two bits each: byte 32 h + j has elements 128 h + j, + 32, + 64 and + 96, the
// first lowest.
struct BlockTq2_0 {
    std::uint8_t q[64];
    std::uint16_t scale;  // binary16
};
static_assert(sizeof(BlockTq2_0) == 66);

// q from 0 to 2, as the digits of a fraction in base three, the first highest, that a byte has as
// 256 times the fraction, rounded up. Byte j of fives has elements j + 32 n for j < 32, and
// otherwise 128 + j + 16 n; byte j of fours, which has a fifth digit of 0, elements 240 + j + 4 n.
struct BlockTq1_0 {
    std::uint8_t fives[48];
    std::uint8_t fours[4];
    std::uint16_t scale;  // binary16
};
static_assert(sizeof(BlockTq1_0) == 54);

extern const Format kTq1_0;
extern const Format kTq2_0;

}  // namespace helix::model::quant

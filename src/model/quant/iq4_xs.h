#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 8 groups of 32: value = scale * (group_scale - 32) * kIq4Levels[nibble],
// group_scale of 6 bits. Of a group's sixteen bytes, low nibbles are its elements 0-15, high ones
// 16-31.
struct BlockIq4Xs {
    std::uint16_t scale;  // binary16
    std::uint16_t high;   // bits 2 g and 2 g + 1: the upper two of group g's scale
    std::uint8_t low[4];  // nibble g: its lower four
    std::uint8_t q[128];
};
static_assert(sizeof(BlockIq4Xs) == 136);

extern const Format kIq4Xs;

}  // namespace helix::model::quant

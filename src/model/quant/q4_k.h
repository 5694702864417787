#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 256 elements in 8 groups of 32: value = scale * group_scale * nibble - min * group_min.
struct BlockQ4K {
    std::uint16_t scale;      // binary16
    std::uint16_t min;        // binary16
    std::uint8_t packed[12];  // 8 group scales and 8 group mins, 6 bits each: see group_scale_min
    std::uint8_t q[128];      // 32 bytes per pair of groups: low nibbles the first, high the second
};
static_assert(sizeof(BlockQ4K) == 144);

// The 6-bit scale and min of a group (0-7).
struct GroupScaleMin {
    std::uint8_t scale;
    std::uint8_t min;
};
constexpr GroupScaleMin group_scale_min(const std::uint8_t (&packed)[12], int group) {
    const auto at = [&](int i) { return unsigned{packed[i]}; };
    unsigned scale = at(group) & 63U;
    unsigned min = at(group + 4) & 63U;
    if (group >= 4) {
        scale = (at(group + 4) & 15U) | ((at(group - 4) >> 6U) << 4U);
        min = (at(group + 4) >> 4U) | ((at(group) >> 6U) << 4U);
    }
    return {static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(min)};
}

extern const Format kQ4K;

}  // namespace helix::model::quant

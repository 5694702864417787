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

// Sets the scale and min of a group, whose bits must be zero before.
constexpr void put_group_scale_min(std::uint8_t (&packed)[12], int group, GroupScaleMin value) {
    const auto or_into = [](std::uint8_t& byte, int bits) {
        byte = static_cast<std::uint8_t>(byte | bits);
    };
    if (group < 4) {
        or_into(packed[group], value.scale);
        or_into(packed[group + 4], value.min);
    } else {
        or_into(packed[group + 4], (value.scale & 15) | ((value.min & 15) << 4));
        or_into(packed[group - 4], (value.scale >> 4) << 6);
        or_into(packed[group], (value.min >> 4) << 6);
    }
}

// What the groups of 256 values need to span them from -offset to top * step, offsets not negative:
// the block's scale and min, and each group's share of them.
struct GroupSteps {
    std::uint16_t scale = 0;  // binary16
    std::uint16_t min = 0;    // binary16
    std::uint8_t packed[12] = {};
    float step[8] = {};  // as they are after rounding
    float offset[8] = {};
};
GroupSteps fit_groups(const float* values, float top);

// The rounded value / unit, limited to 0 ... top.
std::uint8_t nearest_level(float value, float unit, long top);

extern const Format kQ4K;

}  // namespace helix::model::quant

#pragma once

#include <cstddef>
#include <cstdint>

namespace helix::engine::ops {

// The 6-bit scales and mins of the eight groups of 32 columns of a Q4_K or Q5_K block, from its 12
// bytes.
struct KScales {
    std::uint8_t scale[8];
    std::uint8_t min[8];
};

inline KScales unpack_scales(const std::byte* s) {
    KScales e;
    const auto at = [&](int i) { return static_cast<unsigned>(s[i]); };
    for (int j = 0; j < 4; ++j) {
        e.scale[j] = static_cast<std::uint8_t>(at(j) & 63U);
        e.min[j] = static_cast<std::uint8_t>(at(j + 4) & 63U);
        e.scale[j + 4] = static_cast<std::uint8_t>((at(j + 8) & 15U) | ((at(j) >> 6U) << 4U));
        e.min[j + 4] = static_cast<std::uint8_t>((at(j + 8) >> 4U) | ((at(j + 4) >> 6U) << 4U));
    }
    return e;
}

}  // namespace helix::engine::ops

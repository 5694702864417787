#pragma once

#include <bit>
#include <cstdint>

// IEEE half and bfloat16 as bit patterns; conversions to half round to nearest even, as the hardware does.

namespace helix::engine::ops {

inline float half_to_float(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t rest = bits & 0x7fffU;
    if (rest >= 0x7c00U) {  // infinity, or a (quieted) NaN
        const std::uint32_t quiet = rest > 0x7c00U ? 0x400000U : 0U;
        return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13U) | quiet);
    }
    // Shifted into place the exponent is 112 too small; the product is exact, subnormals included.
    const float magnitude = std::bit_cast<float>(rest << 13U) * 0x1.0p112F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

inline std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t rest = bits & 0x7fffffffU;
    std::uint32_t half = 0;
    if (rest > 0x7f800000U) {
        half = 0x7e00U | ((rest >> 13U) & 0x3ffU);
    } else if (rest >= 0x477ff000U) {  // rounds to 65536 or more
        half = 0x7c00U;
    } else if (rest < 0x38800000U) {  // subnormal: adding 0.5 leaves the rounded mantissa in the low bits
        const float shifted = std::bit_cast<float>(rest) + 0.5F;
        half = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
    } else {
        half = (rest - 0x38000000U + 0xfffU + ((rest >> 13U) & 1U)) >> 13U;
    }
    return static_cast<std::uint16_t>(sign | half);
}

inline float bfloat_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

}  // namespace helix::engine::ops

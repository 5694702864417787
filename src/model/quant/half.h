#pragma once

#include <bit>
#include <cstdint>

// IEEE 754 binary16 and bfloat16 as bit patterns.

namespace helix::model::quant {

constexpr float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fU;
    const std::uint32_t fraction = half & 0x3ffU;
    if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

// Rounds to nearest, ties to even; too large becomes infinity, NaN stays NaN.
constexpr std::uint16_t float_to_half(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // >= 2^16
    std::uint32_t kept = 0;
    std::uint32_t rest = 0;          // what is cut off, as a fraction of 2^32
    if (magnitude >= 0x38800000U) {  // normal: >= 2^-14
        kept = (magnitude - 0x38000000U) >> 13;
        rest = magnitude << 19;
    } else if (magnitude >= 0x33000000U) {  // subnormal: >= 2^-25
        const std::uint32_t shift = 126 - (magnitude >> 23);
        const std::uint32_t full = (magnitude & 0x7fffffU) | 0x800000U;
        kept = full >> shift;
        rest = full << (32 - shift);
    }
    if (rest > 0x80000000U || (rest == 0x80000000U && (kept & 1U) != 0)) ++kept;
    return static_cast<std::uint16_t>(sign | kept);
}

constexpr float bfloat_to_float(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t float_to_bfloat(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace helix::model::quant

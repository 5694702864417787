#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/quant/codes.h"
#include "model/quant/half.h"

// What the formats share whose codes number the points of a grid (grids.h).

namespace helix::model::quant {

// A point, a byte for each element, the first lowest; one of four elements has four zeros more.
// bits: of an element's level in the words of grids.h.
template <std::size_t kWords, std::size_t kLevels>
constexpr std::array<std::uint64_t, 2 * kWords> unpack_points(const std::uint32_t (&words)[kWords],
                                                              const std::uint8_t (&levels)[kLevels],
                                                              unsigned bits) {
    std::array<std::uint64_t, 2 * kWords> points{};
    const unsigned elements = bits == 2 ? 8 : 4;
    for (std::size_t p = 0; p < points.size(); ++p) {
        const std::uint32_t packed = words[p / 2] >> (16 * (p % 2));
        for (unsigned e = 0; e < elements; ++e) {
            const std::uint32_t level = (packed >> (bits * e)) & ((1U << bits) - 1U);
            points[p] |= std::uint64_t{levels[level]} << (8 * e);
        }
    }
    return points;
}

// For eight bits, the first lowest: 0x7f in the bytes of those that are set.
constexpr std::array<std::uint64_t, 256> sign_masks() {
    std::array<std::uint64_t, 256> masks{};
    for (std::size_t bits = 0; bits < 256; ++bits) {
        for (unsigned e = 0; e < 8; ++e)
            masks[bits] |= std::uint64_t{(bits >> e & 1U) * 0x7fU} << (8 * e);
    }
    return masks;
}
inline constexpr std::array<std::uint64_t, 256> kSignMasks = sign_masks();

// Eight bytes of 1 to 63, those negated whose bit is set, raised by 64. No byte carries: 64 - g is
// (127 - g) + 64 - 127.
constexpr std::uint64_t with_signs(std::uint64_t points, unsigned signs) {
    const std::uint64_t mask = kSignMasks[signs];
    return (points ^ mask) + 0x4040404040404040U - mask;
}

// Seven signs, and the eighth, which makes the number of those that are set even.
constexpr unsigned eight_signs(unsigned seven) {
    return seven | (static_cast<unsigned>(std::popcount(seven)) & 1U) << 7U;
}

// Elements 8 i ... 8 i + 7 of some codes, the first lowest.
inline void put_eight(Codes& codes, int i, std::uint64_t eight) {
    std::memcpy(codes.q + 8 * i, &eight, sizeof eight);
}

// Points as columns of floats, and half the sum of their squares, to look for the nearest one.
template <std::size_t kElements, std::size_t kPoints>
struct PointColumns {
    float level[kElements][kPoints];
    float half_square[kPoints];
};
template <std::size_t kElements, std::size_t kPoints>
constexpr PointColumns<kElements, kPoints> columns_of(
    const std::array<std::uint64_t, kPoints>& points) {
    PointColumns<kElements, kPoints> columns{};
    for (std::size_t p = 0; p < kPoints; ++p) {
        for (std::size_t e = 0; e < kElements; ++e) {
            const auto level = static_cast<float>(points[p] >> (8 * e) & 0xffU);
            columns.level[e][p] = level;
            columns.half_square[p] += 0.5F * level * level;
        }
    }
    return columns;
}

// The number of the point nearest to some numbers: the one with the greatest product, less half of
// its square.
template <std::size_t kElements, std::size_t kPoints>
unsigned nearest_point(const PointColumns<kElements, kPoints>& columns, const float* numbers) {
    float score[kPoints];
    for (std::size_t p = 0; p < kPoints; ++p) score[p] = -columns.half_square[p];
    for (std::size_t e = 0; e < kElements; ++e) {
        const float number = numbers[e];
        for (std::size_t p = 0; p < kPoints; ++p) score[p] += number * columns.level[e][p];
    }
    unsigned best = 0;
    for (unsigned p = 1; p < kPoints; ++p) {
        if (score[p] > score[best]) best = p;
    }
    return best;
}

// Units of the groups of a block that are nearly scale * (2 odd + 1).
struct OddScales {
    std::uint16_t scale = 0;  // binary16
    unsigned odd[16] = {};
    float unit[16] = {};  // as they are after rounding
};
// Of 256 values in groups of so many: each group's extreme element becomes top_level, odd is 0 to
// top_odd.
OddScales fit_groups(const float* values, int size, float top_level, unsigned top_odd);

// What eight values are of a unit, without their signs. even: so that the number of signs is even,
// the least value gets the wrong one, and is a negative number of units.
struct Magnitudes {
    float numbers[8];
    unsigned signs;
};
Magnitudes magnitudes_of(const float* values, float unit, bool even);

float greatest_magnitude(const float* values, int count);

}  // namespace helix::model::quant

#include "model/quant/iq1.h"

#include <cstddef>
#include <cstring>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"
#include "model/quant/grids.h"

namespace helix::model::quant {
namespace {

// Eight times an element, and eight more.
constexpr auto kIq1Points = unpack_points(kIq1Grid, {0, 8, 16}, 2);
constexpr auto kIq1Columns = columns_of<8>(kIq1Points);

void put_point(Codes& codes, int i, unsigned point, bool down) {
    const std::uint64_t raised = down ? 0x3737373737373737U : 0x3939393939393939U;  // 56 -+ 1
    put_eight(codes, i, kIq1Points[point] + raised);
}

void decode_iq1_s(const std::byte* block, int part, Codes& codes) {
    const std::byte* points = block + offsetof(BlockIq1S, points) + 4 * part;
    const unsigned group = load_u16(block + offsetof(BlockIq1S, groups) + 2 * part);
    for (int i = 0; i < 4; ++i) {
        const unsigned upper = group >> (3U * static_cast<unsigned>(i)) & 7U;
        put_point(codes, i, byte_at(points, i) | upper << 8U, group >> 15U != 0);
    }
    const float odd = static_cast<float>(2 * (group >> 12U & 7U) + 1);
    codes.scale[0] = codes.scale[1] = half_to_float(load_u16(block)) * odd * 0.125F;
}

void decode_iq1_m(const std::byte* block, int part, Codes& codes) {
    const std::byte* points = block + offsetof(BlockIq1M, points) + 4 * part;
    const std::byte* nibbles = block + offsetof(BlockIq1M, nibbles) + 2 * part;
    for (int i = 0; i < 4; ++i) {
        const unsigned nibble = byte_at(nibbles, i / 2) >> (4U * (static_cast<unsigned>(i) % 2));
        put_point(codes, i, byte_at(points, i) | (nibble & 7U) << 8U, (nibble & 8U) != 0);
    }
    const std::byte* scales = block + offsetof(BlockIq1M, scales);
    unsigned scale = 0;
    for (unsigned i = 0; i < 4; ++i) scale |= unsigned{load_u16(scales + 2 * i)} >> 12U << (4 * i);
    const float eighth = half_to_float(static_cast<std::uint16_t>(scale)) * 0.125F;
    const unsigned odd =
        unsigned{load_u16(scales + 2 * (part / 2))} >> (6U * (static_cast<unsigned>(part) % 2));
    codes.scale[0] = eighth * static_cast<float>(2 * (odd & 7U) + 1);
    codes.scale[1] = eighth * static_cast<float>(2 * (odd >> 3U & 7U) + 1);
}

// Whether delta is to be negative, as the values' mean is.
bool is_below(const float* values, int count) {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += values[i];
    return sum < 0;
}

unsigned nearest_iq1_point(const float* values, float unit, bool down) {
    float numbers[8];
    for (int e = 0; e < 8; ++e)
        numbers[e] = (unit > 0 ? values[e] / unit * 8.0F : 0.0F) + (down ? 9.0F : 7.0F);
    return nearest_point(kIq1Columns, numbers);
}

BlockIq1S quantize_iq1_s_block(const float* values) {
    const OddScales fit = fit_groups(values, 32, 1.0F, 7);
    BlockIq1S block{};
    block.scale = fit.scale;
    for (int g = 0; g < 8; ++g) {
        const bool down = is_below(values + 32 * g, 32);
        unsigned group = fit.odd[g] << 12U | (down ? 0x8000U : 0U);
        for (int i = 0; i < 4; ++i) {
            const unsigned point = nearest_iq1_point(values + 32 * g + 8 * i, fit.unit[g], down);
            block.points[4 * g + i] = static_cast<std::uint8_t>(point);
            group |= point >> 8U << (3U * static_cast<unsigned>(i));
        }
        block.groups[g] = static_cast<std::uint16_t>(group);
    }
    return block;
}

BlockIq1M quantize_iq1_m_block(const float* values) {
    const OddScales fit = fit_groups(values, 16, 1.0F, 7);
    BlockIq1M block{};
    for (int i = 0; i < 32; ++i) {
        const bool down = is_below(values + 8 * i, 8);
        const unsigned point = nearest_iq1_point(values + 8 * i, fit.unit[i / 2], down);
        block.points[i] = static_cast<std::uint8_t>(point);
        const unsigned nibble = point >> 8U | (down ? 8U : 0U);
        std::uint8_t& both = block.nibbles[i / 2];
        both = static_cast<std::uint8_t>(both | nibble << (4 * (i % 2)));
    }
    for (int i = 0; i < 4; ++i) {
        const unsigned* odd = fit.odd + 4 * i;
        const auto both =
            static_cast<std::uint16_t>(odd[0] | odd[1] << 3U | odd[2] << 6U | odd[3] << 9U |
                                       (unsigned{fit.scale} >> (4 * i) & 15U) << 12U);
        std::memcpy(block.scales + 2 * i, &both, sizeof both);
    }
    return block;
}

}  // namespace

const Format kIq1S{TensorType::iq1_s,
                   {"iq1_s", 256, sizeof(BlockIq1S)},
                   dequantize_codes<decode_iq1_s, 8, sizeof(BlockIq1S)>,
                   quantize_blocks<quantize_iq1_s_block, 256>,
                   decode_iq1_s,
                   kIq1Grid};
const Format kIq1M{TensorType::iq1_m,
                   {"iq1_m", 256, sizeof(BlockIq1M)},
                   dequantize_codes<decode_iq1_m, 8, sizeof(BlockIq1M)>,
                   quantize_blocks<quantize_iq1_m_block, 256>,
                   decode_iq1_m,
                   kIq1Grid};

}  // namespace helix::model::quant

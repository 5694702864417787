#include "model/quant/iq3.h"

#include <cstddef>
#include <cstring>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"
#include "model/quant/grids.h"

namespace helix::model::quant {
namespace {

constexpr auto kXxsPoints = unpack_points(kIq3XxsGrid, {4, 12, 20, 28, 36, 44, 52, 62}, 3);
constexpr auto kXxsColumns = columns_of<4>(kXxsPoints);
constexpr auto kSPoints = unpack_points(kIq3SGrid, {1, 3, 5, 7, 9, 11, 13, 15}, 3);
constexpr auto kSColumns = columns_of<4>(kSPoints);

void decode_xxs(const std::byte* block, int part, Codes& codes) {
    const std::byte* numbers = block + offsetof(BlockIq3Xxs, points) + 8 * part;
    const std::uint32_t signs = load_u32(block + offsetof(BlockIq3Xxs, signs) + 4 * part);
    for (int i = 0; i < 4; ++i) {
        const std::uint64_t both =
            kXxsPoints[byte_at(numbers, 2 * i)] | kXxsPoints[byte_at(numbers, 2 * i + 1)] << 32U;
        const unsigned seven = (signs >> (7U * static_cast<unsigned>(i))) & 127U;
        put_eight(codes, i, with_signs(both, eight_signs(seven)));
    }
    const float odd = static_cast<float>(2 * (signs >> 28U) + 1);
    codes.scale[0] = codes.scale[1] = half_to_float(load_u16(block)) * odd * 0.25F;
}

void decode_s(const std::byte* block, int part, Codes& codes) {
    const std::byte* numbers = block + offsetof(BlockIq3S, points) + 8 * part;
    const std::byte* signs = block + offsetof(BlockIq3S, signs) + 4 * part;
    const unsigned high = byte_at(block, static_cast<int>(offsetof(BlockIq3S, high)) + part);
    for (int i = 0; i < 4; ++i) {
        const unsigned bits = high >> (2U * static_cast<unsigned>(i));
        const std::uint64_t first = kSPoints[byte_at(numbers, 2 * i) | (bits & 1U) << 8U];
        const std::uint64_t second = kSPoints[byte_at(numbers, 2 * i + 1) | (bits & 2U) << 7U];
        put_eight(codes, i, with_signs(first | second << 32U, byte_at(signs, i)));
    }
    const unsigned both = byte_at(block, static_cast<int>(offsetof(BlockIq3S, odd)) + part / 2);
    const unsigned odd = part % 2 == 0 ? both & 15U : both >> 4U;
    codes.scale[0] = codes.scale[1] =
        half_to_float(load_u16(block)) * static_cast<float>(2 * odd + 1);
}

BlockIq3Xxs quantize_xxs_block(const float* values) {
    const OddScales fit = fit_groups(values, 32, 62.0F / 4.0F, 15);
    BlockIq3Xxs block{};
    block.scale = fit.scale;
    for (int group = 0; group < 8; ++group) {
        std::uint32_t signs = std::uint32_t{fit.odd[group]} << 28U;
        for (int i = 0; i < 4; ++i) {
            const Magnitudes of =
                magnitudes_of(values + 32 * group + 8 * i, fit.unit[group] * 0.25F, true);
            signs |= (of.signs & 127U) << (7U * static_cast<unsigned>(i));
            for (int half = 0; half < 2; ++half) {
                block.points[8 * group + 2 * i + half] =
                    static_cast<std::uint8_t>(nearest_point(kXxsColumns, of.numbers + 4 * half));
            }
        }
        std::memcpy(block.signs + 4 * group, &signs, sizeof signs);
    }
    return block;
}

BlockIq3S quantize_s_block(const float* values) {
    const OddScales fit = fit_groups(values, 32, 15.0F, 15);
    BlockIq3S block{};
    block.scale = fit.scale;
    for (int group = 0; group < 8; ++group) {
        std::uint8_t& odd = block.odd[group / 2];
        odd = static_cast<std::uint8_t>(odd | fit.odd[group] << (4 * (group % 2)));
        for (int i = 0; i < 4; ++i) {
            const Magnitudes of =
                magnitudes_of(values + 32 * group + 8 * i, fit.unit[group], false);
            block.signs[4 * group + i] = static_cast<std::uint8_t>(of.signs);
            for (int half = 0; half < 2; ++half) {
                const unsigned point = nearest_point(kSColumns, of.numbers + 4 * half);
                block.points[8 * group + 2 * i + half] = static_cast<std::uint8_t>(point);
                block.high[group] =
                    static_cast<std::uint8_t>(block.high[group] | point >> 8U << (2 * i + half));
            }
        }
    }
    return block;
}

}  // namespace

const Format kIq3Xxs{TensorType::iq3_xxs,
                     {"iq3_xxs", 256, sizeof(BlockIq3Xxs)},
                     dequantize_codes<decode_xxs, 8, sizeof(BlockIq3Xxs)>,
                     quantize_blocks<quantize_xxs_block, 256>,
                     decode_xxs,
                     kIq3XxsGrid};
const Format kIq3S{TensorType::iq3_s,
                   {"iq3_s", 256, sizeof(BlockIq3S)},
                   dequantize_codes<decode_s, 8, sizeof(BlockIq3S)>,
                   quantize_blocks<quantize_s_block, 256>,
                   decode_s,
                   kIq3SGrid};

}  // namespace helix::model::quant

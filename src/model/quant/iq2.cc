#include "model/quant/iq2.h"

#include <cstddef>
#include <cstring>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"
#include "model/quant/grids.h"

namespace helix::model::quant {
namespace {

constexpr auto kXxsPoints = unpack_points(kIq2XxsGrid, {8, 25, 43}, 2);
constexpr auto kXxsColumns = columns_of<8>(kXxsPoints);
constexpr auto kXsPoints = unpack_points(kIq2XsGrid, {8, 25, 43}, 2);
constexpr auto kXsColumns = columns_of<8>(kXsPoints);
constexpr auto kSPoints = unpack_points(kIq2SGrid, {8, 25, 43}, 2);
constexpr auto kSColumns = columns_of<8>(kSPoints);

constexpr float kTopLevel = 43.0F / 8.0F;

void decode_xxs(const std::byte* block, int part, Codes& codes) {
    const std::byte* points = block + offsetof(BlockIq2Xxs, groups) + 8 * part;
    const std::uint32_t signs = load_u32(points + 4);
    for (int i = 0; i < 4; ++i) {
        const unsigned seven = (signs >> (7U * static_cast<unsigned>(i))) & 127U;
        put_eight(codes, i, with_signs(kXxsPoints[byte_at(points, i)], eight_signs(seven)));
    }
    const float odd = static_cast<float>(2 * (signs >> 28U) + 1);
    codes.scale[0] = codes.scale[1] = half_to_float(load_u16(block)) * odd * 0.125F;
}

// odd: the byte of both scales.
void put_scales(Codes& codes, const std::byte* block, unsigned odd) {
    const float eighth = half_to_float(load_u16(block)) * 0.125F;
    codes.scale[0] = eighth * static_cast<float>(2 * (odd & 15U) + 1);
    codes.scale[1] = eighth * static_cast<float>(2 * (odd >> 4U) + 1);
}

void decode_xs(const std::byte* block, int part, Codes& codes) {
    const std::byte* points = block + offsetof(BlockIq2Xs, points) + 8 * part;
    for (int i = 0; i < 4; ++i) {
        const unsigned both = load_u16(points + 2 * i);
        put_eight(codes, i, with_signs(kXsPoints[both & 511U], eight_signs(both >> 9U)));
    }
    put_scales(codes, block, byte_at(block, static_cast<int>(offsetof(BlockIq2Xs, odd)) + part));
}

void decode_s(const std::byte* block, int part, Codes& codes) {
    const std::byte* points = block + offsetof(BlockIq2S, points) + 4 * part;
    const std::byte* signs = block + offsetof(BlockIq2S, signs) + 4 * part;
    const unsigned high = byte_at(block, static_cast<int>(offsetof(BlockIq2S, high)) + part);
    for (int i = 0; i < 4; ++i) {
        const unsigned upper = (high >> (2U * static_cast<unsigned>(i))) & 3U;
        put_eight(codes, i,
                  with_signs(kSPoints[byte_at(points, i) | upper << 8U], byte_at(signs, i)));
    }
    put_scales(codes, block, byte_at(block, static_cast<int>(offsetof(BlockIq2S, odd)) + part));
}

BlockIq2Xxs quantize_xxs_block(const float* values) {
    const OddScales fit = fit_groups(values, 32, kTopLevel, 15);
    BlockIq2Xxs block{};
    block.scale = fit.scale;
    for (int group = 0; group < 8; ++group) {
        std::uint8_t* to = block.groups + 8 * group;
        std::uint32_t signs = std::uint32_t{fit.odd[group]} << 28U;
        for (int i = 0; i < 4; ++i) {
            const Magnitudes of =
                magnitudes_of(values + 32 * group + 8 * i, fit.unit[group] * 0.125F, true);
            signs |= (of.signs & 127U) << (7U * static_cast<unsigned>(i));
            to[i] = static_cast<std::uint8_t>(nearest_point(kXxsColumns, of.numbers));
        }
        std::memcpy(to + 4, &signs, sizeof signs);
    }
    return block;
}

BlockIq2Xs quantize_xs_block(const float* values) {
    const OddScales fit = fit_groups(values, 16, kTopLevel, 15);
    BlockIq2Xs block{};
    block.scale = fit.scale;
    for (int i = 0; i < 32; ++i) {
        const Magnitudes of = magnitudes_of(values + 8 * i, fit.unit[i / 2] * 0.125F, true);
        const auto both = static_cast<std::uint16_t>(nearest_point(kXsColumns, of.numbers) |
                                                     (of.signs & 127U) << 9U);
        std::memcpy(block.points + 2 * i, &both, sizeof both);
        std::uint8_t& odd = block.odd[i / 4];
        odd = static_cast<std::uint8_t>(odd | fit.odd[i / 2] << (4 * (i / 2 % 2)));
    }
    return block;
}

BlockIq2S quantize_s_block(const float* values) {
    const OddScales fit = fit_groups(values, 16, kTopLevel, 15);
    BlockIq2S block{};
    block.scale = fit.scale;
    for (int i = 0; i < 32; ++i) {
        const Magnitudes of = magnitudes_of(values + 8 * i, fit.unit[i / 2] * 0.125F, false);
        const unsigned point = nearest_point(kSColumns, of.numbers);
        block.points[i] = static_cast<std::uint8_t>(point);
        block.signs[i] = static_cast<std::uint8_t>(of.signs);
        std::uint8_t& high = block.high[i / 4];
        high = static_cast<std::uint8_t>(high | point >> 8U << (2 * (i % 4)));
        std::uint8_t& odd = block.odd[i / 4];
        odd = static_cast<std::uint8_t>(odd | fit.odd[i / 2] << (4 * (i / 2 % 2)));
    }
    return block;
}

}  // namespace

const Format kIq2Xxs{TensorType::iq2_xxs,
                     {"iq2_xxs", 256, sizeof(BlockIq2Xxs)},
                     dequantize_codes<decode_xxs, 8, sizeof(BlockIq2Xxs)>,
                     quantize_blocks<quantize_xxs_block, 256>,
                     decode_xxs,
                     kIq2XxsGrid};
const Format kIq2Xs{TensorType::iq2_xs,
                    {"iq2_xs", 256, sizeof(BlockIq2Xs)},
                    dequantize_codes<decode_xs, 8, sizeof(BlockIq2Xs)>,
                    quantize_blocks<quantize_xs_block, 256>,
                    decode_xs,
                    kIq2XsGrid};
const Format kIq2S{TensorType::iq2_s,
                   {"iq2_s", 256, sizeof(BlockIq2S)},
                   dequantize_codes<decode_s, 8, sizeof(BlockIq2S)>,
                   quantize_blocks<quantize_s_block, 256>,
                   decode_s,
                   kIq2SGrid};

}  // namespace helix::model::quant

#include "model/quant/tq.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"

namespace helix::model::quant {
namespace {

constexpr unsigned kPowersOfThree[] = {1, 3, 9, 27, 81};

void decode_tq2_0(const std::byte* block, int part, Codes& codes) {
    const std::byte* bytes = block + 32 * (part / 4);
    const unsigned shift = 2 * (static_cast<unsigned>(part) % 4);
    for (int i = 0; i < 32; ++i)
        codes.q[i] = static_cast<std::uint8_t>(kRaised - 1 + (byte_at(bytes, i) >> shift & 3U));
    codes.scale[0] = codes.scale[1] = half_to_float(load_u16(block + offsetof(BlockTq2_0, scale)));
}

std::uint8_t raised_digit(unsigned byte, unsigned power) {
    return static_cast<std::uint8_t>(kRaised - 1 + ((byte * power & 255U) * 3U >> 8U));
}

void decode_tq1_0(const std::byte* block, int part, Codes& codes) {
    std::uint8_t* q = codes.q;
    for (int sixteen = 2 * part; sixteen < 2 * part + 2; ++sixteen, q += 16) {
        if (sixteen == 15) {
            const std::byte* bytes = block + offsetof(BlockTq1_0, fours);
            for (int i = 0; i < 16; ++i)
                q[i] = raised_digit(byte_at(bytes, i % 4), kPowersOfThree[i / 4]);
            continue;
        }
        const std::byte* bytes = block + (sixteen < 10 ? sixteen % 2 * 16 : 32);
        const unsigned power = kPowersOfThree[sixteen < 10 ? sixteen / 2 : sixteen - 10];
        for (int i = 0; i < 16; ++i) q[i] = raised_digit(byte_at(bytes, i), power);
    }
    codes.scale[0] = codes.scale[1] = half_to_float(load_u16(block + offsetof(BlockTq1_0, scale)));
}

// The greatest magnitude becomes a scale of one, all others the nearest of 0, 1 and 2.
unsigned nearest_digit(float value, float greatest) {
    const long rounded = greatest > 0 ? std::lrintf(value / greatest) : 0L;
    return static_cast<unsigned>(std::clamp(rounded, -1L, 1L) + 1);
}

BlockTq2_0 quantize_tq2_0_block(const float* values) {
    const float greatest = greatest_magnitude(values, 256);
    BlockTq2_0 block{};
    block.scale = float_to_half(greatest);
    for (int i = 0; i < 256; ++i) {
        std::uint8_t& byte = block.q[i / 128 * 32 + i % 32];
        byte = static_cast<std::uint8_t>(byte | nearest_digit(values[i], greatest)
                                                    << (2 * (i / 32 % 4)));
    }
    return block;
}

BlockTq1_0 quantize_tq1_0_block(const float* values) {
    const float greatest = greatest_magnitude(values, 256);
    unsigned numbers[52] = {};
    for (int i = 0; i < 256; ++i) {
        const int byte = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
        numbers[byte] = 3 * numbers[byte] + nearest_digit(values[i], greatest);
    }
    BlockTq1_0 block{};
    block.scale = float_to_half(greatest);
    const auto byte_of = [](unsigned number) {
        return static_cast<std::uint8_t>((number * 256 + 242) / 243);
    };
    for (int j = 0; j < 48; ++j) block.fives[j] = byte_of(numbers[j]);
    for (int j = 0; j < 4; ++j) block.fours[j] = byte_of(3 * numbers[48 + j]);
    return block;
}

}  // namespace

const Format kTq1_0{TensorType::tq1_0,
                    {"tq1_0", 256, sizeof(BlockTq1_0)},
                    dequantize_codes<decode_tq1_0, 8, sizeof(BlockTq1_0)>,
                    quantize_blocks<quantize_tq1_0_block, 256>,
                    decode_tq1_0};
const Format kTq2_0{TensorType::tq2_0,
                    {"tq2_0", 256, sizeof(BlockTq2_0)},
                    dequantize_codes<decode_tq2_0, 8, sizeof(BlockTq2_0)>,
                    quantize_blocks<quantize_tq2_0_block, 256>,
                    decode_tq2_0};

}  // namespace helix::model::quant

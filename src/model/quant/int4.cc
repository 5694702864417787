#include "model/quant/int4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/codes.h"

namespace helix::model::quant {
namespace {

void dequantize_int4(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockInt4 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = scale_of(block);
        const int zero = block.zero & kZeroBits;
        for (int i = 0; i < 16; ++i) {
            out[i] = scale * static_cast<float>((block.q[i] & 15) - zero);
            out[i + 16] = scale * static_cast<float>((block.q[i] >> 4) - zero);
        }
    }
}

// The zero with which the least scale reaches both extremes.
BlockInt4 quantize_int4_block(const float* values) {
    const auto [least, greatest] = std::minmax_element(values, values + 32);
    const float below = std::max(0.0F, -*least);
    const float above = std::max(0.0F, *greatest);
    const auto scale_with = [&](int zero) {
        constexpr float kNone = 3e38F;
        const float down = zero > 0 ? below / static_cast<float>(zero) : below > 0 ? kNone : 0.0F;
        const float up = zero < 15   ? above / static_cast<float>(15 - zero)
                         : above > 0 ? kNone
                                     : 0.0F;
        return std::max(down, up);
    };
    int zero = 0;
    for (int other = 1; other < 16; ++other) {
        if (scale_with(other) < scale_with(zero)) zero = other;
    }
    BlockInt4 block{};
    const std::uint16_t bits = float_to_half(scale_with(zero));
    block.scale[0] = static_cast<std::uint8_t>(bits & 0xffU);
    block.scale[1] = static_cast<std::uint8_t>(bits >> 8U);
    block.zero = static_cast<std::uint8_t>(zero);
    const float scale = half_to_float(bits);
    const auto level = [&](float value) {
        if (!(scale > 0)) return static_cast<unsigned>(zero);
        return static_cast<unsigned>(std::clamp(std::lrintf(value / scale) + zero, 0L, 15L));
    };
    for (int i = 0; i < 16; ++i)
        block.q[i] = static_cast<std::uint8_t>(level(values[i]) | level(values[i + 16]) << 4U);
    return block;
}

}  // namespace

const Format kInt4{TensorType::int4,
                   {"int4", 32, sizeof(BlockInt4)},
                   dequantize_int4,
                   quantize_blocks<quantize_int4_block, 32>};

}  // namespace helix::model::quant

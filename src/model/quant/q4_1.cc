#include "model/quant/q4_1.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockQ4_1 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        const float min = half_to_float(block.min);
        for (int i = 0; i < 16; ++i) {
            out[i] = scale * static_cast<float>(block.q[i] & 15) + min;
            out[i + 16] = scale * static_cast<float>(block.q[i] >> 4) + min;
        }
    }
}

// Divides the range from the least value to the greatest into 15 steps.
BlockQ4_1 quantize_block(const float* values) {
    const auto [low, high] = std::minmax_element(values, values + 32);
    BlockQ4_1 block{};
    block.scale = float_to_half((*high - *low) / 15.0F);
    block.min = float_to_half(*low);
    const float scale = half_to_float(block.scale);
    const float min = half_to_float(block.min);
    const auto level = [&](float value) {
        if (!(scale > 0)) return 0U;
        return static_cast<unsigned>(std::clamp(std::lrintf((value - min) / scale), 0L, 15L));
    };
    for (int i = 0; i < 16; ++i) {
        block.q[i] = static_cast<std::uint8_t>(level(values[i]) | (level(values[i + 16]) << 4));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ4_1 block = quantize_block(values + b * 32);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ4_1{TensorType::q4_1, {"q4_1", 32, sizeof(BlockQ4_1)}, dequantize, quantize};

}  // namespace helix::model::quant

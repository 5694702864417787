#include "model/quant/mxfp4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockMxfp4 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = std::ldexp(1.0F, block.exponent - 128);
        for (int i = 0; i < 16; ++i) {
            out[i] = scale * static_cast<float>(kMxfp4Levels[block.q[i] & 15]);
            out[i + 16] = scale * static_cast<float>(kMxfp4Levels[block.q[i] >> 4]);
        }
    }
}

// The scale is the largest magnitude's power of two, less the two that the greatest level has.
BlockMxfp4 quantize_block(const float* values) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
    BlockMxfp4 block{};
    if (largest > 0) {
        block.exponent =
            static_cast<std::uint8_t>(std::clamp(std::ilogb(largest) - 2 + 127, 0, 254));
    }
    const float scale = std::ldexp(1.0F, block.exponent - 128);
    for (int i = 0; i < 16; ++i) {
        block.q[i] = static_cast<std::uint8_t>(nearest_mxfp4_level(values[i], scale) |
                                               (nearest_mxfp4_level(values[i + 16], scale) << 4));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockMxfp4 block = quantize_block(values + b * 32);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

unsigned nearest_mxfp4_level(float value, float unit) {
    unsigned best = 0;
    for (unsigned i = 1; i < 16; ++i) {
        const auto distance = [&](unsigned k) {
            return std::fabs(value - unit * static_cast<float>(kMxfp4Levels[k]));
        };
        if (distance(i) < distance(best)) best = i;
    }
    return best;
}

const Format kMxfp4{TensorType::mxfp4, {"mxfp4", 32, sizeof(BlockMxfp4)}, dequantize, quantize};

}  // namespace helix::model::quant

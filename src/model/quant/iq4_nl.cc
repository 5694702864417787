#include "model/quant/iq4_nl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockIq4Nl block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (int i = 0; i < 16; ++i) {
            out[i] = scale * static_cast<float>(kIq4Levels[block.q[i] & 15]);
            out[i + 16] = scale * static_cast<float>(kIq4Levels[block.q[i] >> 4]);
        }
    }
}

// The element of largest magnitude becomes the level farthest from zero.
BlockIq4Nl quantize_block(const float* values) {
    float extreme = 0;
    for (int i = 0; i < 32; ++i) {
        if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
    }
    BlockIq4Nl block{};
    block.scale = float_to_half(extreme / static_cast<float>(kIq4Levels[0]));
    const float scale = half_to_float(block.scale);
    for (int i = 0; i < 16; ++i) {
        block.q[i] = static_cast<std::uint8_t>(nearest_iq4_level(values[i], scale) |
                                               (nearest_iq4_level(values[i + 16], scale) << 4));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockIq4Nl block = quantize_block(values + b * 32);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

unsigned nearest_iq4_level(float value, float unit) {
    unsigned best = 0;
    for (unsigned i = 1; i < 16; ++i) {
        const auto distance = [&](unsigned k) {
            return std::fabs(value - unit * static_cast<float>(kIq4Levels[k]));
        };
        if (distance(i) < distance(best)) best = i;
    }
    return best;
}

const Format kIq4Nl{TensorType::iq4_nl, {"iq4_nl", 32, sizeof(BlockIq4Nl)}, dequantize, quantize};

}  // namespace helix::model::quant

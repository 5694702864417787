#include "model/quant/iq4_xs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"
#include "model/quant/iq4_nl.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        BlockIq4Xs block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        for (int group = 0; group < 8; ++group, out += 32) {
            const int low = (block.low[group / 2] >> (4 * (group % 2))) & 15;
            const int high = (block.high >> (2 * group)) & 3;
            const float scale =
                half_to_float(block.scale) * static_cast<float>((low | high << 4) - 32);
            for (int i = 0; i < 16; ++i) {
                const int both = block.q[16 * group + i];
                out[i] = scale * static_cast<float>(kIq4Levels[both & 15]);
                out[i + 16] = scale * static_cast<float>(kIq4Levels[both >> 4]);
            }
        }
    }
}

// The extreme element of a group becomes the level farthest from zero; the extreme group scale
// becomes -32.
BlockIq4Xs quantize_block(const float* values) {
    float steps[8];
    float extreme_step = 0;
    for (int group = 0; group < 8; ++group) {
        float extreme = 0;
        for (int i = 0; i < 32; ++i) {
            const float value = values[32 * group + i];
            if (std::fabs(value) > std::fabs(extreme)) extreme = value;
        }
        steps[group] = extreme / static_cast<float>(kIq4Levels[0]);
        if (std::fabs(steps[group]) > std::fabs(extreme_step)) extreme_step = steps[group];
    }
    BlockIq4Xs block{};
    block.scale = float_to_half(extreme_step / -32.0F);
    const float scale = half_to_float(block.scale);
    for (int group = 0; group < 8; ++group) {
        const long rounded =
            scale != 0 ? std::clamp(std::lrintf(steps[group] / scale), -32L, 31L) : 0L;
        const auto packed = static_cast<unsigned>(rounded + 32);
        std::uint8_t& low = block.low[group / 2];
        low = static_cast<std::uint8_t>(low | (packed & 15U) << (4 * (group % 2)));
        block.high = static_cast<std::uint16_t>(block.high | (packed >> 4U) << (2 * group));
        const float unit = scale * static_cast<float>(rounded);
        const float* of_group = values + 32 * group;
        for (int i = 0; i < 16; ++i) {
            block.q[16 * group + i] =
                static_cast<std::uint8_t>(nearest_iq4_level(of_group[i], unit) |
                                          nearest_iq4_level(of_group[i + 16], unit) << 4);
        }
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockIq4Xs block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kIq4Xs{TensorType::iq4_xs, {"iq4_xs", 256, sizeof(BlockIq4Xs)}, dequantize, quantize};

}  // namespace helix::model::quant

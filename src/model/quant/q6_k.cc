#include "model/quant/q6_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        BlockQ6K block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (int e = 0; e < 256; ++e) {
            const PlaceQ6K at = place_in_q6_k(e);
            const std::int8_t group_scale = block.scales[e / 16];
            const int q = ((block.low[at.low] >> at.low_shift) & 15) |
                          (((block.high[at.high] >> at.high_shift) & 3) << 4);
            *out++ = scale * static_cast<float>(group_scale) * static_cast<float>(q - 32);
        }
    }
}

// The extreme element of a group becomes -32; the extreme group scale becomes -128.
BlockQ6K quantize_block(const float* values) {
    float steps[16];
    float extreme_step = 0;
    for (int group = 0; group < 16; ++group) {
        float extreme = 0;
        for (int i = 0; i < 16; ++i) {
            const float value = values[group * 16 + i];
            if (std::fabs(value) > std::fabs(extreme)) extreme = value;
        }
        steps[group] = extreme / -32.0F;
        if (std::fabs(steps[group]) > std::fabs(extreme_step)) extreme_step = steps[group];
    }
    BlockQ6K block{};
    block.scale = float_to_half(extreme_step / -128.0F);
    const float scale = half_to_float(block.scale);
    const auto level = [](float value, float unit, long low, long high) {
        return unit != 0 ? std::clamp(std::lrintf(value / unit), low, high) : 0L;
    };
    for (int group = 0; group < 16; ++group) {
        block.scales[group] = static_cast<std::int8_t>(level(steps[group], scale, -128, 127));
    }
    for (int e = 0; e < 256; ++e) {
        const std::int8_t group_scale = block.scales[e / 16];
        const float step = scale * static_cast<float>(group_scale);
        const unsigned q = static_cast<unsigned>(level(values[e], step, -32, 31) + 32);
        put_element(block, e, q);
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ6K block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ6K{TensorType::q6_k, {"q6_k", 256, sizeof(BlockQ6K)}, dequantize, quantize};

}  // namespace helix::model::quant

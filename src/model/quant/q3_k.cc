#include "model/quant/q3_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 256) {
        BlockQ3K block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (int e = 0; e < 256; ++e) {
            const int half = e / 128;
            const int quarter = e % 128 / 32;
            const int i = e % 32;
            const int q = ((block.low[32 * half + i] >> (2 * quarter)) & 3) |
                          (((block.high[i] >> (4 * half + quarter)) & 1) << 2);
            const int step = group_scale(block.packed, e / 16) - 32;
            out[e] = scale * static_cast<float>(step) * static_cast<float>(q - 4);
        }
    }
}

// The extreme element of a group becomes -4; the extreme group scale becomes -32.
BlockQ3K quantize_block(const float* values) {
    float steps[16];
    float extreme_step = 0;
    for (int group = 0; group < 16; ++group) {
        float extreme = 0;
        for (int i = 0; i < 16; ++i) {
            const float value = values[group * 16 + i];
            if (std::fabs(value) > std::fabs(extreme)) extreme = value;
        }
        steps[group] = extreme / -4.0F;
        if (std::fabs(steps[group]) > std::fabs(extreme_step)) extreme_step = steps[group];
    }
    BlockQ3K block{};
    block.scale = float_to_half(extreme_step / -32.0F);
    const float scale = half_to_float(block.scale);
    const auto level = [](float value, float unit, long low, long high) {
        return unit != 0 ? std::clamp(std::lrintf(value / unit), low, high) : 0L;
    };
    for (int e = 0; e < 256; ++e) {
        const long packed = level(steps[e / 16], scale, -32, 31);
        if (e % 16 == 0) {
            put_group_scale(block.packed, e / 16, static_cast<unsigned>(packed + 32));
        }
        const float step = scale * static_cast<float>(packed);
        const auto q = static_cast<unsigned>(level(values[e], step, -4, 3) + 4);
        put_element(block, e, q);
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ3K block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ3K{TensorType::q3_k, {"q3_k", 256, sizeof(BlockQ3K)}, dequantize, quantize};

}  // namespace helix::model::quant

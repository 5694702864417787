#include "model/quant/q4_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        BlockQ4K block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        const float min = half_to_float(block.min);
        for (int group = 0; group < 8; ++group) {
            const GroupScaleMin packed = group_scale_min(block.packed, group);
            const float step = scale * static_cast<float>(packed.scale);
            const float offset = min * static_cast<float>(packed.min);
            const std::uint8_t* q = block.q + group / 2 * 32;
            for (int i = 0; i < 32; ++i) {
                const int nibble = group % 2 == 0 ? q[i] & 15 : q[i] >> 4;
                *out++ = step * static_cast<float>(nibble) - offset;
            }
        }
    }
}

BlockQ4K quantize_block(const float* values) {
    const GroupSteps groups = fit_groups(values, 15);
    BlockQ4K block{};
    block.scale = groups.scale;
    block.min = groups.min;
    std::memcpy(block.packed, groups.packed, sizeof block.packed);
    for (int group = 0; group < 8; ++group) {
        std::uint8_t* q = block.q + group / 2 * 32;
        for (int i = 0; i < 32; ++i) {
            const int nibble = nearest_level(values[group * 32 + i] + groups.offset[group],
                                             groups.step[group], 15);
            q[i] = static_cast<std::uint8_t>(q[i] | (group % 2 == 0 ? nibble : nibble << 4));
        }
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ4K block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

std::uint8_t nearest_level(float value, float unit, long top) {
    return static_cast<std::uint8_t>(unit > 0 ? std::clamp(std::lrintf(value / unit), 0L, top)
                                              : 0L);
}

GroupSteps fit_groups(const float* values, float top) {
    float steps[8];
    float offsets[8];
    for (int group = 0; group < 8; ++group) {
        const auto [low, high] = std::minmax_element(values + group * 32, values + group * 32 + 32);
        offsets[group] = std::max(0.0F, -*low);
        steps[group] = (std::max(*high, 0.0F) + offsets[group]) / top;
    }
    GroupSteps groups;
    groups.scale = float_to_half(*std::max_element(steps, steps + 8) / 63.0F);
    groups.min = float_to_half(*std::max_element(offsets, offsets + 8) / 63.0F);
    const float scale = half_to_float(groups.scale);
    const float min = half_to_float(groups.min);
    for (int group = 0; group < 8; ++group) {
        const GroupScaleMin packed{nearest_level(steps[group], scale, 63),
                                   nearest_level(offsets[group], min, 63)};
        put_group_scale_min(groups.packed, group, packed);
        groups.step[group] = scale * static_cast<float>(packed.scale);
        groups.offset[group] = min * static_cast<float>(packed.min);
    }
    return groups;
}

const Format kQ4K{TensorType::q4_k, {"q4_k", 256, sizeof(BlockQ4K)}, dequantize, quantize};

}  // namespace helix::model::quant

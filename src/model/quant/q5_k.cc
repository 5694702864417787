#include "model/quant/q5_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"
#include "model/quant/q4_k.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 256) {
        BlockQ5K block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        const float min = half_to_float(block.min);
        for (int group = 0; group < 8; ++group) {
            const GroupScaleMin packed = group_scale_min(block.packed, group);
            const float step = scale * static_cast<float>(packed.scale);
            const float offset = min * static_cast<float>(packed.min);
            const std::uint8_t* low = block.low + group / 2 * 32;
            for (int i = 0; i < 32; ++i) {
                const int nibble = group % 2 == 0 ? low[i] & 15 : low[i] >> 4;
                const int q = nibble | (((block.high[i] >> group) & 1) << 4);
                out[group * 32 + i] = step * static_cast<float>(q) - offset;
            }
        }
    }
}

BlockQ5K quantize_block(const float* values) {
    const GroupSteps groups = fit_groups(values, 31);
    BlockQ5K block{};
    block.scale = groups.scale;
    block.min = groups.min;
    std::memcpy(block.packed, groups.packed, sizeof block.packed);
    for (int group = 0; group < 8; ++group) {
        std::uint8_t* low = block.low + group / 2 * 32;
        for (int i = 0; i < 32; ++i) {
            const int q = nearest_level(values[group * 32 + i] + groups.offset[group],
                                        groups.step[group], 31);
            const int nibble = q & 15;
            low[i] = static_cast<std::uint8_t>(low[i] | (group % 2 == 0 ? nibble : nibble << 4));
            block.high[i] = static_cast<std::uint8_t>(block.high[i] | ((q >> 4) << group));
        }
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ5K block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ5K{TensorType::q5_k, {"q5_k", 256, sizeof(BlockQ5K)}, dequantize, quantize};

}  // namespace helix::model::quant

#include "model/quant/q2_k.h"

#include <algorithm>
#include <cstring>

#include "model/quant/half.h"
#include "model/quant/q4_k.h"

namespace helix::model::quant {
namespace {

// What the values of a group are steps and an offset of.
struct Steps {
    float step;
    float offset;
};
Steps steps_of(const BlockQ2K& block, int group) {
    return {half_to_float(block.scale) * static_cast<float>(block.packed[group] & 15),
            half_to_float(block.min) * static_cast<float>(block.packed[group] >> 4)};
}

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 256) {
        BlockQ2K block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        for (int e = 0; e < 256; ++e) {
            const int q = (block.q[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3;
            const Steps of = steps_of(block, e / 16);
            out[e] = of.step * static_cast<float>(q) - of.offset;
        }
    }
}

// Each group spans its values from the least one, or zero, to the greatest.
BlockQ2K quantize_block(const float* values) {
    float steps[16];
    float offsets[16];
    for (int group = 0; group < 16; ++group) {
        const auto [low, high] = std::minmax_element(values + group * 16, values + group * 16 + 16);
        offsets[group] = std::max(0.0F, -*low);
        steps[group] = (std::max(*high, 0.0F) + offsets[group]) / 3.0F;
    }
    BlockQ2K block{};
    block.scale = float_to_half(*std::max_element(steps, steps + 16) / 15.0F);
    block.min = float_to_half(*std::max_element(offsets, offsets + 16) / 15.0F);
    for (int group = 0; group < 16; ++group) {
        block.packed[group] = static_cast<std::uint8_t>(
            nearest_level(steps[group], half_to_float(block.scale), 15) |
            nearest_level(offsets[group], half_to_float(block.min), 15) << 4);
    }
    for (int e = 0; e < 256; ++e) {
        const Steps of = steps_of(block, e / 16);
        std::uint8_t& byte = block.q[32 * (e / 128) + e % 32];
        byte = static_cast<std::uint8_t>(byte | nearest_level(values[e] + of.offset, of.step, 3)
                                                    << (2 * (e % 128 / 32)));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ2K block = quantize_block(values + b * 256);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ2K{TensorType::q2_k, {"q2_k", 256, sizeof(BlockQ2K)}, dequantize, quantize};

}  // namespace helix::model::quant

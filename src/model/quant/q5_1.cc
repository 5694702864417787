#include "model/quant/q5_1.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/five_bits.h"
#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockQ5_1 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        const float min = half_to_float(block.min);
        for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(five_bits(block, i)) + min;
    }
}

// Divides the range from the least value to the greatest into 31 steps.
BlockQ5_1 quantize_block(const float* values) {
    const auto [low, high] = std::minmax_element(values, values + 32);
    BlockQ5_1 block{};
    block.scale = float_to_half((*high - *low) / 31.0F);
    block.min = float_to_half(*low);
    const float scale = half_to_float(block.scale);
    const float min = half_to_float(block.min);
    if (!(scale > 0)) return block;
    for (int i = 0; i < 32; ++i) {
        const long level = std::clamp(std::lrintf((values[i] - min) / scale), 0L, 31L);
        put_five_bits(block, i, static_cast<unsigned>(level));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ5_1 block = quantize_block(values + b * 32);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ5_1{TensorType::q5_1, {"q5_1", 32, sizeof(BlockQ5_1)}, dequantize, quantize};

}  // namespace helix::model::quant

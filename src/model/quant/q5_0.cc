#include "model/quant/q5_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/five_bits.h"
#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockQ5_0 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(five_bits(block, i) - 16);
    }
}

// The element of largest magnitude becomes -16, which uses all 32 steps.
BlockQ5_0 quantize_block(const float* values) {
    float extreme = 0;
    for (int i = 0; i < 32; ++i) {
        if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
    }
    const float scale = extreme / -16.0F;
    const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
    BlockQ5_0 block{};
    block.scale = float_to_half(scale);
    for (int i = 0; i < 32; ++i) {
        const long level = std::clamp(std::lrintf(values[i] * inverse) + 16L, 0L, 31L);
        put_five_bits(block, i, static_cast<unsigned>(level));
    }
    return block;
}

void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const BlockQ5_0 block = quantize_block(values + b * 32);
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ5_0{TensorType::q5_0, {"q5_0", 32, sizeof(BlockQ5_0)}, dequantize, quantize};

}  // namespace helix::model::quant

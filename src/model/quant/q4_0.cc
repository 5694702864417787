#include "model/quant/q4_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b, out += 32) {
        BlockQ4_0 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (int i = 0; i < 16; ++i) {
            out[i] = scale * static_cast<float>((block.q[i] & 15) - 8);
            out[i + 16] = scale * static_cast<float>((block.q[i] >> 4) - 8);
        }
    }
}

// The element of largest magnitude becomes -8, which uses all 16 steps.
void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b, values += 32) {
        float extreme = 0;
        for (int i = 0; i < 32; ++i) {
            if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
        }
        const float scale = extreme / -8.0F;
        const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
        const auto level = [&](float value) {
            return static_cast<unsigned>(std::clamp(std::lrintf(value * inverse) + 8L, 0L, 15L));
        };
        BlockQ4_0 block;
        block.scale = float_to_half(scale);
        for (int i = 0; i < 16; ++i) {
            block.q[i] = static_cast<std::uint8_t>(level(values[i]) | (level(values[i + 16]) << 4));
        }
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ4_0{TensorType::q4_0, {"q4_0", 32, sizeof(BlockQ4_0)}, dequantize, quantize};

}  // namespace helix::model::quant

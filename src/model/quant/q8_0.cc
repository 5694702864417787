#include "model/quant/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

void dequantize(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        BlockQ8_0 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        const float scale = half_to_float(block.scale);
        for (const std::int8_t q : block.q) *out++ = scale * static_cast<float>(q);
    }
}

// The largest magnitude becomes +-127.
void quantize(const float* values, std::size_t blocks, std::byte* out) {
    for (std::size_t b = 0; b < blocks; ++b, values += 32) {
        float largest = 0;
        for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
        const float scale = largest / 127.0F;
        const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
        BlockQ8_0 block;
        block.scale = float_to_half(scale);
        for (int i = 0; i < 32; ++i) {
            const float q = std::clamp(values[i] * inverse, -127.0F, 127.0F);
            block.q[i] = static_cast<std::int8_t>(std::lrintf(q));
        }
        std::memcpy(out + b * sizeof block, &block, sizeof block);
    }
}

}  // namespace

const Format kQ8_0{TensorType::q8_0, {"q8_0", 32, sizeof(BlockQ8_0)}, dequantize, quantize};

}  // namespace helix::model::quant

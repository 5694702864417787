#include "model/quant/fp8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"
#include "model/quant/half.h"

namespace helix::model::quant {
namespace {

constexpr float kGreatestFp8 = 1.75F;  // 448 / 256
constexpr unsigned kGreatestFp8Bits = 0x7e;

void dequantize_fp8(const std::byte* bytes, std::size_t blocks, float* out) {
    for (std::size_t b = 0; b < blocks; ++b) {
        BlockFp8 block;
        std::memcpy(&block, bytes + b * sizeof block, sizeof block);
        for (const std::uint8_t q : block.q) *out++ = block.scale * half_to_float(fp8_half(q));
    }
}

// To the nearest, ties to even: lrintf() gives the fraction with the bit before it, or what is
// below the least exponent as it is.
std::uint8_t nearest_fp8(float value) {
    const float magnitude = std::min(std::fabs(value), kGreatestFp8);
    unsigned bits = 0;
    if (magnitude >= 0x1.0p-14F) {
        const int exponent = std::ilogb(magnitude);
        const long fraction = std::lrintf(std::ldexp(magnitude, 3 - exponent));
        bits = static_cast<unsigned>((exponent + 15) * 8 + fraction - 8);
    } else {
        bits = static_cast<unsigned>(std::lrintf(magnitude * 0x1.0p17F));
    }
    bits = std::min(bits, kGreatestFp8Bits) | (std::signbit(value) ? 0x80U : 0U);
    return static_cast<std::uint8_t>(bits);
}

BlockFp8 quantize_fp8_block(const float* values) {
    BlockFp8 block{};
    block.scale = greatest_magnitude(values, 64) / kGreatestFp8;
    if (!(block.scale > 0)) return block;
    for (int i = 0; i < 64; ++i) block.q[i] = nearest_fp8(values[i] / block.scale);
    return block;
}

}  // namespace

const Format kFp8{TensorType::fp8,
                  {"fp8", 64, sizeof(BlockFp8)},
                  dequantize_fp8,
                  quantize_blocks<quantize_fp8_block, 64>};

}  // namespace helix::model::quant

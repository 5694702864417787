#include "model/quant/nvfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "model/quant/codes.h"
#include "model/quant/grid_points.h"
#include "model/quant/mxfp4.h"

namespace helix::model::quant {
namespace {

// Half of an E4M3 number: an exponent of four bits that is 7 too large, three bits of fraction. The
// one that is no number counts as zero, as it does in ggml.
float half_of_e4m3(unsigned bits) {
    const unsigned magnitude = bits & 0x7fU;
    if (bits == 0x7fU) return 0;
    if (magnitude < 8) return static_cast<float>(magnitude) * 0x1.0p-10F;
    return std::bit_cast<float>((magnitude << 20U) + (119U << 23U));
}

void decode_nvfp4(const std::byte* block, int part, Codes& codes) {
    for (int half = 0; half < 2; ++half) {
        const int sixteen = 2 * part + half;
        const std::byte* bytes = block + offsetof(BlockNvfp4, q) + 8 * sixteen;
        std::uint8_t* q = codes.q + 16 * half;
        for (int i = 0; i < 8; ++i) {
            const unsigned both = byte_at(bytes, i);
            q[i] = static_cast<std::uint8_t>(kRaised + kMxfp4Levels[both & 15U]);
            q[i + 8] = static_cast<std::uint8_t>(kRaised + kMxfp4Levels[both >> 4U]);
        }
        codes.scale[half] = half_of_e4m3(byte_at(block, sixteen));
    }
}

// The scale that brings the greatest magnitude nearest to the greatest level.
std::uint8_t nearest_scale(float greatest) {
    const float wanted = greatest / static_cast<float>(kMxfp4Levels[7]);
    unsigned best = 0;
    for (unsigned bits = 1; bits < 0x7fU; ++bits) {
        if (std::fabs(half_of_e4m3(bits) - wanted) < std::fabs(half_of_e4m3(best) - wanted))
            best = bits;
    }
    return static_cast<std::uint8_t>(best);
}

BlockNvfp4 quantize_nvfp4_block(const float* values) {
    BlockNvfp4 block{};
    for (int sixteen = 0; sixteen < 4; ++sixteen, values += 16) {
        block.scales[sixteen] = nearest_scale(greatest_magnitude(values, 16));
        const float unit = half_of_e4m3(block.scales[sixteen]);
        for (int i = 0; i < 8; ++i) {
            block.q[8 * sixteen + i] =
                static_cast<std::uint8_t>(nearest_mxfp4_level(values[i], unit) |
                                          nearest_mxfp4_level(values[i + 8], unit) << 4U);
        }
    }
    return block;
}

}  // namespace

const Format kNvfp4{TensorType::nvfp4,
                    {"nvfp4", 64, sizeof(BlockNvfp4)},
                    dequantize_codes<decode_nvfp4, 2, sizeof(BlockNvfp4)>,
                    quantize_blocks<quantize_nvfp4_block, 64>,
                    decode_nvfp4};

}  // namespace helix::model::quant

#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// MXFP4: blocks of 32: one byte e, 16 bytes of nibbles as Q4_0; w = 2^(e - 128) * level[q], sixteen
// fixed levels. The scale is packed as a bfloat16, which holds every such power of two.

namespace helix::engine::ops {
namespace {

// 2^(e - 128) as a bfloat16: subnormal for the least two.
std::uint16_t scale_bits(unsigned e) {
    if (e < 2) return static_cast<std::uint16_t>(0x20U << e);
    return static_cast<std::uint16_t>((e - 1) << 7U);
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        const std::uint16_t scale = scale_bits(static_cast<unsigned>(blocks[row][0]));
        std::memcpy(out + 2 * row, &scale, 2);
        pack_nibbles(blocks[row] + 1, row, out + 32);
    }
}

}  // namespace

const Format& mxfp4_format() {
    static constexpr Format kFormat{"mxfp4", 32, 17, 288, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

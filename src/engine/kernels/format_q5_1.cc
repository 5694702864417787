#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// Q5_1: blocks of 32: half d, half m, 4 bytes of fifth bits, 16 bytes of nibbles as Q4_0; w = d * q
// + m.

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        std::memcpy(out + 32 + 2 * row, blocks[row] + 2, 2);
        pack_nibbles(blocks[row] + 8, row, out + 64);
        pack_bit_plane(blocks[row] + 4, row, out + 64 + 256);
    }
}

}  // namespace

const Format& q5_1_format() {
    static constexpr Format kFormat{"q5_1", 32, 24, 384, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

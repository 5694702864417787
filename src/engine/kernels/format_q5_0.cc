#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// Q5_0: blocks of 32: half d, 4 bytes of fifth bits, 16 bytes of nibbles as Q4_0; w = d * (q - 16).

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        pack_nibbles(blocks[row] + 6, row, out + 32);
        pack_bit_plane(blocks[row] + 2, row, out + 32 + 256);
    }
}

}  // namespace

const Format& q5_0_format() {
    static constexpr Format kFormat{"q5_0", 32, 22, 352, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

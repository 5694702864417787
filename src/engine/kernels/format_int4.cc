#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// INT4: blocks of 32: two bytes of d, a half or a bfloat, one of the zero z and which of these d
// is, 16 bytes of nibbles as Q4_0; w = d * (q - z).

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        out[32 + row] = blocks[row][2];
        pack_nibbles(blocks[row] + 3, row, out + 48);
    }
}

}  // namespace

const Format& int4_format() {
    static constexpr Format kFormat{"int4", 32, 19, 304, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

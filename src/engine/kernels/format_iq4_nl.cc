#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// IQ4_NL: blocks of 32: half d, 16 bytes of nibbles as Q4_0; w = d * level[q], sixteen fixed
// levels.

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        pack_nibbles(blocks[row] + 2, row, out + 32);
    }
}

}  // namespace

const Format& iq4_nl_format() {
    static constexpr Format kFormat{"iq4_nl", 32, 18, 288, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

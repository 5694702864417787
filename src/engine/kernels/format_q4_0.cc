#include <cstring>

#include "engine/kernels/formats.h"

// Q4_0: blocks of 32: half d, 16 bytes; element i < 16 is the low nibble of byte i, i + 16 the high
// one; w = d * (q - 8).

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    std::byte* q = out + 32;
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        for (int v = 0; v < 4; ++v) std::memcpy(q + v * 64 + row * 4, blocks[row] + 2 + 4 * v, 4);
    }
}

}  // namespace

const Format& q4_0_format() {
    static constexpr Format kFormat{"q4_0", 32, 18, 288, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

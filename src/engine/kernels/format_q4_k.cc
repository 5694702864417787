#include <cstring>

#include "engine/kernels/format_k_scales.h"
#include "engine/kernels/formats.h"

// Q4_K: blocks of 256: half d, half dmin, 12 bytes of eight 6-bit scales and eight 6-bit mins, 128
// bytes of nibbles (columns 64i .. 64i+31 low, 64i+32 .. 64i+63 high, in bytes 32i ..). For column
// c of the eighth j: w = d * scale[j] * q - dmin * min[j].

namespace helix::engine::ops {
namespace {

// Element c (0 .. 31) of the eighth j.
unsigned nibble(const std::byte* block, int j, int c) {
    const auto byte = static_cast<unsigned>(block[16 + 32 * (j / 2) + c]);
    return j % 2 == 0 ? byte & 15U : byte >> 4U;
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        const std::byte* block = blocks[row];
        std::memcpy(out + 2 * row, block, 2);
        std::memcpy(out + 32 + 2 * row, block + 2, 2);
        const KScales e = unpack_scales(block + 4);
        for (int j = 0; j < 8; ++j) {
            std::byte* eighth = out + 64 + 288 * j;
            eighth[row] = std::byte{e.scale[j]};
            eighth[16 + row] = std::byte{e.min[j]};
            for (int i = 0; i < 16; ++i) {
                const unsigned both = nibble(block, j, i) | (nibble(block, j, i + 16) << 4U);
                eighth[32 + (i / 4) * 64 + row * 4 + i % 4] = static_cast<std::byte>(both);
            }
        }
    }
}

}  // namespace

const Format& q4_k_format() {
    static constexpr Format kFormat{"q4_k", 256, 144, 64 + 8 * 288, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

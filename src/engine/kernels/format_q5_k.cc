#include <cstring>

#include "engine/kernels/format_k_scales.h"
#include "engine/kernels/formats.h"

// Q5_K: blocks of 256: half d, half dmin, 12 bytes of scales and mins as Q4_K, 32 bytes of fifth
// bits (bit j of byte c for column c of the eighth j), 128 bytes of nibbles as Q4_K; for column c
// of the eighth j: w = d * scale[j] * q - dmin * min[j].

namespace helix::engine::ops {
namespace {

constexpr int kHighOffset = 16;
constexpr int kLowOffset = 48;

// Element c (0 .. 31) of the eighth j.
unsigned nibble(const std::byte* block, int j, int c) {
    const auto byte = static_cast<unsigned>(block[kLowOffset + 32 * (j / 2) + c]);
    return j % 2 == 0 ? byte & 15U : byte >> 4U;
}
unsigned high_bit(const std::byte* block, int j, int c) {
    return (static_cast<unsigned>(block[kHighOffset + c]) >> static_cast<unsigned>(j)) & 1U;
}

void pack_eighth(const std::byte* block, int j, int row, std::byte* eighth) {
    for (int i = 0; i < 16; ++i) {
        const unsigned both = nibble(block, j, i) | (nibble(block, j, i + 16) << 4U);
        eighth[32 + (i / 4) * 64 + row * 4 + i % 4] = static_cast<std::byte>(both);
    }
    for (int i = 0; i < 4; ++i) {
        unsigned bits = 0;
        for (int g = 0; g < 8; ++g) {
            bits |= high_bit(block, j, 4 * g + i) << static_cast<unsigned>(g);
        }
        eighth[32 + 256 + row * 4 + i] = static_cast<std::byte>(bits);
    }
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        const std::byte* block = blocks[row];
        std::memcpy(out + 2 * row, block, 2);
        std::memcpy(out + 32 + 2 * row, block + 2, 2);
        const KScales e = unpack_scales(block + 4);
        for (int j = 0; j < 8; ++j) {
            std::byte* eighth = out + 64 + 352 * j;
            eighth[row] = std::byte{e.scale[j]};
            eighth[16 + row] = std::byte{e.min[j]};
            pack_eighth(block, j, row, eighth);
        }
    }
}

}  // namespace

const Format& q5_k_format() {
    static constexpr Format kFormat{"q5_k", 256, 176, 64 + 8 * 352, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

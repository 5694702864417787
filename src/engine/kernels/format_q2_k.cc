#include <cstring>

#include "engine/kernels/formats.h"

// Q2_K: blocks of 256: 16 bytes of a 4-bit scale and a 4-bit min (of 16 columns each), 64 bytes of
// two bits, half d, half dmin; w = d * scale * q - dmin * min. Column 128 h + 32 j + i is at bit
// 2 j of byte 32 h + i.

namespace helix::engine::ops {
namespace {

constexpr int kBitsOffset = 16;
constexpr int kDOffset = 80;
constexpr int kEighthBytes = 160;

unsigned two_bits(const std::byte* block, int c) {
    const auto byte = static_cast<unsigned>(block[kBitsOffset + 32 * (c / 128) + c % 32]);
    return (byte >> static_cast<unsigned>(2 * (c % 128 / 32))) & 3U;
}

void pack_eighth(const std::byte* block, int j, int row, std::byte* eighth) {
    eighth[row] = block[2 * j];
    eighth[16 + row] = block[2 * j + 1];
    for (int i = 0; i < 4; ++i) {  // column i of each group of four
        for (int v = 0; v < 2; ++v) {
            unsigned bits = 0;
            for (int g = 0; g < 4; ++g) {
                bits |= two_bits(block, 32 * j + 16 * v + 4 * g + i)
                        << static_cast<unsigned>(2 * g);
            }
            eighth[32 + v * 64 + row * 4 + i] = static_cast<std::byte>(bits);
        }
    }
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row] + kDOffset, 2);
        std::memcpy(out + 32 + 2 * row, blocks[row] + kDOffset + 2, 2);
        for (int j = 0; j < 8; ++j) pack_eighth(blocks[row], j, row, out + 64 + kEighthBytes * j);
    }
}

}  // namespace

const Format& q2_k_format() {
    static constexpr Format kFormat{"q2_k", 256, 84, 64 + 8 * kEighthBytes, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

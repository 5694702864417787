#include <cstring>

#include "engine/kernels/formats.h"

// Q6_K: blocks of 256: 128 bytes of low four bits, 64 bytes of high two bits, 16 int8 scales (one
// for 16 columns), half d; w = d * scale * (q - 32). In each half of 128 columns: columns 0-31 and
// 64-95 are the low and high nibbles of bytes 0-31, 32-63 and 96-127 those of bytes 32-63; the high
// bits of columns l, l+32, l+64, l+96 are bits 0-1, 2-3, 4-5, 6-7 of byte l.

namespace helix::engine::ops {
namespace {

constexpr int kHighOffset = 128;
constexpr int kScaleOffset = 192;
constexpr int kDOffset = 208;

// The six bits of column c.
unsigned value(const std::byte* block, int c) {
    const int half = c / 128;
    const int quarter = c % 128 / 32;
    const int l = c % 32;
    const auto low_byte = static_cast<unsigned>(block[64 * half + 32 * (quarter % 2) + l]);
    const auto high_byte = static_cast<unsigned>(block[kHighOffset + 32 * half + l]);
    const unsigned low = quarter < 2 ? low_byte & 15U : low_byte >> 4U;
    return low | (((high_byte >> (2 * static_cast<unsigned>(quarter))) & 3U) << 4U);
}

void pack_eighth(const std::byte* block, int j, int row, std::byte* eighth) {
    eighth[row] = block[kScaleOffset + 2 * j];
    eighth[16 + row] = block[kScaleOffset + 2 * j + 1];
    std::byte* low = eighth + 32;
    std::byte* high = eighth + 32 + 256;
    for (int i = 0; i < 4; ++i) {  // column i of each group of four
        for (int v = 0; v < 4; ++v) {
            const unsigned a = value(block, 32 * j + 4 * v + i) & 15U;
            const unsigned b = value(block, 32 * j + 16 + 4 * v + i) & 15U;
            low[v * 64 + row * 4 + i] = static_cast<std::byte>(a | (b << 4U));
        }
        for (int v = 0; v < 2; ++v) {
            unsigned bits = 0;
            for (unsigned g = 0; g < 4; ++g) {
                bits |= (value(block, 32 * j + 16 * v + 4 * static_cast<int>(g) + i) >> 4U)
                        << (2 * g);
            }
            high[v * 64 + row * 4 + i] = static_cast<std::byte>(bits);
        }
    }
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row] + kDOffset, 2);
        for (int j = 0; j < 8; ++j) pack_eighth(blocks[row], j, row, out + 32 + 416 * j);
    }
}

}  // namespace

const Format& q6_k_format() {
    static constexpr Format kFormat{"q6_k", 256, 210, 32 + 8 * 416, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

#include <cstring>

#include "engine/kernels/formats.h"

// Q3_K: blocks of 256: 32 bytes of third bits, 64 bytes of low two bits, 12 bytes of sixteen 6-bit
// scales (one for 16 columns), half d; w = d * (scale - 32) * (q - 4). Column 128 h + 32 j + i has
// its low bits at bit 2 j of low byte 32 h + i, its third at bit 4 h + j of high byte i.

namespace helix::engine::ops {
namespace {

constexpr int kLowOffset = 32;
constexpr int kScaleOffset = 96;
constexpr int kDOffset = 108;

unsigned byte_at(const std::byte* block, int i) {
    return static_cast<unsigned>(block[i]);
}

// Of the group of 16 columns: the low four bits are nibbles of the first eight bytes, the upper two
// lie in fours in the last four.
int scale_of(const std::byte* block, int group) {
    const unsigned nibbles = byte_at(block, kScaleOffset + group % 8);
    const unsigned low = group < 8 ? nibbles & 15U : nibbles >> 4U;
    const unsigned fours = byte_at(block, kScaleOffset + 8 + group % 4);
    const unsigned high = (fours >> static_cast<unsigned>(2 * (group / 4))) & 3U;
    return static_cast<int>(low | (high << 4U)) - 32;
}

// Of column c: its low two bits and its third.
unsigned low_bits(const std::byte* block, int c) {
    const unsigned byte = byte_at(block, kLowOffset + 32 * (c / 128) + c % 32);
    return (byte >> static_cast<unsigned>(2 * (c % 128 / 32))) & 3U;
}
unsigned high_bit(const std::byte* block, int c) {
    return (byte_at(block, c % 32) >> static_cast<unsigned>(c / 32)) & 1U;
}

void pack_eighth(const std::byte* block, int j, int row, std::byte* eighth) {
    eighth[row] = static_cast<std::byte>(scale_of(block, 2 * j));
    eighth[16 + row] = static_cast<std::byte>(scale_of(block, 2 * j + 1));
    for (int i = 0; i < 4; ++i) {  // column i of each group of four
        unsigned high = 0;
        for (int g = 0; g < 8; ++g) {
            high |= high_bit(block, 32 * j + 4 * g + i) << static_cast<unsigned>(g);
        }
        eighth[32 + 128 + row * 4 + i] = static_cast<std::byte>(high);
        for (int v = 0; v < 2; ++v) {
            unsigned low = 0;
            for (int g = 0; g < 4; ++g) {
                low |= low_bits(block, 32 * j + 16 * v + 4 * g + i) << static_cast<unsigned>(2 * g);
            }
            eighth[32 + v * 64 + row * 4 + i] = static_cast<std::byte>(low);
        }
    }
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row] + kDOffset, 2);
        for (int j = 0; j < 8; ++j) pack_eighth(blocks[row], j, row, out + 32 + 224 * j);
    }
}

}  // namespace

const Format& q3_k_format() {
    static constexpr Format kFormat{"q3_k", 256, 110, 32 + 8 * 224, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

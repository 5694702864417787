#pragma once

#include <cstddef>
#include <cstring>

// Parts of pack_unit that formats with blocks of 32 share. row: of the panel.

namespace helix::engine::ops {

// 16 bytes, element i < 16 in the low nibble of byte i and i + 16 in the high one -> [4][16][4].
inline void pack_nibbles(const std::byte* nibbles, int row, std::byte* out) {
    for (int v = 0; v < 4; ++v) std::memcpy(out + v * 64 + row * 4, nibbles + 4 * v, 4);
}

// 4 bytes, bit i % 8 of byte i / 8 for element i -> [16][4]: bit g of byte i for element 4 g + i.
inline void pack_bit_plane(const std::byte* bits, int row, std::byte* out) {
    for (int i = 0; i < 4; ++i) {
        unsigned byte = 0;
        for (int g = 0; g < 8; ++g) {
            const int element = 4 * g + i;
            const unsigned bit =
                (static_cast<unsigned>(bits[element / 8]) >> static_cast<unsigned>(element % 8)) &
                1U;
            byte |= bit << static_cast<unsigned>(g);
        }
        out[row * 4 + i] = static_cast<std::byte>(byte);
    }
}

}  // namespace helix::engine::ops

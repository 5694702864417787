#include <cstring>

#include "engine/kernels/format_blocks32.h"
#include "engine/kernels/formats.h"

// IQ4_XS: blocks of 256: half d, two bytes of the upper two bits of eight scales, four bytes of
// their lower four, 128 bytes of nibbles, 16 for 32 columns as in IQ4_NL; w = d * (scale - 32) *
// level[q].

namespace helix::engine::ops {
namespace {

constexpr int kHighOffset = 2;
constexpr int kLowOffset = 4;
constexpr int kNibblesOffset = 8;
constexpr int kEighthBytes = 272;

int scale_of(const std::byte* block, int j) {
    const auto low =
        static_cast<unsigned>(block[kLowOffset + j / 2]) >> static_cast<unsigned>(4 * (j % 2));
    const auto high =
        static_cast<unsigned>(block[kHighOffset + j / 4]) >> static_cast<unsigned>(2 * (j % 4));
    return static_cast<int>((low & 15U) | (high & 3U) << 4U) - 32;
}

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        for (int j = 0; j < 8; ++j) {
            std::byte* eighth = out + 32 + kEighthBytes * j;
            eighth[row] = static_cast<std::byte>(scale_of(blocks[row], j));
            pack_nibbles(blocks[row] + kNibblesOffset + 16 * j, row, eighth + 16);
        }
    }
}

}  // namespace

const Format& iq4_xs_format() {
    static constexpr Format kFormat{"iq4_xs", 256, 136, 32 + 8 * kEighthBytes, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

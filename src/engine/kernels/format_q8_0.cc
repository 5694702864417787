#include <cstring>

#include "engine/kernels/formats.h"

// Q8_0: blocks of 32: half d, int8 q[32]; w = d * q.

namespace helix::engine::ops {
namespace {

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    std::byte* q = out + 32;
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 2 * row, blocks[row], 2);
        for (int group = 0; group < 8; ++group) {
            std::uint32_t four = 0;
            std::memcpy(&four, blocks[row] + 2 + 4 * group, sizeof four);
            four ^= 0x80808080U;  // q + 128
            std::memcpy(q + group * 64 + row * 4, &four, sizeof four);
        }
    }
}

}  // namespace

const Format& q8_0_format() {
    static constexpr Format kFormat{"q8_0", 32, 34, 544, true, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

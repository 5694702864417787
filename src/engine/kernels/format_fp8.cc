#include <cstring>

#include "engine/kernels/formats.h"

// FP8: blocks of 64: float d, 64 bytes of E4M3; w = d * (the half whose bits are moved; see
// model/quant/fp8.h).

namespace helix::engine::ops {
namespace {

constexpr int kColumns = 64;

void pack_unit(const std::byte* const* blocks, std::byte* out) {
    for (int row = 0; row < 16; ++row) {
        std::memcpy(out + 4 * row, blocks[row], 4);
        for (int c = 0; c < kColumns; ++c) out[64 + 16 * c + row] = blocks[row][4 + c];
    }
}

}  // namespace

const Format& fp8_format() {
    static constexpr Format kFormat{"fp8", kColumns, 68, 16 * 68, false, pack_unit};
    return kFormat;
}

}  // namespace helix::engine::ops

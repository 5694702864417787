#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 64 elements (E4M3): value[i] = scale * fp8_value(q[i]). Ours, for folders whose matrices are of
// bytes (hf/hf_quantised.h): GGUF has no such type. 64 columns are those that the kernels sum
// before they scale (docs/numerics.md), so every published size of blocks is whole ones of these.
struct BlockFp8 {
    float scale;  // 256 times the file's
    std::uint8_t q[64];
};
static_assert(sizeof(BlockFp8) == 68);

// A number of a sign, four bits of exponent and three of fraction, over 256: its bits, moved, are
// those of a half. What E4M3 has for no number is +-480 / 256 here.
constexpr std::uint16_t fp8_half(unsigned q) {
    return static_cast<std::uint16_t>((q & 0x7fU) << 7U | (q & 0x80U) << 8U);
}

extern const Format kFp8;

}  // namespace helix::model::quant

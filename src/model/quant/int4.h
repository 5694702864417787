#pragma once

#include "model/quant/format.h"
#include "model/quant/half.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * (nibble[i] - zero); low nibbles are elements 0-15, high ones
// 16-31. Ours, for folders of GPTQ, AWQ and compressed-tensors (hf/hf_quantised.h): a type of GGUF
// with a minimum would round scale * zero to a half.
struct BlockInt4 {
    std::uint8_t scale[2];  // binary16 or, with kBfloatScale, bfloat16; the low byte first
    std::uint8_t zero;      // in the low four bits
    std::uint8_t q[16];
};
static_assert(sizeof(BlockInt4) == 19);

constexpr unsigned kBfloatScale = 0x80;  // in `zero`
constexpr unsigned kZeroBits = 15;

inline float scale_of(const BlockInt4& block) {
    const auto bits = static_cast<std::uint16_t>(block.scale[0] | block.scale[1] << 8U);
    return (block.zero & kBfloatScale) != 0 ? bfloat_to_float(bits) : half_to_float(bits);
}

extern const Format kInt4;

}  // namespace helix::model::quant

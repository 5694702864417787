#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 64 elements (E2M1), a scale without a sign for each sixteen (E4M3): value = scale / 2 *
// kMxfp4Levels[nibble]. Sixteen elements have eight bytes: low nibbles are the first eight, high
// ones the others. A matrix may have a factor besides (factor_tensor() of tensor_type.h), which is
// no part of the values.
struct BlockNvfp4 {
    std::uint8_t scales[4];
    std::uint8_t q[32];
};
static_assert(sizeof(BlockNvfp4) == 36);

extern const Format kNvfp4;

}  // namespace helix::model::quant

#pragma once

#include "model/quant/format.h"

namespace helix::model::quant {

// 32 elements: value[i] = scale * q[i].
struct BlockQ8_0 {
    std::uint16_t scale;  // binary16
    std::int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

extern const Format kQ8_0;

}  // namespace helix::model::quant

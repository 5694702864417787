#pragma once

#include "model/quant/format.h"

// Elements stored one by one: binary32, binary16, bfloat16.

namespace helix::model::quant {

extern const Format kF32;
extern const Format kF16;
extern const Format kBf16;

}  // namespace helix::model::quant

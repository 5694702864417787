#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// x = factor * x; then, where there is a cap, x = cap * tanh(x * (1 / cap)).
struct ScaleRows {
    Buffer& x;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
    float factor = 1;
    float cap = 0;  // 0: none
};

}  // namespace helix::engine::ops

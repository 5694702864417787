#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight, for each row. y may be x.
struct LayerNorm {
    const Buffer& x;       // [rows, width]
    const Buffer& weight;  // [width]
    Buffer& y;             // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
    float epsilon = 0;
};

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight, for each row. y may be x.
// Where there are several weights, row r has those with the number r modulo their count: rows of
// heads.
struct LayerNorm {
    const Buffer& x;       // [rows, width]
    const Buffer& weight;  // [n_weights, width]
    Buffer& y;             // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
    float epsilon = 0;
    int n_weights = 1;
};

}  // namespace helix::engine::ops

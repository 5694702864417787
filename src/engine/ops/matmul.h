#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// One of the matrices that the same rows are multiplied by.
struct Projection {
    const Matrix& matrix;     // [width of y, width of x]
    Buffer& y;                // [rows, width of y]
    bool accumulate = false;  // adds to what is in y
};

// y = x times the matrix, transposed, for each projection, times the matrix' factor. A row's result
// depends on the row and the matrix only, bit for bit: not on the other rows and not on how the
// work is divided.
struct Matmul {
    const Buffer& x;  // [rows, width of x]
    std::int64_t rows = 0;
    std::span<const Projection> to;
};

}  // namespace helix::engine::ops

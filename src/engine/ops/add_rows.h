#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// y = y + factor * x, the product rounded by itself.
struct AddRows {
    const Buffer& x;  // [rows, width]
    Buffer& y;        // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
    float factor = 1;
};

}  // namespace helix::engine::ops

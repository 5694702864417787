#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// gate = g / (1 + exp(-1.702 g)) * (u + 1), g = min(gate, 7), u = up within [-7, 7].
struct ClampedSwiglu {
    Buffer& gate;      // [rows, width]
    const Buffer& up;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
};

}  // namespace helix::engine::ops

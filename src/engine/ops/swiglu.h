#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// gate = gate / (1 + exp(-gate)) * up.
struct Swiglu {
    Buffer& gate;      // [rows, width]
    const Buffer& up;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
};

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// gate = max(gate, 0) * up. up may be gate, which then becomes the square of what is above zero.
struct Reglu {
    Buffer& gate;      // [rows, width]
    const Buffer& up;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
};

}  // namespace helix::engine::ops

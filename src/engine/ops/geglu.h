#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// gate = gelu(gate) * up, where gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))),
// which is x / (1 + exp(-2 * ...)); or, exact, as ops/gelu.h has it.
struct Geglu {
    Buffer& gate;      // [rows, width]
    const Buffer& up;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
    bool exact = false;
};

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// x = x + bias, for each row; where there is a routing, for each visit with its expert's bias.
struct AddBias {
    Buffer& x;              // [rows, width]
    const Buffer& bias;     // [width], or [n_experts, width]
    std::int64_t rows = 0;  // or visits
    std::int64_t width = 0;
    const Routing* routing = nullptr;
};

}  // namespace helix::engine::ops

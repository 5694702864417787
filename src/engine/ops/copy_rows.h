#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

struct RowRange {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t count = 0;
};

// Copies ranges of rows from one buffer to another.
struct CopyRows {
    const Buffer& from;  // [rows, width]
    Buffer& to;          // [rows, width]
    std::int64_t width = 0;
    std::span<const RowRange> ranges;
};

}  // namespace helix::engine::ops

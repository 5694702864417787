#pragma once

#include <cstdint>
#include <span>

#include "core/protocol/types.h"

namespace helix::engine::ops {

// Consecutive rows of a batch that belong to one sequence, at consecutive positions of it.
struct SequenceRows {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int32_t first_position = 0;
    // Of the layer that runs: pages[b] holds positions [b * block_size, (b + 1) * block_size). At
    // least as many as the rows' positions and those before them need; core::kNoPage where a window
    // of the layer has passed by.
    std::span<const core::PageId> pages;
};

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/protocol/batch_plan.h"

// How the final hidden states of a prompt's rows become its embedding. They are added up row by
// row, in double and in the order of their positions, so that the cut into chunks cannot matter.

namespace helix::engine {

// Rows of a chunk, from its first on.
struct ChunkRows {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

// Returns the rows that the chunk's pooling needs: all, the prompt's first or its last, or none.
ChunkRows rows_to_pool(const core::BatchChunk& chunk);

// Adds rows [n, so_far.size()].
void add_rows(std::span<const float> rows, std::vector<double>& so_far);

// Scales the sum to length 1. Error internal: it has no direction, or a number in it is broken.
base::Result<std::vector<float>> to_embedding(std::span<const double> sum);

}  // namespace helix::engine

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/batch_plan.h"
#include "engine/sampler.h"
#include "engine/thread_pool.h"

namespace helix::engine {

// A chunk to sample: the logits of its last 1 + drafts rows are rows of a matrix, from first_row.
struct ChunkLogits {
    const core::BatchChunk* chunk = nullptr;
    std::int64_t first_row = 0;
};

// Draws what the chunks ask for, in their order: for each its draws after the last row, or with
// guesses a token after each row up to the first that differs from the guess. logits: [rows,
// vocab]; samplers: one for each thread. Errors name the request.
base::Result<std::vector<core::ProducedToken>> draw_tokens(ThreadPool& pool,
                                                           std::span<Sampler> samplers,
                                                           std::span<const ChunkLogits> chunks,
                                                           std::span<const float> logits,
                                                           std::int64_t vocab);

}  // namespace helix::engine

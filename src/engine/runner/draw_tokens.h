#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/protocol/batch_plan.h"
#include "core/worker/worker.h"
#include "engine/backend/token_filter.h"
#include "engine/host/thread_pool.h"
#include "engine/runner/reduced_logits.h"
#include "engine/runner/sampler.h"

namespace helix::engine {

// A chunk to sample: the logits of its last 1 + drafts rows are rows of a matrix, from first_row.
struct ChunkLogits {
    const core::BatchChunk* chunk = nullptr;
    std::int64_t first_row = 0;
};

// Rows of logits, of which only those are whole that are needed so. Each chunk's are all of a kind.
struct DrawLogits {
    std::int64_t vocab = 0;
    std::span<const float> whole;            // the first rows, [n, vocab]
    const ReducedLogits* reduced = nullptr;  // the rows from n on; null: there are none
    // Rows [first, first + count) whole, where what they were reduced to does not do; until it is
    // called again.
    std::function<base::Result<std::span<const float>>(std::int64_t first, std::int64_t count)>
        read = {};
};

struct DrawnTokens {
    std::vector<core::ProducedToken> tokens;   // as core::BatchFinished wants them
    std::vector<core::FailedSequence> failed;  // each chunk at most once
};

// Draws what the chunks ask for, in their order: for each its draws after the last row, or with
// drafts a token after each row up to the first that differs from the drafted one. samplers: one
// for each thread; filter: null = a chunk with a grammar fails. A token that cannot be drawn fails
// its chunk only; the error is that of logits.read.
base::Result<DrawnTokens> draw_tokens(ThreadPool& pool, std::span<Sampler> samplers,
                                      std::span<const ChunkLogits> chunks, const DrawLogits& logits,
                                      TokenFilter* filter);

// Of the chunk's scored tokens those that follow its rows from first_row on, so many as there is
// room for. logits: [scored.size(), vocab], after these rows. After an error they mean nothing.
base::Status score_tokens(ThreadPool& pool, std::span<Sampler> samplers,
                          const core::BatchChunk& chunk, std::int64_t first_row,
                          std::span<const float> logits, std::span<core::ProducedToken> scored);
// The same from what these rows were reduced to, with the scored tokens named. False: the rows are
// needed.
bool score_tokens(const core::BatchChunk& chunk, std::int64_t first_row,
                  const ReducedLogits& reduced, std::span<core::ProducedToken> scored);

}  // namespace helix::engine

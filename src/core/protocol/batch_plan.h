#pragma once

#include <cstdint>
#include <vector>

#include "core/protocol/messages.h"

namespace helix::core {

// Rows of one sequence in one batch. Sequences of a batch may run different parts of the worker's
// layers.
struct BatchChunk {
    SequenceKey key;
    LayerRange layers;  // layers to run here
    std::int32_t first_position =
        0;                         // of the first row; rows before it are already in the KV pages
    RowTokens tokens;              // one per row; the embedding's input when layers.begin == 0
    PayloadRef input;              // activations in, when layers.begin > 0
    std::int32_t output_row = -1;  // first row in the batch's output buffer; -1 = nothing goes on
    bool sample = false;           // last stage: head and sampler on the last row
    // Last stage: the rows are pooled, and with sample set they make an embedding, not a token.
    spec::Pooling pooling = spec::Pooling::none;
    std::vector<double> pooled;      // with pooling: PooledRows::so_far of the rows before
    std::int32_t drafts = 0;         // as in StageInput: sampled after each row from
                                     // tokens.size() - 1 - drafts on, up to the first wrong draft
    std::int32_t draws = 1;          // as in StageInput: for members 0 ... draws - 1
    spec::SamplingParams sampling;   // valid when sample or scored
    std::vector<Token> scored;       // last stage: the tokens that follow the first rows, whose
                                     // log-probabilities are asked for
    std::vector<Token> history;      // prompt and output so far; only when sampling.needs_history()
    std::int32_t prompt_tokens = 0;  // how much of history is prompt
    // pages[(layer - layers.begin) * n_blocks + block], n_blocks = pages.size() / layers.size():
    // the page that holds positions [block * block_size, (block + 1) * block_size) of that layer;
    // kNoPage where none of the rows attends to these.
    std::vector<PageId> pages;
};

// What became of a chunk with pooling: the rows so far, in the engine's own words (empty before the
// first), or with sample set the embedding.
struct PooledRows {
    std::vector<double> so_far;
    std::vector<float> embedding;
};

constexpr std::uint64_t kFirstBatch = std::uint64_t{1} << 63;

// The content of one page is copied to another.
struct PageCopy {
    PageId from = 0;
    PageId to = 0;
    bool operator==(const PageCopy&) const = default;
};
// A page's content moves to or from a slot of the host memory for swapped pages (slots count from
// 0).
struct PageSwap {
    PageId page = 0;
    std::uint32_t slot = 0;
    bool operator==(const PageSwap&) const = default;
};

// One run of the engine: pages are swapped out, swapped in and copied, in this order; then every
// chunk goes through its layers, layer by layer, in ascending order. No plan swaps out and in at
// once. It may have no chunks when it has pages to move.
struct BatchPlan {
    // Names the batch's output buffer, too. Counts from kFirstBatch up, so that it never meets the
    // number of a received frame (the world counts those from 1).
    std::uint64_t id = 0;
    std::vector<BatchChunk> chunks;
    std::int32_t output_rows = 0;
    std::vector<PageSwap> swap_out;
    std::vector<PageSwap> swap_in;
    std::vector<PageCopy> copies;
};

}  // namespace helix::core

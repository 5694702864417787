#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/host/thread_pool.h"
#include "engine/kernels/kernels.h"
#include "engine/ops/kv_layout.h"

namespace helix::engine::ops {

// Consecutive rows of one sequence.
struct AttentionRows {
    std::int64_t first_row = 0;  // in q and out
    std::int64_t rows = 0;
    std::int32_t first_position = 0;
    const std::byte* const* pages = nullptr;  // page of each block of this layer
};

struct AttentionShape {
    int n_heads = 0;
    std::int32_t window = 0;        // as ops::Attention has it
    float scale = 0;                // of scores; 0: 1 / sqrt(head_dim)
    float softcap = 0;              // of what they are then; 0: none
    const float* sinks = nullptr;   // [n_heads], as ops::Attention has them
    bool chunked = false;           // the window is a chunk
    bool both_ways = false;         // rows attend to those behind them, too
    const float* slopes = nullptr;  // [n_heads], as ops::Attention has them
};

// Attention as ops::Attention has it: out = softmax(scale * q K^T) V for each row over the
// positions that it attends to, whose keys and values are in the pages. Query heads h share KV head
// h / (n_heads / n_kv_heads). q, out: [rows, n_heads, head_dim]. Each head's rank attends; layout
// and pool have the same ranks.
class PagedAttention {
  public:
    void run(const Kernels& kernels, ThreadPool& pool, const KvLayout& layout,
             const AttentionShape& shape, std::span<const AttentionRows> sequences, const float* q,
             float* out);

  private:
    std::vector<AttentionTask> tasks_;
};

}  // namespace helix::engine::ops

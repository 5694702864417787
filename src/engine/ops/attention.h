#pragma once

#include <cstdint>
#include <span>

#include "engine/ops/memory.h"
#include "engine/ops/sequence_rows.h"

namespace helix::engine::ops {

// Causal attention: out = softmax(q K^T / sqrt(head_dim)) V for each row over the positions up to
// its own that are within the window, whose keys and values are in its sequence's pages. Query head
// h attends to KV head h / (n_heads / n_kv_heads). In chunks of kChunkPositions (sums.h), see
// docs/numerics.md.
struct Attention {
    const KvArena& kv;
    const Buffer& q;  // [rows, n_heads, head_dim]
    Buffer& out;      // [rows, n_heads, head_dim]
    int n_heads = 0;
    std::int32_t window = 0;  // positions that a row attends to, its own the last; 0: all
    std::span<const SequenceRows> sequences;
};

}  // namespace helix::engine::ops

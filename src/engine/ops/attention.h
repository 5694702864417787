#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "engine/ops/kv_layout.h"
#include "engine/ops/memory.h"
#include "engine/ops/sequence_rows.h"
#include "spec/attention_window.h"

namespace helix::engine::ops {

using spec::first_attended;

// Positions [begin, end) of a sequence.
struct AttendedPositions {
    std::int32_t begin = 0;
    std::int32_t end = 0;
};

// Those that row `row` of a sequence attends to; neither begin nor end falls while the row rises.
// Rows: SequenceRows, or a device's own form of them. The others: as Attention has them.
template <typename Rows>
AttendedPositions attended_positions(const Rows& sequence, std::int64_t row, std::int32_t window,
                                     bool chunked, bool both_ways) {
    const std::int32_t own = sequence.first_position + static_cast<std::int32_t>(row);
    if (!both_ways) return {first_attended(own, window, chunked), own + 1};
    const std::int32_t end = sequence.first_position + static_cast<std::int32_t>(sequence.rows);
    const std::int32_t half = window / 2;
    if (window <= 0) return {0, end};
    return {std::max(0, own - half), half < end - own ? own + half + 1 : end};
}

// Attention: out = softmax(scale * q K^T) V for each row over the positions up to its own that are
// within the window, or both ways over those of all its sequence's rows and before them that are
// within it, whose keys and values are in its sequence's pages; pages before that of the first such
// position may be core::kNoPage and are not read. Query head h attends to KV head h / (n_heads /
// n_kv_heads). In chunks of kChunkPositions (sums.h), see docs/numerics.md.
struct Attention {
    const KvArena& kv;
    const Buffer& q;  // [rows, n_heads, head_dim]
    Buffer& out;      // [rows, n_heads, head_dim]
    int n_heads = 0;
    // Positions that a row attends to, its own the last; both ways: those that are no more than
    // half of it, rounded down, away from its own. 0: all.
    std::int32_t window = 0;
    std::span<const SequenceRows> sequences;
    float scale = 0;    // of scores; 0: 1 / sqrt(head_dim)
    float softcap = 0;  // above 0: a score x becomes softcap * tanh(x * (1 / softcap))
    // [n_heads]: one more score of each head, as it is, of a position without a value. Null: none.
    const Buffer* sinks = nullptr;
    KvHeads heads = {};    // of the layer
    bool chunked = false;  // the window is a chunk, see first_attended()
    // Rows attend to the rows of their sequence that follow them, too; then the window is no chunk.
    bool both_ways = false;
    // [n_heads]: a score loses its head's slope times the distance of its position from the row's
    // own (ALiBi: Press and others, Train Short, Test Long, 2021). Null: none. Not with a cap.
    const Buffer* slopes = nullptr;

    float score_scale(int head_dim) const {
        return scale > 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
    }
};

}  // namespace helix::engine::ops

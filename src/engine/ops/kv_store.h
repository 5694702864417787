#pragma once

#include <span>

#include "engine/ops/kv_layout.h"
#include "engine/ops/memory.h"
#include "engine/ops/sequence_rows.h"

namespace helix::engine::ops {

// Writes each row's key and value into the slot of its position in its sequence's pages, rounded to
// what the pages hold.
struct KvStore {
    KvArena& kv;
    const Buffer& keys;    // [rows, n_kv_heads, head_dim]
    const Buffer& values;  // [rows, n_kv_heads, head_dim]
    std::span<const SequenceRows> sequences;
    KvHeads heads = {};  // of the layer
};

}  // namespace helix::engine::ops

#pragma once

#include "engine/kernels/kernels.h"
#include "engine/ops/kv_layout.h"

namespace helix::engine::ops {

// Writes the key and value [rank_heads, head_dim] of one position and rank into slot `in_block` of
// its page.
void kv_store(const Kernels& kernels, const KvLayout& layout, int rank, const float* key,
              const float* value, int in_block, std::byte* page);

}  // namespace helix::engine::ops

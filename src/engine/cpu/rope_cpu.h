#pragma once

#include <span>

#include "engine/ops/rope.h"

namespace helix::engine::ops {

// Rotates the first table.size() elements of each head of x [n_heads, head_dim]; pair i by angle i.
void rope_row(std::span<const float> table, model::RopePairs pairs, int n_heads, int head_dim,
              float* x);

}  // namespace helix::engine::ops

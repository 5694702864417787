#pragma once

#include <cstdint>
#include <span>

#include "model/model_config.h"

namespace helix::engine::ops {

// Rotary position embedding.

// The angles of one position: table[2i], table[2i + 1] = cos, sin of
//     position * rope_scale * rope_base^(-2i / rope_dim) / rope_factors[i]
// times rope_magnitude. Computed in double. table has rope_dim elements.
void rope_table(const model::ModelConfig& config, std::int32_t position, std::span<float> table);

// Rotates the first table.size() elements of each head of x [n_heads, head_dim]; pair i by angle i.
void rope_row(std::span<const float> table, model::RopePairs pairs, int n_heads, int head_dim,
              float* x);

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>

#include "engine/ops/kv_layout.h"
#include "model/model_config.h"
#include "spec/kv_type.h"

namespace helix::engine::ops {

using spec::kKvTypeNames;
using spec::parse_kv_type;
using spec::to_string;

// What a token takes in one layer: its share of a page of so many tokens, rounded up.
std::int64_t kv_bytes_per_token_layer(KvType type, int n_kv_heads, int head_dim, int block_size);
// Pages of block_size tokens that have room for any layer of the model.
KvLayout kv_page_of(const model::ModelConfig& config, KvType type, int block_size);

}  // namespace helix::engine::ops

#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "engine/ops/kv_layout.h"
#include "model/model_config.h"

namespace helix::engine::ops {

inline constexpr const char* kKvTypeNames = "f16, bf16, f32 or q8";

const char* to_string(KvType type);
// invalid: another name than these.
base::Result<KvType> parse_kv_type(std::string_view name);

// What a token takes in one layer: its share of a page of so many tokens, rounded up.
std::int64_t kv_bytes_per_token_layer(KvType type, int n_kv_heads, int head_dim, int block_size);
// Pages of block_size tokens that have room for any layer of the model.
KvLayout kv_page_of(const model::ModelConfig& config, KvType type, int block_size);

}  // namespace helix::engine::ops

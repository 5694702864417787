#include "engine/ops/kv_type.h"

namespace helix::engine::ops {

KvLayout kv_page_of(const model::ModelConfig& config, KvType type, int block_size) {
    return {type, config.page_kv_heads(), config.page_head_dim(), block_size};
}

std::int64_t kv_bytes_per_token_layer(KvType type, int n_kv_heads, int head_dim, int block_size) {
    const std::int64_t page = KvLayout{type, n_kv_heads, head_dim, block_size}.page_bytes();
    return (page + block_size - 1) / block_size;
}

}  // namespace helix::engine::ops

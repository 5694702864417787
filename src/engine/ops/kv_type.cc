#include "engine/ops/kv_type.h"

#include <fmt/format.h>

namespace helix::engine::ops {

const char* to_string(KvType type) {
    switch (type) {
        case KvType::f16:
            return "f16";
        case KvType::bf16:
            return "bf16";
        case KvType::f32:
            return "f32";
        case KvType::q8:
            return "q8";
    }
    return "?";
}

base::Result<KvType> parse_kv_type(std::string_view name) {
    for (const KvType type : {KvType::f16, KvType::bf16, KvType::f32, KvType::q8}) {
        if (name == to_string(type)) return type;
    }
    return base::invalid(fmt::format("KV cache type '{}': expected {}", name, kKvTypeNames));
}

KvLayout kv_page_of(const model::ModelConfig& config, KvType type, int block_size) {
    return {type, config.page_kv_heads(), config.page_head_dim(), block_size};
}

std::int64_t kv_bytes_per_token_layer(KvType type, int n_kv_heads, int head_dim, int block_size) {
    const std::int64_t page = KvLayout{type, n_kv_heads, head_dim, block_size}.page_bytes();
    return (page + block_size - 1) / block_size;
}

}  // namespace helix::engine::ops

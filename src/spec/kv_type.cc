#include "spec/kv_type.h"

#include <fmt/format.h>

namespace helix::spec {

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

}  // namespace helix::spec

#pragma once

#include <string>

#include "base/result.h"
#include "engine/ops/kv_type.h"

namespace helix::cli {

inline constexpr const char* kKvHelp =
    "KV cache in f16, bf16, f32 or q8. A token takes, in each layer and for each key-value head, 4 "
    "bytes per dimension in f16 and bf16 (coarser), 8 in f32; q8 halves that of f16: 2, and 8 for "
    "its scales";

// invalid: names the option and the types there are.
base::Result<engine::ops::KvType> parse_kv(const std::string& option, const std::string& text);

}  // namespace helix::cli

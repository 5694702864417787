#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/kv_type.h"

namespace helix::cli {

inline constexpr const char* kKvHelp =
    "KV cache in f16, bf16, f32 or q8. A token takes, in each layer and for each key-value head, 4 "
    "bytes per dimension in f16 and bf16 (coarser), 8 in f32; q8 halves that of f16: 2, and 8 for "
    "its scales";

// invalid: names the option and the types there are.
base::Result<spec::KvType> parse_kv(const std::string& option, const std::string& text);

// "f16,q8"; none where the text is empty. invalid: one that is not known, or that comes twice.
base::Result<std::vector<spec::KvType>> parse_kv_list(const std::string& option,
                                                      const std::string& text);

// The type that `helix serve` keeps KV in: what --kv says, else what the placement's file says,
// else f16. invalid: no type, or not that of the file. kv and placement may be empty.
base::Result<spec::KvType> served_kv(const std::string& kv, const std::string& placement);

}  // namespace helix::cli

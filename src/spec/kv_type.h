#pragma once

#include <string_view>

#include "base/result.h"

namespace helix::spec {

// How keys and values are kept. q8: int8, with an f32 scale for the key and one for the value of
// each head and position. All but f32 round what the model computes, f16 least; so answers depend
// on the type, and nobody changes it unasked.
enum class KvType { f16, bf16, f32, q8 };

inline constexpr const char* kKvTypeNames = "f16, bf16, f32 or q8";

const char* to_string(KvType type);
// invalid: another name than these.
base::Result<KvType> parse_kv_type(std::string_view name);

}  // namespace helix::spec

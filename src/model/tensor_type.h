#pragma once

#include <cstddef>
#include <cstdint>

namespace helix::model {

// How a tensor's elements are stored; values are GGUF's numbers.
enum class TensorType : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q8_0 = 8,
    q4_k = 12,
    q6_k = 14,
    bf16 = 30,
};

struct TensorTypeInfo {
    const char* name;          // "q8_0"
    std::int32_t block_size;   // elements per block
    std::int32_t block_bytes;  // bytes per block
};

// nullptr when the number is no type we read.
const TensorTypeInfo* tensor_type_info(TensorType type);

}  // namespace helix::model

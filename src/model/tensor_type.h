#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace helix::model {

// How a tensor's elements are stored; values are GGUF's numbers, and from 65536 on our own.
enum class TensorType : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
    nvfp4 = 40,
    fp8 = 65536,
    int4 = 65537,
};

struct TensorTypeInfo {
    const char* name;          // "q8_0"
    std::int32_t block_size;   // elements per block
    std::int32_t block_bytes;  // bytes per block
};

// What is known of a type; nullptr when the number is no type that we read.
const TensorTypeInfo* tensor_type_info(TensorType type);
// The type of this name, in lower case; nullptr when it is no type that we read.
const TensorType* tensor_type_by_name(std::string_view name);
// The names of all types that we read: "f32, f16, ...".
std::string tensor_type_names();
// The name that ggml gives a type number, even of types we do not read; nullptr when it has none.
const char* ggml_type_name(std::uint32_t number);

// Where a file has what a matrix' products are multiplied by, beside what its elements are:
// "a.scale" for the NVFP4 matrix "a.weight", floats, one for each matrix of the tensor. It need not
// be there.
// "" for other types and names.
std::string factor_tensor(TensorType type, std::string_view name);

// Reference conversions of whole blocks, exact as the formats define them. bytes holds a whole
// number of blocks; out has block_size floats for each.
void dequantize_row(TensorType type, std::span<const std::byte> bytes, float* out);
// values holds a whole number of blocks; out has block_bytes bytes for each.
void quantize_row(TensorType type, std::span<const float> values, std::byte* out);

}  // namespace helix::model

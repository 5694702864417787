#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/quant/codes.h"
#include "model/tensor_type.h"

namespace helix::model::quant {

// One storage format: a file in this folder, perhaps with others like it, and a row of the table in
// tensor_type.cc.
struct Format {
    TensorType type;
    TensorTypeInfo info;
    // blocks whole blocks of info.block_bytes bytes to info.block_size floats each, and back.
    void (*dequantize)(const std::byte* bytes, std::size_t blocks, float* out);
    void (*quantize)(const float* values, std::size_t blocks, std::byte* out);
    Decode decode = nullptr;
    std::span<const std::uint32_t> grid = {};  // that its codes number points of (grids.h)
};

}  // namespace helix::model::quant

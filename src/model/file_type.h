#pragma once

#include <cstdint>

#include "model/tensor_type.h"

namespace helix::model {

// general.file_type: llama.cpp's number for what most matrices of a file are.
std::uint32_t file_type(TensorType quant);

}  // namespace helix::model

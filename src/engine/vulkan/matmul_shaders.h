#pragma once

#include "engine/vulkan/shader.h"
#include "model/tensor_type.h"

namespace helix::engine {

// That multiplies by matrices of a type; integer_dot: with the device's own dot product of bytes.
const Shader& matmul_shader(model::TensorType type, bool integer_dot);
// The same for many rows (shaders/matmul_tiled.glsl).
const Shader& tiled_matmul_shader(model::TensorType type, bool integer_dot);
// For many rows, on matrix cores. null: of floats and of some other formats there is none.
const Shader* matrix_matmul_shader(model::TensorType type);

}  // namespace helix::engine

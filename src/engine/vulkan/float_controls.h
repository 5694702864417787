#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// SPIR-V code of a shader with one entry point, told of 32-bit floats what the device takes orders
// for: that subnormal numbers are zeros, and that the sign of zero, infinity and what is no number
// are kept.
std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> code,
                                               const VulkanFloatControls& controls);

}  // namespace helix::engine

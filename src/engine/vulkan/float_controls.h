#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// SPIR-V code of a shader with one entry point, told to keep of 32-bit floats what the device can
// keep and drops unless told to: subnormal numbers, and the difference between zeros and what is no
// number. `code` as it is where there is nothing to tell.
std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> code,
                                               const VulkanFloatControls& controls);

}  // namespace helix::engine

#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/vulkan/vulkan_commands.h"

namespace helix::engine {

// Of a dispatch, in each direction: every device takes so many.
inline constexpr std::int64_t kMostGroups = 65535;
// Of a head, as attention_common.glsl has it.
inline constexpr std::int64_t kMaxHeadDim = 1024;
// Of a matrix: matmul shaders have a workgroup for each 16.
inline constexpr std::int64_t kMaxOutputs = 16 * kMostGroups;

// As 32-bit words of push constants are.
constexpr std::uint32_t word(std::int64_t value) {
    return static_cast<std::uint32_t>(value);
}

// Workgroups for so many pieces of work, each group's being `each`. Shaders whose groups are fewer
// than the work go on with the next piece (gl_NumWorkGroups further).
inline VulkanGroups groups_for(std::int64_t work, std::int64_t each = 1) {
    return {std::min<std::int64_t>((work + each - 1) / each, kMostGroups), 1, 1};
}

}  // namespace helix::engine

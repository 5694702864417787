#pragma once

#include <volk.h>

#include "base/result.h"

namespace helix::engine {

// "the device has no memory", "the device was lost", or the constant's name.
const char* describe(VkResult result);

// What Vulkan says went wrong while something was done, like "allocating 64 MiB". unavailable: no
// memory, or the device is lost; internal: the rest.
base::Status vulkan_status(VkResult result, const char* doing);

}  // namespace helix::engine

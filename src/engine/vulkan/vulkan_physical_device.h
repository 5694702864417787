#pragma once

#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// All of it but the index.
VulkanDeviceInfo describe_physical_device(VkPhysicalDevice device);

// What of its memory is free for this process: by VK_EXT_memory_budget, else all of the heap; of a
// software device no more than what the machine has.
std::int64_t free_device_bytes(const VulkanDeviceInfo& device);

}  // namespace helix::engine

#pragma once

#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

// All of it but the index.
VulkanDeviceInfo describe_physical_device(VkInstance instance, VkPhysicalDevice device);

// What of its memory is free for this process: by VK_EXT_memory_budget, else all of the heap; of a
// device without memory of its own no more than what the machine has.
std::int64_t free_device_bytes(const VulkanDeviceInfo& device);

// Of these, what a worker should take: nine tenths, and of the machine's memory four fifths.
std::int64_t offered_device_bytes(const VulkanDeviceInfo& device, std::int64_t free_bytes);

}  // namespace helix::engine

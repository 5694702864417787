#include "engine/vulkan/vulkan_result.h"

#include <fmt/format.h>

namespace helix::engine {

const char* describe(VkResult result) {
    switch (result) {
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return "this machine has no memory for it";
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return "the device has no memory for it";
        case VK_ERROR_DEVICE_LOST:
            return "the device was lost: its driver reset it, or it is gone";
        case VK_ERROR_INITIALIZATION_FAILED:
            return "the driver could not begin";
        case VK_ERROR_LAYER_NOT_PRESENT:
            return "a layer that was asked for is not installed";
        case VK_ERROR_EXTENSION_NOT_PRESENT:
            return "an extension that was asked for is not there";
        case VK_ERROR_FEATURE_NOT_PRESENT:
            return "a feature that was asked for is not there";
        case VK_ERROR_INCOMPATIBLE_DRIVER:
            return "no driver for this version of Vulkan";
        case VK_ERROR_TOO_MANY_OBJECTS:
            return "the driver has too many objects of this kind";
        default:
            return "the driver failed";
    }
}

base::Status vulkan_status(VkResult result, const char* doing) {
    if (result == VK_SUCCESS) return base::Ok{};
    const bool gone = result == VK_ERROR_DEVICE_LOST || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                      result == VK_ERROR_OUT_OF_HOST_MEMORY;
    return base::Error{gone ? base::Errc::unavailable : base::Errc::internal,
                       fmt::format("Vulkan, {}: {} (VkResult {})", doing, describe(result),
                                   static_cast<int>(result))};
}

}  // namespace helix::engine

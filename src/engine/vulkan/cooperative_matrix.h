#pragma once

#include <volk.h>

#include <cstdint>

// What VK_KHR_cooperative_matrix declares, which the headers of Debian 12 have not got; as the
// specification of Vulkan has it.

namespace helix::engine {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";

struct CooperativeMatrixFeatures {
    static constexpr auto kType = static_cast<VkStructureType>(1000506000);
    VkStructureType sType = kType;
    void* pNext = nullptr;
    VkBool32 cooperativeMatrix = VK_FALSE;
    VkBool32 cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

// A product of matrices that a device has: result [m, n] = a [m, k] times b [k, n] plus c.
struct CooperativeMatrixProperties {
    static constexpr auto kType = static_cast<VkStructureType>(1000506001);
    static constexpr std::uint32_t kSigned8 = 3;   // VK_COMPONENT_TYPE_SINT8_KHR
    static constexpr std::uint32_t kSigned32 = 5;  // VK_COMPONENT_TYPE_SINT32_KHR
    static constexpr std::uint32_t kSubgroup = 3;  // VK_SCOPE_SUBGROUP_KHR
    VkStructureType sType = kType;
    void* pNext = nullptr;
    std::uint32_t m = 0, n = 0, k = 0;
    std::uint32_t a_type = 0, b_type = 0, c_type = 0, result_type = 0;
    VkBool32 saturating = VK_FALSE;
    std::uint32_t scope = 0;
};

using GetCooperativeMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice device,
                                                            std::uint32_t* count,
                                                            CooperativeMatrixProperties* all);

}  // namespace helix::engine

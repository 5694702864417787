#include "engine/vulkan/vulkan_physical_device.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/hex.h"
#include "base/machine.h"
#include "engine/vulkan/cooperative_matrix.h"

namespace helix::engine {
namespace {

const char* type_name(VkPhysicalDeviceType type) {
    switch (type) {
        case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
            return "discrete GPU";
        case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
            return "integrated GPU";
        case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
            return "virtual GPU";
        case VK_PHYSICAL_DEVICE_TYPE_CPU:
            return "software";
        default:
            return "other";
    }
}

bool has_extension(VkPhysicalDevice device, const char* name) {
    std::uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    vkEnumerateDeviceExtensionProperties(device, nullptr, &count, all.data());
    return std::any_of(all.begin(), all.end(), [&](const VkExtensionProperties& e) {
        return std::strcmp(e.extensionName, name) == 0;
    });
}

std::int32_t compute_family(VkPhysicalDevice device) {
    std::uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    for (std::uint32_t i = 0; i < count; ++i) {
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return static_cast<int>(i);
    }
    return -1;
}

// The largest heap of the device's own memory.
std::uint32_t largest_heap(const VkPhysicalDeviceMemoryProperties& memory) {
    std::uint32_t best = 0;
    VkDeviceSize bytes = 0;
    for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = memory.memoryHeaps[i];
        if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0 || heap.size <= bytes) continue;
        best = i;
        bytes = heap.size;
    }
    return best;
}

void describe_features(VulkanDeviceInfo& info) {
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot{};
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
    VkPhysicalDeviceVulkan12Features of12{};
    of12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    VkPhysicalDeviceVulkan11Features of11{};
    of11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    VkPhysicalDeviceFeatures2 all{};
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    all.pNext = &of11;
    of11.pNext = &of12;
    CooperativeMatrixFeatures matrices;
    const bool asks_dot =
        has_extension(info.handle, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    const bool asks_matrices = has_extension(info.handle, kCooperativeMatrixExtension);
    if (asks_dot) of12.pNext = &dot;
    if (asks_matrices) {
        matrices.pNext = of12.pNext;
        of12.pNext = &matrices;
    }
    vkGetPhysicalDeviceFeatures2(info.handle, &all);
    info.doubles = all.features.shaderFloat64 == VK_TRUE;
    info.integer_dot = asks_dot && dot.shaderIntegerDotProduct == VK_TRUE;
    info.matrix_cores =
        asks_matrices && matrices.cooperativeMatrix == VK_TRUE && of12.vulkanMemoryModel == VK_TRUE;
    const auto need = [&](VkBool32 has, const char* name) {
        if (has != VK_TRUE) info.missing.emplace_back(name);
    };
    need(all.features.shaderInt16, "shaderInt16");
    need(of12.bufferDeviceAddress, "bufferDeviceAddress");
    need(of12.timelineSemaphore, "timelineSemaphore");
    need(of12.scalarBlockLayout, "scalarBlockLayout");
    need(of12.storageBuffer8BitAccess, "storageBuffer8BitAccess");
    need(of12.shaderInt8, "shaderInt8");
    need(of11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
}

// Whether a subgroup multiplies 16 x 32 signed bytes by 32 x 16.
bool multiplies_bytes(VkInstance instance, VkPhysicalDevice device) {
    const auto get = reinterpret_cast<GetCooperativeMatrixProperties>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    if (get == nullptr) return false;
    std::uint32_t count = 0;
    if (get(device, &count, nullptr) != VK_SUCCESS) return false;
    std::vector<CooperativeMatrixProperties> all(count);
    for (CooperativeMatrixProperties& one : all) one.sType = CooperativeMatrixProperties::kType;
    if (get(device, &count, all.data()) != VK_SUCCESS) return false;
    using Of = CooperativeMatrixProperties;
    return std::any_of(all.begin(), all.end(), [](const Of& one) {
        return one.m == 16 && one.n == 16 && one.k == 32 && one.a_type == Of::kSigned8 &&
               one.b_type == Of::kSigned8 && one.c_type == Of::kSigned32 &&
               one.result_type == Of::kSigned32 && one.scope == Of::kSubgroup;
    });
}

// What the device says in `of`, which is its structure's type and nothing yet.
template <typename Of>
VkPhysicalDeviceLimits ask_properties(VkPhysicalDevice device, Of& of) {
    VkPhysicalDeviceProperties2 all{};
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    all.pNext = &of;
    vkGetPhysicalDeviceProperties2(device, &all);
    return all.properties.limits;
}

// Whether matrix cores are as shaders/matrix/ needs them: with subgroups of 32 alone, of which a
// workgroup of 256 has eight, and 48 KiB of shared memory.
bool suits_matrix_shaders(VkInstance instance, VkPhysicalDevice device) {
    constexpr std::uint32_t kSubgroupSize = 32;
    constexpr std::uint32_t kSharedBytes = 48 << 10;
    if (!has_extension(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) return false;
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes{};
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT;
    const VkPhysicalDeviceLimits limits = ask_properties(device, sizes);
    return sizes.minSubgroupSize == kSubgroupSize && sizes.maxSubgroupSize == kSubgroupSize &&
           limits.maxComputeSharedMemorySize >= kSharedBytes && multiplies_bytes(instance, device);
}

VulkanFloatControls float_controls(VkPhysicalDevice device) {
    VkPhysicalDeviceFloatControlsProperties of{};
    of.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    ask_properties(device, of);
    // Where widths depend on each other, doubles would have to be told the same.
    const bool alone = of.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    return {alone && of.shaderDenormFlushToZeroFloat32 == VK_TRUE,
            of.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE};
}

}  // namespace

VulkanDeviceInfo describe_physical_device(VkInstance instance, VkPhysicalDevice device) {
    VulkanDeviceInfo info;
    info.handle = device;
    VkPhysicalDeviceDriverProperties driver{};
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    VkPhysicalDeviceIDProperties id{};
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    id.pNext = &driver;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    vkGetPhysicalDeviceProperties(device, &properties.properties);
    info.api_version = properties.properties.apiVersion;
    info.name = properties.properties.deviceName;
    info.type = type_name(properties.properties.deviceType);
    info.software = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info.host_memory =
        info.software || properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    info.compute_family = compute_family(device);
    if (info.api_version < VK_API_VERSION_1_2) {
        info.missing.emplace_back("Vulkan 1.2");
        return info;
    }
    properties.pNext = &id;
    vkGetPhysicalDeviceProperties2(device, &properties);
    info.driver = fmt::format("{} {}", driver.driverName, driver.driverInfo);
    info.uuid = base::to_hex(std::as_bytes(std::span(id.deviceUUID)));
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(device, &memory);
    info.memory_bytes = static_cast<std::int64_t>(memory.memoryHeaps[largest_heap(memory)].size);
    info.memory_budget = has_extension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (info.compute_family < 0) info.missing.emplace_back("a compute queue");
    // What prove.comp has and, like the matmul shaders, in one direction or two.
    const VkPhysicalDeviceLimits& limits = properties.properties.limits;
    if (limits.maxComputeWorkGroupInvocations < 256 || limits.maxComputeWorkGroupSize[0] < 256)
        info.missing.emplace_back("workgroups of 256");
    describe_features(info);
    info.float_controls = float_controls(device);
    info.matrix_cores = info.matrix_cores && suits_matrix_shaders(instance, device);
    return info;
}

std::int64_t free_device_bytes(const VulkanDeviceInfo& device) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    VkPhysicalDeviceMemoryProperties2 memory{};
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    if (device.memory_budget) memory.pNext = &budget;
    vkGetPhysicalDeviceMemoryProperties2(device.handle, &memory);
    const std::uint32_t heap = largest_heap(memory.memoryProperties);
    auto bytes = static_cast<std::int64_t>(memory.memoryProperties.memoryHeaps[heap].size);
    if (device.memory_budget) {
        bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(budget.heapBudget[heap]) -
                                              static_cast<std::int64_t>(budget.heapUsage[heap]));
    }
    return device.host_memory ? std::min(bytes, base::usable_memory_bytes()) : bytes;
}

std::int64_t offered_device_bytes(const VulkanDeviceInfo& device, std::int64_t free_bytes) {
    return device.host_memory ? free_bytes / 5 * 4 : free_bytes / 10 * 9;
}

}  // namespace helix::engine

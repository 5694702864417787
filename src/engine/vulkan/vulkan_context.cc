#include "engine/vulkan/vulkan_context.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/host/flushed_subnormals.h"
#include "engine/vulkan/cooperative_matrix.h"
#include "engine/vulkan/float_controls.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

constexpr std::uint32_t kPushBytes = 128;  // every device has so many

std::string joined(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
}

// The features that shaders use; `dot` and `matrices` are chained where the device has them.
struct Features {
    explicit Features(const VulkanDeviceInfo& info) {
        all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
        all.pNext = &of11;
        all.features.shaderInt16 = VK_TRUE;
        all.features.shaderFloat64 = info.doubles ? VK_TRUE : VK_FALSE;
        of11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
        of11.pNext = &of12;
        of11.storageBuffer16BitAccess = VK_TRUE;
        of12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
        if (info.integer_dot) add(dot);
        if (info.matrix_cores) {
            add(matrices);
            of12.vulkanMemoryModel = VK_TRUE;
        }
        of12.storageBuffer8BitAccess = VK_TRUE;
        of12.shaderInt8 = VK_TRUE;
        of12.bufferDeviceAddress = VK_TRUE;
        of12.timelineSemaphore = VK_TRUE;
        of12.scalarBlockLayout = VK_TRUE;
        dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
        dot.shaderIntegerDotProduct = VK_TRUE;
        matrices.sType = CooperativeMatrixFeatures::kType;
        matrices.cooperativeMatrix = VK_TRUE;
    }
    template <typename Of>
    void add(Of& more) {
        more.pNext = of12.pNext;
        of12.pNext = &more;
    }
    VkPhysicalDeviceFeatures2 all{};
    VkPhysicalDeviceVulkan11Features of11{};
    VkPhysicalDeviceVulkan12Features of12{};
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot{};
    CooperativeMatrixFeatures matrices;
};

}  // namespace

base::Result<std::shared_ptr<VulkanContext>> VulkanContext::create(
    std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info) {
    if (!info.missing.empty()) {
        return base::invalid(fmt::format("Vulkan device {} ({}) has no {}", info.index, info.name,
                                         joined(info.missing)));
    }
    std::shared_ptr<VulkanContext> context(new VulkanContext(std::move(instance), info));
    const FlushedSubnormals flushed;  // for a device of software: its threads inherit it
    TRY_VOID(context->open());
    return context;
}

base::Status VulkanContext::open() {
    VkPhysicalDeviceVulkan11Properties of11{};
    of11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &of11;
    vkGetPhysicalDeviceProperties2(info_.handle, &properties);
    vkGetPhysicalDeviceMemoryProperties(info_.handle, &memory_);
    const VkDeviceSize largest = std::min<VkDeviceSize>(of11.maxMemoryAllocationSize, 1ULL << 40);
    largest_block_bytes_ = static_cast<std::int64_t>(largest / 4096 * 4096);
    TRY_VOID(open_device());
    vkGetDeviceQueue(device_, static_cast<std::uint32_t>(info_.compute_family), 0, &queue_);
    TRY_VOID(make_layout());
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    create.pNext = &type;
    return vulkan_status(vkCreateSemaphore(device_, &create, nullptr, &timeline_),
                         "making a semaphore");
}

base::Status VulkanContext::open_device() {
    const float priority = 1.0F;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = static_cast<std::uint32_t>(info_.compute_family);
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    std::vector<const char*> extensions;
    if (info_.integer_dot) extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    if (info_.matrix_cores) extensions.push_back(kCooperativeMatrixExtension);
    const Features features(info_);
    VkDeviceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    create.pNext = &features.all;
    create.queueCreateInfoCount = 1;
    create.pQueueCreateInfos = &queue;
    create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    return vulkan_status(vkCreateDevice(info_.handle, &create, nullptr, &device_),
                         "opening a device");
}

base::Status VulkanContext::make_layout() {
    VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
    VkPipelineLayoutCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    create.pushConstantRangeCount = 1;
    create.pPushConstantRanges = &range;
    return vulkan_status(vkCreatePipelineLayout(device_, &create, nullptr, &layout_),
                         "making a pipeline's layout");
}

VulkanContext::~VulkanContext() {
    if (device_ == VK_NULL_HANDLE) return;
    vkDeviceWaitIdle(device_);
    for (const auto& pipelines : pipelines_) {
        for (const auto& [key, pipeline] : pipelines) vkDestroyPipeline(device_, pipeline, nullptr);
    }
    vkDestroyPipelineLayout(device_, layout_, nullptr);
    vkDestroySemaphore(device_, timeline_, nullptr);
    vkDestroyDevice(device_, nullptr);
}

// ---- pipelines

base::Result<VkPipeline> VulkanContext::pipeline(const Shader& shader,
                                                 std::span<const std::uint32_t> constants) {
    auto& pipelines = pipelines_[exact_fma_ ? 1 : 0];
    PipelineKey key(&shader, {constants.begin(), constants.end()});
    const auto found = pipelines.find(key);
    if (found != pipelines.end()) return found->second;
    TRY(const VkPipeline made, make_pipeline(shader, constants));
    pipelines.emplace(std::move(key), made);
    return made;
}

base::Result<VkPipeline> VulkanContext::make_pipeline(
    const Shader& shader, std::span<const std::uint32_t> constants) const {
    const std::vector<std::uint32_t> code =
        with_float_controls(exact_fma_ ? shader.exact : shader.fused, info_.float_controls);
    VkShaderModuleCreateInfo of_module{};
    of_module.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    of_module.codeSize = code.size() * sizeof(std::uint32_t);
    of_module.pCode = code.data();
    VkShaderModule module = VK_NULL_HANDLE;
    TRY_VOID(
        vulkan_status(vkCreateShaderModule(device_, &of_module, nullptr, &module), shader.name));
    std::vector<VkSpecializationMapEntry> entries;
    for (std::uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, 4 * i, 4});
    const VkSpecializationInfo special{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                       constants.size_bytes(), constants.data()};
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    create.layout = layout_;
    create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = module;
    create.stage.pName = "main";
    create.stage.pSpecializationInfo = &special;
    VkPipeline made = VK_NULL_HANDLE;
    const VkResult result =
        vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &create, nullptr, &made);
    vkDestroyShaderModule(device_, module, nullptr);
    TRY_VOID(vulkan_status(result, shader.name));
    return made;
}

// ---- the queue

base::Result<VkCommandPool> VulkanContext::make_command_pool() const {
    VkCommandPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    create.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    create.queueFamilyIndex = static_cast<std::uint32_t>(info_.compute_family);
    VkCommandPool pool = VK_NULL_HANDLE;
    TRY_VOID(vulkan_status(vkCreateCommandPool(device_, &create, nullptr, &pool),
                           "making a pool of commands"));
    return pool;
}

base::Status VulkanContext::queue_status(VkResult result, const char* doing) const {
    if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
    return vulkan_status(result, doing);
}

base::Result<std::uint64_t> VulkanContext::submit(VkCommandBuffer commands) {
    const std::lock_guard lock(queue_mutex_);
    const std::uint64_t number = submitted_ + 1;
    VkTimelineSemaphoreSubmitInfo timeline{};
    timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &number;
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &timeline;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline_;
    TRY_VOID(queue_status(vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "submitting commands"));
    submitted_ = number;
    return number;
}

base::Status VulkanContext::wait(std::uint64_t submission) const {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &timeline_;
    info.pValues = &submission;
    return queue_status(vkWaitSemaphores(device_, &info, std::numeric_limits<std::uint64_t>::max()),
                        "waiting for the device");
}

}  // namespace helix::engine

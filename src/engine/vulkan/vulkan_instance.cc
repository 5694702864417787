#include "engine/vulkan/vulkan_instance.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "engine/host/flushed_subnormals.h"
#include "engine/vulkan/vulkan_physical_device.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL pass_on(VkDebugUtilsMessageSeverityFlagBitsEXT /*severity*/,
                                       VkDebugUtilsMessageTypeFlagsEXT /*types*/,
                                       const VkDebugUtilsMessengerCallbackDataEXT* data,
                                       void* user) {
    (*static_cast<std::function<void(std::string_view)>*>(user))(data->pMessage);
    return VK_FALSE;
}

// One process has one loader; its functions are the same for all instances.
std::mutex& loader_mutex() {
    static std::mutex mutex;
    return mutex;
}

bool open_loader() {
    static const bool opened = volkInitialize() == VK_SUCCESS;
    return opened;
}

void load_functions(VkInstance instance) {
    static const bool loaded = [&] {
        volkLoadInstance(instance);
        return true;
    }();
    CHECK(loaded);
}

base::Error no_driver() {
    return {base::Errc::not_found, "this machine has no Vulkan driver"};
}

std::string list_of(std::span<const VulkanDeviceInfo> devices) {
    std::string list;
    for (const VulkanDeviceInfo& d : devices) {
        list += fmt::format("{}{} ({}, {})", list.empty() ? "" : ", ", d.index, d.name, d.type);
    }
    return list;
}

}  // namespace

base::Result<std::shared_ptr<const VulkanInstance>> VulkanInstance::create(
    VulkanInstanceOptions options) {
    std::shared_ptr<VulkanInstance> instance(new VulkanInstance);
    const FlushedSubnormals flushed;  // for devices of software: their threads inherit it
    TRY_VOID(instance->open(std::move(options)));
    return std::shared_ptr<const VulkanInstance>(std::move(instance));
}

base::Status VulkanInstance::open(VulkanInstanceOptions options) {
    {
        const std::lock_guard lock(loader_mutex());
        if (!open_loader()) {
            return base::Error{base::Errc::not_found,
                               "this machine has no Vulkan loader (libvulkan.so.1)"};
        }
    }
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pApplicationName = "helix";
    application.apiVersion = VK_API_VERSION_1_2;
    const char* layer = kValidationLayer;
    const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    constexpr VkValidationFeatureEnableEXT kOnDevice =
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT;
    VkValidationFeaturesEXT features{};
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.enabledValidationFeatureCount = 1;
    features.pEnabledValidationFeatures = &kOnDevice;
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pApplicationInfo = &application;
    if (options.validate) {
        create.enabledLayerCount = 1;
        create.ppEnabledLayerNames = &layer;
        create.enabledExtensionCount = options.check_addresses ? 2 : 1;
        create.ppEnabledExtensionNames = extensions;
        if (options.check_addresses) create.pNext = &features;
    }
    const VkResult created = vkCreateInstance(&create, nullptr, &instance_);
    if (created == VK_ERROR_INCOMPATIBLE_DRIVER) return no_driver();
    if (created == VK_ERROR_LAYER_NOT_PRESENT) {
        return base::Error{base::Errc::unavailable, "the Vulkan validation layers are missing"};
    }
    TRY_VOID(vulkan_status(created, "opening it"));
    {
        const std::lock_guard lock(loader_mutex());
        load_functions(instance_);
    }
    if (options.validate && options.on_message) {
        on_message_ = std::move(options.on_message);
        TRY_VOID(listen());
    }
    return list_devices();
}

// Functions of extensions belong to this instance alone, so they are looked up here.
base::Status VulkanInstance::listen() {
    VkDebugUtilsMessengerCreateInfoEXT create{};
    create.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    create.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                             VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    create.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    create.pfnUserCallback = pass_on;
    create.pUserData = &on_message_;
    const auto make = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
    CHECK(make != nullptr);
    return vulkan_status(make(instance_, &create, nullptr, &messenger_), "listening to its layers");
}

base::Status VulkanInstance::list_devices() {
    std::uint32_t count = 0;
    TRY_VOID(vulkan_status(vkEnumeratePhysicalDevices(instance_, &count, nullptr),
                           "listing its devices"));
    std::vector<VkPhysicalDevice> handles(count);
    TRY_VOID(vulkan_status(vkEnumeratePhysicalDevices(instance_, &count, handles.data()),
                           "listing its devices"));
    for (const VkPhysicalDevice handle : handles) {
        devices_.push_back(describe_physical_device(instance_, handle));
        devices_.back().index = static_cast<int>(devices_.size()) - 1;
    }
    return base::Ok{};
}

VulkanInstance::~VulkanInstance() {
    if (messenger_ != VK_NULL_HANDLE) {
        const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
        destroy(instance_, messenger_, nullptr);
    }
    if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

base::Result<const VulkanDeviceInfo*> VulkanInstance::find(std::string_view device) const {
    if (devices_.empty()) return no_driver();
    const VulkanDeviceInfo* best = nullptr;
    for (const VulkanDeviceInfo& d : devices_) {
        if (!device.empty()) {
            if (std::to_string(d.index) == device || d.uuid == device) return &d;
        } else if (!d.software && (best == nullptr ||
                                   (d.type == "discrete GPU" && best->type != "discrete GPU"))) {
            best = &d;
        }
    }
    if (best != nullptr) return best;
    if (device.empty()) {
        return base::Error{base::Errc::not_found,
                           "no GPU has a Vulkan driver here; software devices must be named: " +
                               list_of(devices_)};
    }
    return base::Error{base::Errc::not_found, fmt::format("no Vulkan device '{}'; there are: {}",
                                                          device, list_of(devices_))};
}

}  // namespace helix::engine

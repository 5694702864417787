#pragma once

#include <volk.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace helix::engine {

// What shaders may tell a device about 32-bit floats (VK_KHR_shader_float_controls); where they may
// not, it does as it likes.
struct VulkanFloatControls {
    bool flushes_subnormals = false;
    bool keeps_nan = false;  // and infinity, and the sign of zero
};

// A physical device as its driver describes it.
struct VulkanDeviceInfo {
    int index = 0;  // in the loader's order
    VkPhysicalDevice handle = VK_NULL_HANDLE;
    std::string name;
    std::string type;    // "discrete GPU", "integrated GPU", "virtual GPU", "software", "other"
    std::string driver;  // its name and version
    std::string uuid;    // of the device, 32 hexadecimal digits
    std::uint32_t api_version = 0;
    bool software = false;             // computes on this machine's processors
    bool host_memory = false;          // has no memory of its own: software, or integrated
    std::int64_t memory_bytes = 0;     // of its largest heap of its own
    std::int32_t compute_family = -1;  // a queue family that computes; -1: none
    bool memory_budget = false;        // says how much memory is free
    bool doubles = false;
    bool integer_dot = false;
    bool matrix_cores = false;  // that multiply matrices of bytes as shaders/matrix/ does
    VulkanFloatControls float_controls = {};
    // What every shader needs and the device has not, like "bufferDeviceAddress"; empty: nothing.
    std::vector<std::string> missing;
};

struct VulkanInstanceOptions {
    // The validation layers check every call, and say what is wrong. They are slow.
    bool validate = false;
    // They also check every address that shaders read or write, on the device.
    bool check_addresses = false;
    std::function<void(std::string_view)> on_message = {};
};

// The Vulkan loader and the devices that it finds. The loader is opened by the first instance of
// the process.
class VulkanInstance {
  public:
    // not_found: this machine has no Vulkan loader or no driver. unavailable: no validation layers.
    static base::Result<std::shared_ptr<const VulkanInstance>> create(
        VulkanInstanceOptions options = {});
    ~VulkanInstance();
    VulkanInstance(const VulkanInstance&) = delete;
    VulkanInstance& operator=(const VulkanInstance&) = delete;

    std::span<const VulkanDeviceInfo> devices() const { return devices_; }
    // By its index ("0") or UUID; "": the first discrete GPU, else the first that is no software.
    // not_found: none such; says which there are.
    base::Result<const VulkanDeviceInfo*> find(std::string_view device) const;

  private:
    VulkanInstance() = default;
    base::Status open(VulkanInstanceOptions options);
    base::Status listen();
    base::Status list_devices();

    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    std::function<void(std::string_view)> on_message_;
    std::vector<VulkanDeviceInfo> devices_;
};

}  // namespace helix::engine

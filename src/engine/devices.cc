#include "engine/devices.h"

#include <memory>

#include "engine/vulkan/vulkan_context.h"
#include "engine/vulkan/vulkan_instance.h"
#include "engine/vulkan/vulkan_proof.h"

namespace helix::engine {
namespace {

base::Result<VulkanProof> open_and_prove(const std::shared_ptr<const VulkanInstance>& instance,
                                         const VulkanDeviceInfo& info) {
    TRY(const auto context, VulkanContext::create(instance, info));
    return prove(context);
}

VulkanDescription description(const std::shared_ptr<const VulkanInstance>& instance,
                              const VulkanDeviceInfo& info) {
    VulkanDescription d;
    d.index = info.index;
    d.name = info.name;
    d.type = info.type;
    d.driver = info.driver;
    d.uuid = info.uuid;
    d.memory_bytes = info.memory_bytes;
    d.software = info.software;
    const auto proof = open_and_prove(instance, info);
    if (!proof.ok()) {
        d.refused = proof.error().message;
        return d;
    }
    d.fused_fma = proof->fused_fma;
    d.keeps_subnormals = proof->keeps_subnormals;
    d.integer_dot = proof->integer_dot;
    return d;
}

}  // namespace

VulkanList list_vulkan_devices() {
    VulkanList list;
    const auto instance = VulkanInstance::create();
    if (!instance.ok()) {
        list.none = instance.error().message;
        return list;
    }
    for (const VulkanDeviceInfo& info : (*instance)->devices()) {
        list.devices.push_back(description(*instance, info));
    }
    if (list.devices.empty()) list.none = "this machine has no Vulkan driver";
    return list;
}

const VulkanDescription* best_device(const VulkanList& list) {
    const VulkanDescription* best = nullptr;
    for (const VulkanDescription& d : list.devices) {
        if (d.software || !d.refused.empty()) continue;
        if (best == nullptr || (d.type == "discrete GPU" && best->type != "discrete GPU"))
            best = &d;
    }
    return best;
}

}  // namespace helix::engine

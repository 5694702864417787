#include "engine/ops/swiglu.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::swiglu(const ops::Swiglu& op) {
    struct {
        VkDeviceAddress gate, up;
        std::uint32_t count;
    } const push{vulkan(op.gate).address(), vulkan(op.up).address(), word(op.rows * op.width)};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::swiglu, push, groups_for(op.rows * op.width, 128));
}

}  // namespace helix::engine

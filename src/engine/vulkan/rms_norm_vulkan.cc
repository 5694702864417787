#include "engine/ops/rms_norm.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::rms_norm(const ops::RmsNorm& op) {
    struct {
        VkDeviceAddress x, weight, y;
        std::uint32_t rows, width;
        float epsilon;
    } const push{vulkan(op.x).address(), vulkan(op.weight).address(),
                 vulkan(op.y).address(), word(op.rows),
                 word(op.width),         op.epsilon};
    VulkanCommands::Operator(*commands_).dispatch(shaders::rms_norm, push, groups_for(op.rows));
}

}  // namespace helix::engine

#include "engine/ops/add_bias.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::add_bias(const ops::AddBias& op) {
    struct {
        VkDeviceAddress x, bias, expert;
        std::uint32_t rows, width, has_expert, unused;
    } const push{vulkan(op.x).address(),
                 vulkan(op.bias).address(),
                 op.routing == nullptr ? 0 : vulkan(*op.routing).visit_expert(),
                 word(op.rows),
                 word(op.width),
                 op.routing != nullptr ? 1U : 0U,
                 0};
    VulkanCommands::Operator(*commands_).dispatch(shaders::add_bias, push, groups_for(op.rows));
}

}  // namespace helix::engine

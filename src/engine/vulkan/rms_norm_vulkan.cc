#include "engine/ops/rms_norm.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::rms_norm(const ops::RmsNorm& op) {
    const std::int64_t floats = op.rows * op.width;
    struct {
        VkDeviceAddress x, weight, y, blocks;
        std::uint32_t rows, width;
        float epsilon;
        std::uint32_t unused;
    } const push{vulkan(op.x).address(),
                 vulkan(op.weight).address(),
                 vulkan(op.y).address(),
                 quantised_room_of_next(floats, op.width),
                 word(op.rows),
                 word(op.width),
                 op.epsilon,
                 0};
    const std::uint32_t constants[] = {push.blocks != 0 ? 1U : 0U};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::rms_norm, push, groups_for(op.rows), constants);
    if (push.blocks != 0) note_quantised(op.y, floats);
}

}  // namespace helix::engine

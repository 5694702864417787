#include "engine/ops/add_rows.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::add_rows(const ops::AddRows& op) {
    constexpr std::int64_t kLanes = 128;  // of add_rows.comp
    const std::int64_t floats = op.rows * op.width;
    struct {
        VkDeviceAddress x, y;
        std::uint32_t count;
        float factor;
    } const push{vulkan(op.x).address(), vulkan(op.y).address(), word(floats), op.factor};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::add_rows, push, groups_for(floats, kLanes));
}

}  // namespace helix::engine

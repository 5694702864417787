#include "engine/ops/scale_rows.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::scale_rows(const ops::ScaleRows& op) {
    constexpr std::int64_t kLanes = 128;  // of scale_rows.comp
    const std::int64_t floats = op.rows * op.width;
    struct {
        VkDeviceAddress x;
        std::uint32_t count;
        float factor, cap;
        std::uint32_t unused;
    } const push{vulkan(op.x).address(), word(floats), op.factor, op.cap, 0};
    VulkanCommands::Operator(*commands_)
        .dispatch(shaders::scale_rows, push, groups_for(floats, kLanes));
}

}  // namespace helix::engine

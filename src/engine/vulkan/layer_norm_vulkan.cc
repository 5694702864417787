#include "engine/ops/layer_norm.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::layer_norm(const ops::LayerNorm& op) {
    struct {
        VkDeviceAddress x, weight, y;
        std::uint32_t rows, width;
        float epsilon;
        std::uint32_t n_weights;
    } const push{vulkan(op.x).address(), vulkan(op.weight).address(),
                 vulkan(op.y).address(), word(op.rows),
                 word(op.width),         op.epsilon,
                 word(op.n_weights)};
    VulkanCommands::Operator(*commands_).dispatch(shaders::layer_norm, push, groups_for(op.rows));
}

}  // namespace helix::engine

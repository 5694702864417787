#include "engine/ops/rope.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {

void VulkanDevice::rope(const ops::Rope& op) {
    const auto address = [](const Buffer* buffer) {
        return buffer == nullptr ? 0 : vulkan(*buffer).address();
    };
    VulkanCommands::Operator record(*commands_);
    for (const ops::ProjectedHeads& heads : op.heads) {
        struct {
            VkDeviceAddress x, bias, norm, angles;
            std::uint32_t rows, n_heads, head_dim, rope_dim;
            float epsilon;
            std::uint32_t has_bias, has_norm, rotate, adjacent;
        } const push{address(&heads.x),
                     address(heads.bias),
                     address(heads.norm),
                     address(&op.angles),
                     word(op.rows),
                     word(heads.n_heads),
                     word(op.head_dim),
                     word(op.rope_dim),
                     op.epsilon,
                     heads.bias != nullptr ? 1U : 0U,
                     heads.norm != nullptr ? 1U : 0U,
                     heads.rotate ? 1U : 0U,
                     op.pairs == model::RopePairs::adjacent ? 1U : 0U};
        record.dispatch(shaders::rope, push, groups_for(op.rows * heads.n_heads));
    }
}

}  // namespace helix::engine

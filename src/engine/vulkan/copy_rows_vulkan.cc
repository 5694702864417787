#include "engine/ops/copy_rows.h"

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_memory.h"

namespace helix::engine {

void VulkanDevice::copy_rows(const ops::CopyRows& op) {
    const VulkanBuffer& from = vulkan(op.from);
    const VulkanBuffer& to = vulkan(op.to);
    VulkanCommands::Operator record(*commands_);
    for (const ops::RowRange& range : op.ranges) {
        const std::int64_t floats = range.count * op.width;
        record.copy(from.part(range.from * op.width, floats), to.part(range.to * op.width, floats));
    }
}

}  // namespace helix::engine

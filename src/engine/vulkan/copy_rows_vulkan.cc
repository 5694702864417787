#include "engine/ops/copy_rows.h"

#include <algorithm>

#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kQuadBytes = 16;  // that a lane of copy_floats.comp copies at a time
constexpr std::int64_t kQuadsOfGroup = 4 * 256;
// More groups than run at a time: each goes on with the next piece.
constexpr std::int64_t kMostCopyGroups = 4096;
// Of less, a dispatch takes as long as a copy by the driver.
constexpr std::int64_t kLeastBytes = 64 << 10;

// A driver may leave its copies to an engine that is slower than the processors' own loads and
// stores, a fifth as fast on an H200.
bool is_for_shader(const VulkanSlice& from, const VulkanSlice& to) {
    return from.bytes >= kLeastBytes && from.bytes % kQuadBytes == 0 &&
           from.address() % kQuadBytes == 0 && to.address() % kQuadBytes == 0;
}

void record_copy(VulkanCommands::Operator& record, const VulkanSlice& from, const VulkanSlice& to) {
    if (!is_for_shader(from, to)) return record.copy(from, to);
    struct {
        VkDeviceAddress from, to;
        std::uint32_t count;
    } const push{from.address(), to.address(), word(from.bytes / kQuadBytes)};
    VulkanGroups groups = groups_for(push.count, kQuadsOfGroup);
    groups.x = std::min(groups.x, kMostCopyGroups);
    record.dispatch(shaders::copy_floats, push, groups);
}

}  // namespace

void VulkanDevice::copy_rows(const ops::CopyRows& op) {
    const VulkanBuffer& from = vulkan(op.from);
    const VulkanBuffer& to = vulkan(op.to);
    VulkanCommands::Operator record(*commands_);
    for (const ops::RowRange& range : op.ranges) {
        const std::int64_t floats = range.count * op.width;
        record_copy(record, from.part(range.from * op.width, floats),
                    to.part(range.to * op.width, floats));
    }
}

}  // namespace helix::engine

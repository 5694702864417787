#include "engine/vulkan/vulkan_recordings.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/random.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

// Without padding, so that bytes can be compared.
static_assert(std::has_unique_object_representations_v<VulkanCommand>);
static_assert(sizeof(VulkanCommand) % sizeof(std::uint64_t) == 0);

std::uint64_t hash_of(std::span<const VulkanCommand> list) {
    std::uint64_t hash = list.size();
    for (const VulkanCommand& command : list) {
        std::array<std::uint64_t, sizeof(VulkanCommand) / sizeof(std::uint64_t)> words;
        std::memcpy(words.data(), &command, sizeof(command));
        for (const std::uint64_t word : words) hash = base::mix64(hash ^ word);
    }
    return hash;
}

bool is_same(std::span<const VulkanCommand> a, std::span<const VulkanCommand> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void record_barrier(VkCommandBuffer to, VkPipelineStageFlags before, VkPipelineStageFlags after,
                    VkAccessFlags written, VkAccessFlags seen_by) {
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = written;
    barrier.dstAccessMask = seen_by;
    vkCmdPipelineBarrier(to, before, after, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void record_command(VkCommandBuffer to, VkPipelineLayout layout, const VulkanCommand& command) {
    switch (command.kind) {
        case VulkanCommand::Kind::barrier: {
            constexpr VkPipelineStageFlags kStages =
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
            return record_barrier(to, kStages, kStages,
                                  VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                      VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
        }
        case VulkanCommand::Kind::host_barrier:
            return record_barrier(to, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                                  VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT);
        case VulkanCommand::Kind::dispatch:
            vkCmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, command.pipeline);
            vkCmdPushConstants(to, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, command.push_bytes,
                               command.push.data());
            return vkCmdDispatch(to, command.groups[0], command.groups[1], command.groups[2]);
        case VulkanCommand::Kind::copy:
            return vkCmdCopyBuffer(to, command.from, command.to, 1, &command.region);
    }
}

}  // namespace

base::Result<VkCommandBuffer> VulkanRecordings::of(std::span<const VulkanCommand> list) {
    const std::int64_t now = counts_.recorded + counts_.used_again + 1;
    const std::uint64_t hash = hash_of(list);
    for (Recording& one : kept_) {
        if (one.hash != hash || !is_same(one.list, list)) continue;
        one.used = now;
        ++counts_.used_again;
        return one.commands;
    }
    TRY(Recording * place, make_place());
    place->list.clear();  // what is there is that of no list until it is recorded
    place->hash = 0;
    Recording made{place->commands, {list.begin(), list.end()}, hash, now};
    TRY_VOID(record(made));
    *place = std::move(made);
    ++counts_.recorded;
    return place->commands;
}

base::Result<VulkanRecordings::Recording*> VulkanRecordings::make_place() {
    if (kept_.size() == most_) {
        return &*std::min_element(kept_.begin(), kept_.end(),
                                  [](const auto& a, const auto& b) { return a.used < b.used; });
    }
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    Recording made;
    TRY_VOID(vulkan_status(vkAllocateCommandBuffers(context_.device(), &allocate, &made.commands),
                           "making a command buffer"));
    kept_.push_back(std::move(made));
    return &kept_.back();
}

base::Status VulkanRecordings::record(const Recording& recording) const {
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    TRY_VOID(vulkan_status(vkBeginCommandBuffer(recording.commands, &info), "beginning commands"));
    for (const VulkanCommand& command : recording.list)
        record_command(recording.commands, context_.layout(), command);
    return vulkan_status(vkEndCommandBuffer(recording.commands), "ending commands");
}

}  // namespace helix::engine

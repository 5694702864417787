#include "engine/vulkan/vulkan_commands.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

constexpr std::size_t kBatches = 3;              // that are under way or recorded
constexpr std::int32_t kMostCommands = 512;      // of a batch
constexpr std::int64_t kStagingBytes = 4 << 20;  // of a batch
constexpr std::int64_t kAlignment = 64;

}  // namespace

base::Result<std::unique_ptr<VulkanCommands>> VulkanCommands::create(
    std::shared_ptr<VulkanContext> context) {
    std::unique_ptr<VulkanCommands> made(new VulkanCommands(std::move(context)));
    TRY(made->pool_, made->context_->make_command_pool());
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = made->pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    made->batches_.resize(kBatches);
    for (Batch& batch : made->batches_) {
        TRY_VOID(vulkan_status(
            vkAllocateCommandBuffers(made->context_->device(), &allocate, &batch.commands),
            "making a command buffer"));
        TRY(batch.staging, made->context_->allocate(kStagingBytes, VulkanMemory::upload));
    }
    return made;
}

VulkanCommands::~VulkanCommands() {
    vkDeviceWaitIdle(context_->device());
    vkDestroyCommandPool(context_->device(), pool_, nullptr);
}

void VulkanCommands::fail(const base::Error& error) {
    if (!error_) error_ = error;
}

base::Status VulkanCommands::settle(std::uint64_t submission) {
    return submission == 0 ? base::Status(base::Ok{}) : context_->wait(submission);
}

base::Status VulkanCommands::begin() {
    Batch& batch = batches_[now_];
    // An operator that began in this one may have ended in the next.
    TRY_VOID(settle(std::max(batch.submission, batches_[(now_ + 1) % batches_.size()].submission)));
    batch.submission = 0;
    batch.staged_bytes = 0;
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    TRY_VOID(vulkan_status(vkBeginCommandBuffer(batch.commands, &info), "beginning commands"));
    open_ = true;
    count_ = 0;
    record_barrier();
    return base::Ok{};
}

bool VulkanCommands::ready() {
    if (error_) return false;
    if (!open_) {
        const base::Status begun = begin();
        if (!begun.ok()) fail(begun.error());
    }
    return !error_.has_value();
}

void VulkanCommands::submit() {
    if (!open_) return;
    open_ = false;
    Batch& batch = batches_[now_];
    const VkResult ended = vkEndCommandBuffer(batch.commands);
    if (ended != VK_SUCCESS) return fail(vulkan_status(ended, "ending commands").error());
    auto submitted = context_->submit(batch.commands);
    if (!submitted.ok()) return fail(submitted.error());
    batch.submission = last_ = *submitted;
    now_ = (now_ + 1) % batches_.size();
}

// Whatever was written before is seen by whatever reads or writes after.
void VulkanCommands::record_barrier() {
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                            VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    constexpr VkPipelineStageFlags kStages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    vkCmdPipelineBarrier(batches_[now_].commands, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0,
                         nullptr);
}

// Room in the open batch's staging memory; a batch that has none left is submitted.
base::Result<VulkanSlice> VulkanCommands::stage(std::int64_t bytes) {
    const std::int64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (batches_[now_].staged_bytes + room > batches_[now_].staging->bytes) {
        if (batches_[now_].staged_bytes > 0) {
            submit();
            if (!ready()) return *error_;
        }
        if (room > batches_[now_].staging->bytes) {
            TRY(batches_[now_].staging, context_->allocate(room, VulkanMemory::upload));
        }
    }
    Batch& batch = batches_[now_];
    const VulkanSlice slice{batch.staging.get(), batch.staged_bytes, bytes};
    batch.staged_bytes += room;
    return slice;
}

void VulkanCommands::finish() {
    submit();
    const base::Status waited = settle(last_);
    if (!waited.ok()) fail(waited.error());
}

void VulkanCommands::start() {
    const std::lock_guard lock(mutex_);
    submit();
}

void VulkanCommands::drain() {
    const std::lock_guard lock(mutex_);
    finish();
}

base::Status VulkanCommands::wait() {
    const std::lock_guard lock(mutex_);
    finish();
    if (!error_) return base::Ok{};
    const base::Error error = *error_;
    if (!context_->lost()) error_.reset();
    return error;
}

base::Status VulkanCommands::download(const VulkanSlice& from, std::byte* to) {
    constexpr std::int64_t kPieceBytes = 16 << 20;
    for (std::int64_t at = 0; at < from.bytes; at += kPieceBytes) {
        const std::int64_t bytes = std::min(kPieceBytes, from.bytes - at);
        const std::lock_guard lock(mutex_);
        if (download_ == nullptr || download_->bytes < bytes) {
            TRY(download_, context_->allocate(bytes, VulkanMemory::readback));
        }
        if (!ready()) return *error_;
        record_barrier();
        const VkBufferCopy region{static_cast<VkDeviceSize>(from.offset + at), 0,
                                  static_cast<VkDeviceSize>(bytes)};
        vkCmdCopyBuffer(batches_[now_].commands, from.block->buffer, download_->buffer, 1, &region);
        VkMemoryBarrier barrier{};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
        vkCmdPipelineBarrier(batches_[now_].commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                             VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
        finish();
        if (error_) return *error_;
        std::memcpy(to + at, download_->mapped, base::size_of(bytes));
    }
    return base::Ok{};
}

// ---- an operator

VulkanCommands::Operator::Operator(VulkanCommands& commands)
    : commands_(commands), lock_(commands.mutex_) {
    barrier();
}

VulkanCommands::Operator::~Operator() {
    if (commands_.open_ && commands_.count_ >= kMostCommands) commands_.submit();
}

void VulkanCommands::Operator::barrier() {
    if (commands_.ready()) commands_.record_barrier();
}

VkDeviceAddress VulkanCommands::Operator::put_bytes(std::span<const std::byte> bytes) {
    if (!commands_.ready()) return 0;
    auto slice = commands_.stage(static_cast<std::int64_t>(std::max<std::size_t>(1, bytes.size())));
    if (!slice.ok()) {
        commands_.fail(slice.error());
        return 0;
    }
    std::copy(bytes.begin(), bytes.end(), slice->mapped());
    return slice->address();
}

void VulkanCommands::Operator::dispatch_bytes(const Shader& shader, std::span<const std::byte> push,
                                              VulkanGroups groups,
                                              std::span<const std::uint32_t> constants) {
    if (!commands_.ready() || groups.x == 0 || groups.y == 0 || groups.z == 0) return;
    const auto pipeline = commands_.context_->pipeline(shader, constants);
    if (!pipeline.ok()) return commands_.fail(pipeline.error());
    const VkCommandBuffer to = commands_.batches_[commands_.now_].commands;
    vkCmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, *pipeline);
    vkCmdPushConstants(to, commands_.context_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       static_cast<std::uint32_t>(push.size()), push.data());
    CHECK(groups.x <= kMostGroups && groups.y <= kMostGroups && groups.z <= kMostGroups);
    vkCmdDispatch(to, static_cast<std::uint32_t>(groups.x), static_cast<std::uint32_t>(groups.y),
                  static_cast<std::uint32_t>(groups.z));
    ++commands_.count_;
}

void VulkanCommands::Operator::copy(const VulkanSlice& from, const VulkanSlice& to) {
    if (!commands_.ready() || from.bytes == 0) return;
    const VkBufferCopy region{static_cast<VkDeviceSize>(from.offset),
                              static_cast<VkDeviceSize>(to.offset),
                              static_cast<VkDeviceSize>(from.bytes)};
    vkCmdCopyBuffer(commands_.batches_[commands_.now_].commands, from.block->buffer,
                    to.block->buffer, 1, &region);
    ++commands_.count_;
}

void VulkanCommands::Operator::upload(std::span<const std::byte> from, const VulkanSlice& to) {
    CHECK(static_cast<std::int64_t>(from.size()) == to.bytes);
    for (std::int64_t at = 0; at < to.bytes; at += kStagingBytes) {
        const std::int64_t bytes = std::min(kStagingBytes, to.bytes - at);
        if (!commands_.ready()) return;
        auto slice = commands_.stage(bytes);
        if (!slice.ok()) return commands_.fail(slice.error());
        std::memcpy(slice->mapped(), from.data() + at, base::size_of(bytes));
        copy(*slice, to.part(at, bytes));
    }
}

}  // namespace helix::engine

#pragma once

#include <volk.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/vulkan/shader.h"
#include "engine/vulkan/vulkan_instance.h"

namespace helix::engine {

class VulkanContext;

// device: fastest for the device. upload and readback: this machine's, mapped, for what goes there
// and for what comes back.
enum class VulkanMemory { device, upload, readback };

// One allocation of memory, with one buffer over all of it.
class VulkanBlock {
  public:
    explicit VulkanBlock(const VulkanContext& context);
    ~VulkanBlock();
    VulkanBlock(const VulkanBlock&) = delete;
    VulkanBlock& operator=(const VulkanBlock&) = delete;

    const std::uint64_t number;  // that no other block of the process has or had
    VulkanMemory kind = VulkanMemory::device;
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkDeviceAddress address = 0;  // where shaders find it
    std::byte* mapped = nullptr;  // null: not mapped
    std::int64_t bytes = 0;

  private:
    const VulkanContext& context_;
};

// Bytes of a block.
struct VulkanSlice {
    const VulkanBlock* block = nullptr;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    VkDeviceAddress address() const {
        return block->address + static_cast<VkDeviceAddress>(offset);
    }
    std::byte* mapped() const { return block->mapped + offset; }
    VulkanSlice part(std::int64_t first, std::int64_t count) const {
        return {block, offset + first, count};
    }
};

// A logical device with one compute queue, its memory and its pipelines. Pipelines are made when
// they are first used. Any thread may allocate, submit and wait; one at a time asks for pipelines.
class VulkanContext {
  public:
    // invalid: the device lacks what every shader needs; names it. `info` is of the instance.
    static base::Result<std::shared_ptr<VulkanContext>> create(
        std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info);
    ~VulkanContext();
    VulkanContext(const VulkanContext&) = delete;
    VulkanContext& operator=(const VulkanContext&) = delete;

    VkDevice device() const { return device_; }
    const VulkanDeviceInfo& info() const { return info_; }
    std::int64_t largest_block_bytes() const { return largest_block_bytes_; }

    // Of the device's own memory, from here on: as if it had no more.
    void take_at_most(std::int64_t bytes) { most_bytes_ = bytes; }
    // Of that, what is not taken yet.
    std::int64_t room_bytes() const { return most_bytes_ - taken_bytes_; }
    // unavailable: no memory.
    base::Result<std::unique_ptr<VulkanBlock>> allocate(std::int64_t bytes,
                                                        VulkanMemory kind) const;

    // Which variant of shaders the pipelines made from here on have; fused at first.
    void use_exact_fma(bool exact) { exact_fma_ = exact; }
    bool exact_fma() const { return exact_fma_; }
    // Whether matmul shaders are those with the device's integer dot product; not at first.
    void use_integer_dot(bool use) { integer_dot_ = use; }
    bool integer_dot() const { return integer_dot_; }
    // Whether products of many rows are those of the device's matrix cores; not at first.
    void use_matrix_cores(bool use) { matrix_cores_ = use; }
    bool matrix_cores() const { return matrix_cores_; }
    // Whether shaders may take the device's own floats of halves; not at first.
    void use_unpacked_halves(bool use) { unpacks_halves_ = use; }
    bool unpacks_halves() const { return unpacks_halves_; }
    // constants: of the specialisation ids 0, 1, 2... of the shader.
    base::Result<VkPipeline> pipeline(const Shader& shader,
                                      std::span<const std::uint32_t> constants);
    // Of all pipelines: 128 bytes of push constants, no descriptors.
    VkPipelineLayout layout() const { return layout_; }

    base::Result<VkCommandPool> make_command_pool() const;
    // Submissions are numbered from 1 and end in their order.
    base::Result<std::uint64_t> submit(VkCommandBuffer commands);
    // Until that submission has ended. unavailable: the device was lost.
    base::Status wait(std::uint64_t submission) const;
    bool lost() const { return lost_; }

  private:
    friend class VulkanBlock;
    using PipelineKey = std::pair<const Shader*, std::vector<std::uint32_t>>;

    VulkanContext(std::shared_ptr<const VulkanInstance> instance, const VulkanDeviceInfo& info)
        : instance_(std::move(instance)), info_(info) {}
    base::Status open();
    base::Status queue_status(VkResult result, const char* doing) const;
    base::Status open_device();
    base::Status make_layout();
    std::vector<std::uint32_t> memory_types(std::uint32_t allowed, VulkanMemory kind) const;
    base::Status take(VulkanBlock& block, VkDeviceSize bytes, std::span<const std::uint32_t> types,
                      const char* doing) const;
    base::Result<VkPipeline> make_pipeline(const Shader& shader,
                                           std::span<const std::uint32_t> constants) const;

    std::shared_ptr<const VulkanInstance> instance_;
    VulkanDeviceInfo info_;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkPhysicalDeviceMemoryProperties memory_{};
    std::int64_t largest_block_bytes_ = 0;
    std::int64_t most_bytes_ = std::numeric_limits<std::int64_t>::max();
    mutable std::atomic<std::int64_t> taken_bytes_ = 0;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    bool exact_fma_ = false;
    bool integer_dot_ = false;
    bool matrix_cores_ = false;
    bool unpacks_halves_ = false;
    std::map<PipelineKey, VkPipeline> pipelines_[2];  // fused, exact
    std::mutex queue_mutex_;
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    std::uint64_t submitted_ = 0;
    mutable std::atomic<bool> lost_ = false;
};

}  // namespace helix::engine

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/vulkan/vulkan_context.h"

namespace helix::engine {

class VulkanPool;

// A part of a pool's memory, which is given back when this goes. What the device still does with it
// comes before whatever its next owner has the device do.
class VulkanMemoryPart {
  public:
    VulkanMemoryPart() = default;
    VulkanMemoryPart(std::shared_ptr<VulkanPool> pool, const VulkanSlice& slice)
        : pool_(std::move(pool)), slice_(slice) {}
    VulkanMemoryPart(VulkanMemoryPart&& other) noexcept
        : pool_(std::move(other.pool_)), slice_(other.slice_) {}
    VulkanMemoryPart& operator=(VulkanMemoryPart&& other) noexcept;
    ~VulkanMemoryPart();
    const VulkanSlice& slice() const { return slice_; }

  private:
    std::shared_ptr<VulkanPool> pool_;
    VulkanSlice slice_;
};

// Parts of few large blocks of device memory: drivers allow only some thousand allocations. The
// first that fits is taken. Not thread-safe.
class VulkanPool : public std::enable_shared_from_this<VulkanPool> {
  public:
    // Blocks have at least so many bytes.
    VulkanPool(std::shared_ptr<VulkanContext> context, std::int64_t block_bytes)
        : context_(std::move(context)), block_bytes_(block_bytes) {}

    // unavailable: no memory.
    base::Result<VulkanMemoryPart> take(std::int64_t bytes);
    void set_block_bytes(std::int64_t bytes) { block_bytes_ = bytes; }
    std::int64_t block_bytes() const { return block_bytes_; }
    // Blocks that nothing lies in go back to the device, which is done with them.
    void give_back_unused();

  private:
    friend class VulkanMemoryPart;
    struct Block {
        std::unique_ptr<VulkanBlock> block;
        std::map<std::int64_t, std::int64_t> free;  // bytes from an offset on
    };
    void give_back(const VulkanSlice& slice);

    std::shared_ptr<VulkanContext> context_;
    std::int64_t block_bytes_;
    std::vector<Block> blocks_;
};

}  // namespace helix::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/device/memory.h"
#include "engine/ops/kv_layout.h"
#include "engine/vulkan/vulkan_commands.h"

namespace helix::engine {

// KV pages in device memory, each as ops::KvLayout with one rank describes it; so a page lies here
// as it travels. Swapped pages lie in host memory that the device can copy to and from.
class VulkanKvArena final : public KvArena {
  public:
    // unavailable: no memory.
    static base::Result<std::unique_ptr<KvArena>> allocate(
        const ops::KvLayout& layout, std::int64_t pages, std::int64_t swap_pages,
        std::shared_ptr<VulkanCommands> commands);
    // Waits for what is under way with its pages.
    ~VulkanKvArena() override;

    std::int64_t pages() const override { return pages_.count; }
    std::int64_t swap_pages() const override { return swapped_.count; }
    base::Status move(const core::BatchPlan& plan) override;
    base::Status read(core::PageId page, std::byte* bytes) const override;
    base::Status write(core::PageId page, const std::byte* bytes) override;

    const ops::KvLayout& layout() const { return layout_; }
    VkDeviceAddress address(core::PageId page) const { return pages_.slice(page).address(); }

  private:
    // Slots of one size in as many blocks as it takes.
    struct Slots {
        std::vector<std::unique_ptr<VulkanBlock>> blocks;
        std::int64_t count = 0;
        std::int64_t of_block = 1;
        std::int64_t stride = 0;  // bytes
        std::int64_t bytes = 0;   // of a slot

        base::Status allocate(const VulkanContext& context, std::int64_t slots,
                              std::int64_t slot_bytes, VulkanMemory kind);
        VulkanSlice slice(std::int64_t i) const;
    };

    VulkanKvArena(const ops::KvLayout& layout, std::shared_ptr<VulkanCommands> commands)
        : layout_(layout), commands_(std::move(commands)) {}

    ops::KvLayout layout_;
    std::shared_ptr<VulkanCommands> commands_;
    Slots pages_, swapped_;
};

}  // namespace helix::engine

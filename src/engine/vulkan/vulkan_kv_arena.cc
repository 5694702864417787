#include "engine/vulkan/vulkan_kv_arena.h"

#include <algorithm>
#include <utility>

#include "base/index.h"

namespace helix::engine {

base::Status VulkanKvArena::Slots::allocate(const VulkanContext& context, std::int64_t slots,
                                            std::int64_t slot_bytes, VulkanMemory kind) {
    constexpr std::int64_t kSlotAlignment = 64;
    bytes = slot_bytes;
    stride = (slot_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
    of_block = std::max<std::int64_t>(1, context.largest_block_bytes() / stride);
    for (std::int64_t first = 0; first < slots; first += of_block) {
        TRY(auto block, context.allocate(std::min(of_block, slots - first) * stride, kind));
        blocks.push_back(std::move(block));
    }
    count = slots;
    return base::Ok{};
}

VulkanSlice VulkanKvArena::Slots::slice(std::int64_t i) const {
    return {blocks[base::at(i / of_block)].get(), i % of_block * stride, bytes};
}

base::Result<std::unique_ptr<KvArena>> VulkanKvArena::allocate(
    const ops::KvLayout& layout, std::int64_t pages, std::int64_t swap_pages,
    std::shared_ptr<VulkanCommands> commands) {
    ops::KvLayout here = layout;
    here.ranks = 1;
    here.rank_stride = 0;
    std::unique_ptr<VulkanKvArena> kv(new VulkanKvArena(here, std::move(commands)));
    const VulkanContext& context = kv->commands_->context();
    TRY_VOID(kv->pages_.allocate(context, pages, here.page_bytes(), VulkanMemory::device));
    TRY_VOID(kv->swapped_.allocate(context, swap_pages, here.page_bytes(), VulkanMemory::readback));
    return std::unique_ptr<KvArena>(std::move(kv));
}

VulkanKvArena::~VulkanKvArena() {
    commands_->drain();
}

base::Status VulkanKvArena::move(const core::BatchPlan& plan) {
    if (plan.swap_out.empty() && plan.swap_in.empty() && plan.copies.empty()) return base::Ok{};
    VulkanCommands::Operator record(*commands_);
    for (const core::PageSwap& swap : plan.swap_out)
        record.copy(pages_.slice(swap.page), swapped_.slice(swap.slot));
    record.barrier();
    for (const core::PageSwap& swap : plan.swap_in)
        record.copy(swapped_.slice(swap.slot), pages_.slice(swap.page));
    record.barrier();
    // One after the other: a copy may read what the last one wrote.
    for (const core::PageCopy& copy : plan.copies) {
        record.copy(pages_.slice(copy.from), pages_.slice(copy.to));
        record.barrier();
    }
    return base::Ok{};
}

base::Status VulkanKvArena::read(core::PageId page, std::byte* bytes) const {
    return commands_->download(pages_.slice(page), bytes);
}

base::Status VulkanKvArena::write(core::PageId page, const std::byte* bytes) {
    VulkanCommands::Operator record(*commands_);
    record.upload({bytes, base::size_of(pages_.bytes)}, pages_.slice(page), nullptr);
    return base::Ok{};
}

}  // namespace helix::engine

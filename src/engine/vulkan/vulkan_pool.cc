#include "engine/vulkan/vulkan_pool.h"

#include <algorithm>

#include "base/check.h"

namespace helix::engine {
namespace {

// Of every part: more than any device asks for, and whole lines of its caches.
constexpr std::int64_t kPartAlignment = 256;

std::int64_t rounded(std::int64_t bytes) {
    return (std::max<std::int64_t>(bytes, 1) + kPartAlignment - 1) / kPartAlignment *
           kPartAlignment;
}

}  // namespace

VulkanMemoryPart& VulkanMemoryPart::operator=(VulkanMemoryPart&& other) noexcept {
    if (this != &other) {
        if (pool_ != nullptr) pool_->give_back(slice_);
        pool_ = std::move(other.pool_);
        slice_ = other.slice_;
    }
    return *this;
}

VulkanMemoryPart::~VulkanMemoryPart() {
    if (pool_ != nullptr) pool_->give_back(slice_);
}

base::Result<VulkanMemoryPart> VulkanPool::take(std::int64_t bytes) {
    const std::int64_t room = rounded(bytes);
    const auto take_from = [&](Block& block) -> VulkanSlice {
        for (auto it = block.free.begin(); it != block.free.end(); ++it) {
            const auto [offset, free] = *it;
            if (free < room) continue;
            block.free.erase(it);
            if (free > room) block.free.emplace(offset + room, free - room);
            return {block.block.get(), offset, bytes};
        }
        return {};
    };
    for (Block& block : blocks_) {
        const VulkanSlice slice = take_from(block);
        if (slice.block != nullptr) return VulkanMemoryPart(shared_from_this(), slice);
    }
    Block block;
    const std::int64_t most = std::min(block_bytes_, context_->largest_block_bytes());
    auto made = context_->allocate(std::max(room, most), VulkanMemory::device);
    // Where there is no memory for a whole block there may be some for this part.
    if (!made.ok() && most > room) made = context_->allocate(room, VulkanMemory::device);
    TRY(block.block, std::move(made));
    block.free.emplace(0, block.block->bytes);
    blocks_.push_back(std::move(block));
    return VulkanMemoryPart(shared_from_this(), take_from(blocks_.back()));
}

void VulkanPool::give_back(const VulkanSlice& slice) {
    const auto owner = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
        return block.block.get() == slice.block;
    });
    CHECK(owner != blocks_.end());
    auto& free = owner->free;
    auto at = free.emplace(slice.offset, rounded(slice.bytes)).first;
    const auto next = std::next(at);
    if (next != free.end() && at->first + at->second == next->first) {
        at->second += next->second;
        free.erase(next);
    }
    if (at == free.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
        before->second += at->second;
        free.erase(at);
    }
}

void VulkanPool::give_back_unused() {
    std::erase_if(blocks_, [](const Block& block) {
        return block.free.size() == 1 && block.free.begin()->second == block.block->bytes;
    });
}

}  // namespace helix::engine

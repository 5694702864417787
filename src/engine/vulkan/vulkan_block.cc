#include <atomic>
#include <initializer_list>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "engine/vulkan/vulkan_context.h"
#include "engine/vulkan/vulkan_result.h"

namespace helix::engine {
namespace {

std::uint64_t next_block_number() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
}

}  // namespace

VulkanBlock::VulkanBlock(const VulkanContext& context)
    : number(next_block_number()), context_(context) {}

VulkanBlock::~VulkanBlock() {
    if (kind == VulkanMemory::device) context_.taken_bytes_ -= bytes;
    vkDestroyBuffer(context_.device(), buffer, nullptr);
    vkFreeMemory(context_.device(), memory, nullptr);  // and unmaps it
}

// The types that have what is needed, the one that has the most of what is wished first.
std::vector<std::uint32_t> VulkanContext::memory_types(std::uint32_t allowed,
                                                       VulkanMemory kind) const {
    constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags kMapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    constexpr VkMemoryPropertyFlags kCached = kMapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    std::vector<std::uint32_t> types;
    const auto add_first = [&](VkMemoryPropertyFlags flags) {
        for (std::uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
            const bool has = (memory_.memoryTypes[i].propertyFlags & flags) == flags;
            if (has && ((allowed >> i) & 1U) != 0) return types.push_back(i);
        }
    };
    switch (kind) {
        case VulkanMemory::device:
            add_first(kLocal);
            break;
        case VulkanMemory::upload:
            // Shaders read page tables there, one after the other: across the bus each takes long.
            add_first(kLocal | kMapped);
            add_first(kMapped);
            break;
        case VulkanMemory::readback:
            add_first(kCached);
            add_first(kMapped);
            break;
    }
    return types;
}

// Of the first type that has room.
base::Status VulkanContext::take(VulkanBlock& block, VkDeviceSize bytes,
                                 std::span<const std::uint32_t> types, const char* doing) const {
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo take{};
    take.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    take.pNext = &flags;
    take.allocationSize = bytes;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (const std::uint32_t type : types) {
        if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY) break;
        take.memoryTypeIndex = type;
        result = vkAllocateMemory(device_, &take, nullptr, &block.memory);
    }
    return vulkan_status(result, doing);
}

base::Result<std::unique_ptr<VulkanBlock>> VulkanContext::allocate(std::int64_t bytes,
                                                                   VulkanMemory kind) const {
    const std::string doing = fmt::format("taking {} bytes of memory", bytes);
    if (bytes > largest_block_bytes_) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("Vulkan, {}: the device gives {} at a time", doing, largest_block_bytes_)};
    }
    if (kind == VulkanMemory::device && bytes > room_bytes()) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("Vulkan, {}: {} of {} are taken", doing, taken_bytes_.load(), most_bytes_)};
    }
    auto block = std::make_unique<VulkanBlock>(*this);
    block->kind = kind;
    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = static_cast<VkDeviceSize>(bytes);
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                   VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    TRY_VOID(
        vulkan_status(vkCreateBuffer(device_, &create, nullptr, &block->buffer), doing.c_str()));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device_, block->buffer, &needs);
    const std::vector<std::uint32_t> types = memory_types(needs.memoryTypeBits, kind);
    if (types.empty()) return base::invalid("Vulkan: the device has no memory of the kind needed");
    TRY_VOID(take(*block, needs.size, types, doing.c_str()));
    TRY_VOID(
        vulkan_status(vkBindBufferMemory(device_, block->buffer, block->memory, 0), doing.c_str()));
    VkBufferDeviceAddressInfo where{};
    where.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    where.buffer = block->buffer;
    block->address = vkGetBufferDeviceAddress(device_, &where);
    block->bytes = bytes;
    if (kind == VulkanMemory::device) taken_bytes_ += bytes;
    if (kind != VulkanMemory::device) {
        void* mapped = nullptr;
        TRY_VOID(vulkan_status(vkMapMemory(device_, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                               doing.c_str()));
        block->mapped = static_cast<std::byte*>(mapped);
    }
    return block;
}

}  // namespace helix::engine

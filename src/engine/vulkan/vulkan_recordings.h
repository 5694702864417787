#pragma once

#include <volk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/vulkan/vulkan_context.h"

namespace helix::engine {

// One thing for a device to do, as plain values: two lists of commands are the same if their bytes
// are. What a command does not need is zero.
struct VulkanCommand {
    // barrier: what follows sees what was written before. host_barrier: the host sees what was
    // copied before.
    enum class Kind : std::uint64_t { barrier, host_barrier, dispatch, copy };

    Kind kind = Kind::barrier;
    VkPipeline pipeline = VK_NULL_HANDLE;
    std::array<std::uint32_t, 3> groups{};
    std::uint32_t push_bytes = 0;
    std::array<std::byte, 128> push{};
    VkBuffer from = VK_NULL_HANDLE;
    VkBuffer to = VK_NULL_HANDLE;
    std::uint64_t from_number = 0;  // of the blocks: a driver may give a buffer's handle out again
    std::uint64_t to_number = 0;
    VkBufferCopy region{};
};

// How many lists of commands were recorded, and how often one was submitted again as it was.
struct VulkanRecorded {
    std::int64_t recorded = 0;
    std::int64_t used_again = 0;
};

// Command buffers of the lists that came last, kept for when one of them comes again: to record
// takes a driver longer than to compare. None of them may be under way when another is asked for.
class VulkanRecordings {
  public:
    // The buffers are of the pool and go with it. most: that are kept.
    VulkanRecordings(const VulkanContext& context, VkCommandPool pool, std::size_t most)
        : context_(context), pool_(pool), most_(most) {}

    base::Result<VkCommandBuffer> of(std::span<const VulkanCommand> list);
    const VulkanRecorded& counts() const { return counts_; }

  private:
    struct Recording {
        VkCommandBuffer commands = VK_NULL_HANDLE;
        std::vector<VulkanCommand> list;
        std::uint64_t hash = 0;
        std::int64_t used = 0;  // when
    };

    // A place for another list: a new one, or that of the list that was not asked for the longest.
    base::Result<Recording*> make_place();
    base::Status record(const Recording& recording) const;

    const VulkanContext& context_;
    VkCommandPool pool_;
    std::size_t most_;
    std::vector<Recording> kept_;
    VulkanRecorded counts_;
};

}  // namespace helix::engine

#include "engine/ops/kv_store.h"

#include <span>
#include <vector>

#include "base/index.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_kv_arena.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

// The page of each row, and its slot there.
struct RowPlaces {
    std::vector<VkDeviceAddress> pages;
    std::vector<std::uint32_t> slots;
};

RowPlaces places_of(const ops::KvStore& op, const VulkanKvArena& kv) {
    const int block_size = kv.layout().block_size;
    RowPlaces places;
    for (const ops::SequenceRows& s : op.sequences) {
        for (std::int64_t row = 0; row < s.rows; ++row) {
            const std::int64_t position = s.first_position + row;
            places.pages.push_back(kv.address(s.pages[base::at(position / block_size)]));
            places.slots.push_back(word(position % block_size));
        }
    }
    return places;
}

}  // namespace

void VulkanDevice::kv_store(const ops::KvStore& op) {
    const auto& kv = static_cast<const VulkanKvArena&>(op.kv);
    const ops::KvLayout layout = kv.layout().of_heads(op.heads);
    const RowPlaces places = places_of(op, kv);
    const std::int64_t rows = std::ssize(places.pages);
    VulkanCommands::Operator record(*commands_);
    struct {
        VkDeviceAddress keys, values, pages, slots;
        std::uint32_t rows, n_heads, head_dim, positions, dims, head_keys, head_values, unused;
    } const push{vulkan(op.keys).address(),
                 vulkan(op.values).address(),
                 record.put(std::span(places.pages)),
                 record.put(std::span(places.slots)),
                 word(rows),
                 word(layout.n_kv_heads),
                 word(layout.head_dim),
                 word(layout.positions()),
                 word(layout.dims()),
                 word(layout.head_keys_bytes()),
                 word(layout.head_values_bytes()),
                 0};
    const std::uint32_t type[] = {static_cast<std::uint32_t>(layout.type)};
    record.dispatch(shaders::kv_store, push, groups_for(2 * rows * layout.n_kv_heads), type);
}

}  // namespace helix::engine

#include "engine/ops/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "engine/ops/sums.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_groups.h"
#include "engine/vulkan/vulkan_kv_arena.h"
#include "engine/vulkan/vulkan_memory.h"
#include "shaders/helix_engine.h"

namespace helix::engine {
namespace {

constexpr std::int64_t kChunk = ops::kChunkPositions;
static_assert(kChunk == 128);             // as attention_common.glsl has it
constexpr std::int64_t kMostQueries = 8;  // of attention.comp
// Workgroups that keep a device busy: with fewer, chunks are taken apart, as far as there is room
// for their sums.
constexpr std::int64_t kEnoughGroups = 256;
constexpr std::int64_t kMostPartialBytes = 128 << 20;

// As Row, Tile and Params of attention_common.glsl.
struct AttentionRow {
    VkDeviceAddress pages;
    std::uint32_t row, begin, end, unused;
};
struct AttentionTile {
    std::uint32_t first, rows;
};
struct AttentionPush {
    VkDeviceAddress rows, tiles, q, out, partials;
    std::uint32_t n_heads, group, head_dim, block_size, positions, dims, head_keys, head_values,
        values, chunks;
    float scale;
};

// Queries that read keys and values together: heads of a group, and rows of a sequence.
struct AttentionQueries {
    std::int64_t heads, rows;
};

AttentionQueries queries_of(const ops::Attention& op, const ops::KvLayout& layout) {
    std::int64_t most = 1;
    for (const ops::SequenceRows& s : op.sequences) most = std::max<std::int64_t>(most, s.rows);
    const std::int64_t all = std::min(kMostQueries, kMaxHeadDim / layout.head_dim);
    const std::int64_t heads = std::min<std::int64_t>(all, op.n_heads / layout.n_kv_heads);
    return {heads, most == 1 ? 1 : all / heads};
}

// What a call attends with, in the order of its sequences.
struct AttentionRows {
    std::vector<AttentionRow> rows;
    std::vector<AttentionTile> tiles;
};

// The page tables lie one after the other, so that what is put keeps its size for long.
AttentionRows rows_of(VulkanCommands::Operator& record, const ops::Attention& op,
                      const VulkanKvArena& kv, std::int64_t tile_rows) {
    AttentionRows of;
    std::vector<VkDeviceAddress> pages;
    for (const ops::SequenceRows& s : op.sequences) {
        for (const core::PageId page : s.pages) pages.push_back(kv.address(page));
    }
    VkDeviceAddress table = record.put(std::span<const VkDeviceAddress>(pages));
    for (const ops::SequenceRows& s : op.sequences) {
        for (std::int64_t r = 0; r < s.rows; ++r) {
            if (r % tile_rows == 0)
                of.tiles.push_back(
                    {word(std::ssize(of.rows)), word(std::min(tile_rows, s.rows - r))});
            const std::int64_t end = s.first_position + r + 1;
            const std::int64_t begin =
                op.window > 0 ? std::max<std::int64_t>(0, end - op.window) : 0;
            of.rows.push_back({table, word(s.first_row + r), word(begin), word(end), 0});
        }
        table += s.pages.size() * sizeof(VkDeviceAddress);
    }
    return of;
}

// That the rows of a tile attend to together, up to the next power of two: so steps that follow
// each other are the same to the device. What of it a tile has not, shaders leave alone.
std::int64_t most_chunks(const AttentionRows& of) {
    std::int64_t most = 0;
    for (const AttentionTile& tile : of.tiles) {
        const std::int64_t begin = of.rows[tile.first].begin;
        const std::int64_t end = of.rows[tile.first + tile.rows - 1].end;
        most = std::max(most, (end - 1) / kChunk - begin / kChunk + 1);
    }
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
}

AttentionPush push_of(const ops::Attention& op, const ops::KvLayout& layout) {
    AttentionPush push{};
    push.q = vulkan(op.q).address();
    push.out = vulkan(op.out).address();
    push.n_heads = word(op.n_heads);
    push.group = word(op.n_heads / layout.n_kv_heads);
    push.head_dim = word(layout.head_dim);
    push.block_size = word(layout.block_size);
    push.positions = word(layout.positions());
    push.dims = word(layout.dims());
    push.head_keys = word(layout.head_keys_bytes() / 4);
    push.head_values = word(layout.head_values_bytes() / 4);
    push.values = word(layout.values_of_head(0) / 4);
    push.scale = 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
    return push;
}

// Of all tiles of rows (y), as many at once as a dispatch takes. x: parts of the heads; z: a
// workgroup for each chunk, or 0: one for all of them.
void dispatch_tiles(VulkanCommands::Operator& record, AttentionPush push, VulkanGroups groups,
                    const ops::KvLayout& layout, AttentionQueries queries) {
    const std::uint32_t constants[] = {static_cast<std::uint32_t>(layout.type),
                                       groups.z > 0 ? 1U : 0U, word(queries.heads),
                                       word(queries.rows)};
    for (std::int64_t first = 0; first < groups.y; first += kMostGroups) {
        const std::int64_t count = std::min(kMostGroups, groups.y - first);
        record.dispatch(shaders::attention, push,
                        {groups.x, count, std::max<std::int64_t>(1, groups.z)}, constants);
        push.tiles += static_cast<VkDeviceAddress>(count) * sizeof(AttentionTile);
    }
}

}  // namespace

bool VulkanDevice::make_attention_room(std::int64_t bytes) {
    if (attention_room_.slice().bytes >= bytes) return true;
    auto part = buffers_->take(bytes);
    if (part.ok()) attention_room_ = std::move(*part);
    return part.ok();
}

void VulkanDevice::attention(const ops::Attention& op) {
    const auto& kv = static_cast<const VulkanKvArena&>(op.kv);
    const ops::KvLayout& layout = kv.layout();
    CHECK(layout.head_dim <= kMaxHeadDim);
    VulkanCommands::Operator record(*commands_);
    const AttentionQueries queries = queries_of(op, layout);
    const AttentionRows of = rows_of(record, op, kv, queries.rows);
    if (of.rows.empty()) return;
    const std::int64_t n = std::ssize(of.rows);
    const std::int64_t tiles = std::ssize(of.tiles);
    const std::int64_t group = op.n_heads / layout.n_kv_heads;
    const std::int64_t parts = layout.n_kv_heads * ((group + queries.heads - 1) / queries.heads);
    const std::int64_t chunks = most_chunks(of);
    const std::int64_t bytes = 4 * n * op.n_heads * chunks * (layout.head_dim + 2);
    const bool wished = chunks > 1 && chunks <= kMostGroups && tiles * parts < kEnoughGroups &&
                        bytes <= kMostPartialBytes;
    const bool split = wished && make_attention_room(bytes);
    AttentionPush push = push_of(op, layout);
    push.rows = record.put(std::span<const AttentionRow>(of.rows));
    push.tiles = record.put(std::span<const AttentionTile>(of.tiles));
    push.chunks = word(chunks);
    if (split) push.partials = attention_room_.slice().address();
    dispatch_tiles(record, push, {parts, tiles, split ? chunks : 0}, layout, queries);
    if (!split) return;
    record.barrier();
    record.dispatch(shaders::attention_combine, push, {op.n_heads, n, 1});
}

}  // namespace helix::engine

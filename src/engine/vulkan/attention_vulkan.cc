#include "engine/ops/attention.h"

#include <algorithm>
#include <bit>
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
static_assert(kChunk == 128);  // as attention_common.glsl has it
// Of attention.comp.
constexpr std::int64_t kMostQueryFloats = 2048;  // of a workgroup
constexpr std::int64_t kMostParts = 4;
constexpr std::int64_t kMostPartialBytes = 128 << 20;

// What suits a kind of device.
struct AttentionSizes {
    std::int64_t most_queries;      // of a workgroup, up to 16
    std::int64_t ahead;             // elements that a lane reads before it adds the first: 4, 8, 16
    std::int64_t ahead_of_one_row;  // the same where a workgroup has one row: up to 32
    // Workgroups that keep it busy: with fewer, chunks are taken apart, as far as there is room for
    // their sums.
    std::int64_t enough_groups;
};
constexpr AttentionSizes kCardSizes{16, 16, 32, 512};
// The larger they are the longer is the program, which a device of software is long in compiling.
constexpr AttentionSizes kSoftwareSizes{8, 4, 4, 256};

// As Row, Tile and Params of attention_common.glsl.
struct AttentionRow {
    VkDeviceAddress pages;
    std::uint32_t row, begin, end, position;
};
struct AttentionTile {
    std::uint32_t first, rows;
};
struct AttentionPush {
    VkDeviceAddress rows, tiles, q, out, partials;
    std::uint32_t n_heads, group, head_dim, block_size, positions, dims, head_keys, head_values,
        values, chunks;
    float scale, softcap;
    VkDeviceAddress blocks, sinks, slopes;
};

// The greatest power of two that is no more than n, and 1 where there is none.
std::int64_t floor_power(std::int64_t n) {
    return static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
}
// The greatest that divides n.
std::int64_t lowest_power(std::int64_t n) {
    return n & -n;
}

// Queries that read keys and values together: heads of a group, and rows of a sequence.
struct AttentionQueries {
    std::int64_t heads, rows;
};

AttentionQueries queries_of(const ops::Attention& op, const ops::KvLayout& layout,
                            const AttentionSizes& sizes) {
    std::int64_t most = 1;
    for (const ops::SequenceRows& s : op.sequences) most = std::max<std::int64_t>(most, s.rows);
    // In powers of two, which lanes divide among them.
    const std::int64_t padded = (layout.head_dim + 3) / 4 * 4;
    const std::int64_t all = std::min(sizes.most_queries, floor_power(kMostQueryFloats / padded));
    const std::int64_t heads = std::min<std::int64_t>(all, op.n_heads / layout.n_kv_heads);
    return {heads, most == 1 ? 1 : all / heads};
}

// How the lanes of a workgroup divide its work, as the constants of attention.comp have it.
struct AttentionLanes {
    std::int64_t score_parts, together, value_parts, value_words, keys_ahead, values_ahead;
};

AttentionLanes lanes_of(const ops::KvLayout& layout, AttentionQueries queries,
                        const AttentionSizes& sizes) {
    const std::int64_t all = queries.heads * queries.rows;
    const bool many = 2 * all > sizes.most_queries;
    const std::int64_t elements = 4 / layout.element_bytes();  // of a word
    const std::int64_t words = (layout.head_dim + elements - 1) / elements;
    AttentionLanes lanes{};
    // Each key and each part of a query that a lane reads is multiplied several times.
    lanes.score_parts = many ? kMostParts : (all >= 4 ? 2 : 1);
    lanes.together = layout.block_size % elements == 0 ? std::min(elements, lanes.score_parts) : 1;
    // Few queries: as many parts as leave a word of a head to each lane.
    lanes.value_parts = many ? kMostParts : 1;
    while (2 * lanes.value_parts <= std::min(all, kMostParts) &&
           2 * lanes.value_parts * words <= kChunk)
        lanes.value_parts *= 2;
    const std::int64_t words_of_lane = words * lanes.value_parts / kChunk;
    lanes.value_words = many ? std::min(floor_power(words_of_lane), 4 / elements) : 1;
    const bool one_row = queries.rows == 1;
    const auto ahead = [&](std::int64_t most, std::int64_t words_at_once) {
        const std::int64_t read = one_row ? sizes.ahead_of_one_row : sizes.ahead;
        return std::max<std::int64_t>(4, std::min(most, read / words_at_once));
    };
    lanes.keys_ahead = ahead(lowest_power(layout.head_dim), lanes.score_parts / lanes.together);
    // Of several rows those that are read together lie in one page.
    lanes.values_ahead =
        ahead(one_row ? kChunk : lowest_power(layout.block_size), lanes.value_words);
    return lanes;
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
        for (const core::PageId page : s.pages)
            pages.push_back(page == core::kNoPage ? 0 : kv.address(page));
    }
    VkDeviceAddress table = record.put(std::span<const VkDeviceAddress>(pages));
    for (const ops::SequenceRows& s : op.sequences) {
        for (std::int64_t r = 0; r < s.rows; ++r) {
            if (r % tile_rows == 0)
                of.tiles.push_back(
                    {word(std::ssize(of.rows)), word(std::min(tile_rows, s.rows - r))});
            const std::int32_t position = s.first_position + static_cast<std::int32_t>(r);
            const auto attended =
                ops::attended_positions(s, r, op.window, op.chunked, op.both_ways);
            of.rows.push_back({table, word(s.first_row + r), word(attended.begin),
                               word(attended.end), word(position)});
        }
        table += s.pages.size() * sizeof(VkDeviceAddress);
    }
    return of;
}

// Whether they are rows 0, 1, ... of what is attended with.
bool are_all_rows(const AttentionRows& of) {
    for (std::size_t i = 0; i < of.rows.size(); ++i) {
        if (of.rows[i].row != i) return false;
    }
    return true;
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
    push.scale = op.score_scale(layout.head_dim);
    push.softcap = op.softcap;
    if (op.sinks != nullptr) push.sinks = vulkan(*op.sinks).address();
    if (op.slopes != nullptr) push.slopes = vulkan(*op.slopes).address();
    return push;
}

// Of all tiles of rows (y), as many at once as a dispatch takes. x: parts of the heads; z: a
// workgroup for each chunk, or 0: one for all of them.
void dispatch_tiles(VulkanCommands::Operator& record, AttentionPush push, VulkanGroups groups,
                    const ops::KvLayout& layout, AttentionQueries queries, AttentionLanes lanes,
                    bool unpacks_halves) {
    const std::uint32_t constants[] = {static_cast<std::uint32_t>(layout.type),
                                       groups.z > 0 ? 1U : 0U,
                                       word(queries.heads),
                                       word(queries.rows),
                                       word(lanes.score_parts),
                                       word(lanes.together),
                                       word(lanes.value_parts),
                                       word(lanes.value_words),
                                       word(lanes.keys_ahead),
                                       word(lanes.values_ahead),
                                       unpacks_halves ? 1U : 0U,
                                       layout.block_size % lanes.values_ahead == 0 ? 1U : 0U,
                                       push.softcap > 0 ? 1U : 0U,
                                       push.sinks != 0 ? 1U : 0U,
                                       push.slopes != 0 ? 1U : 0U};
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
    const ops::KvLayout layout = kv.layout().of_heads(op.heads);
    CHECK(layout.head_dim <= kMaxHeadDim);
    const AttentionSizes& sizes = context_->info().software ? kSoftwareSizes : kCardSizes;
    VulkanCommands::Operator record(*commands_);
    const AttentionQueries queries = queries_of(op, layout, sizes);
    const AttentionRows of = rows_of(record, op, kv, queries.rows);
    if (of.rows.empty()) return;
    const std::int64_t n = std::ssize(of.rows);
    const std::int64_t tiles = std::ssize(of.tiles);
    const std::int64_t group = op.n_heads / layout.n_kv_heads;
    const std::int64_t parts = layout.n_kv_heads * ((group + queries.heads - 1) / queries.heads);
    const std::int64_t chunks = most_chunks(of);
    const std::int64_t bytes = 4 * n * op.n_heads * chunks * (layout.head_dim + 2);
    const bool wished = chunks > 1 && chunks <= kMostGroups &&
                        tiles * parts < sizes.enough_groups && bytes <= kMostPartialBytes;
    const bool split = wished && make_attention_room(bytes);
    AttentionPush push = push_of(op, layout);
    push.rows = record.put(std::span<const AttentionRow>(of.rows));
    push.tiles = record.put(std::span<const AttentionTile>(of.tiles));
    push.chunks = word(chunks);
    if (split) push.partials = attention_room_.slice().address();
    dispatch_tiles(record, push, {parts, tiles, split ? chunks : 0}, layout, queries,
                   lanes_of(layout, queries, sizes), context_->unpacks_halves());
    if (!split) return;
    const std::int64_t width = std::int64_t{op.n_heads} * layout.head_dim;
    // The next product reads all rows of the result, so all have to be made here.
    if (layout.head_dim % 32 == 0 && are_all_rows(of))
        push.blocks = quantised_room_of_next(n * width, width);
    const std::uint32_t constants[] = {push.blocks != 0 ? 1U : 0U, push.sinks != 0 ? 1U : 0U};
    record.barrier();
    record.dispatch(shaders::attention_combine, push,
                    {op.n_heads, n, (layout.head_dim + kChunk - 1) / kChunk}, constants);
    if (push.blocks != 0) note_quantised(op.out, n * width);
}

}  // namespace helix::engine

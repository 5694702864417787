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
static_assert(kChunk == 128);  // as attention_common.glsl has it
// Workgroups that keep a device busy: with fewer rows and heads than that, chunks are taken apart.
constexpr std::int64_t kEnoughGroups = 256;

// As Row and Params of attention_common.glsl.
struct AttentionRow {
    VkDeviceAddress pages;
    std::uint32_t row, begin, end, unused;
};
struct AttentionPush {
    VkDeviceAddress rows, q, out, partials;
    std::uint32_t n_heads, group, head_dim, block_size, positions, dims, head_keys, head_values,
        values, chunks;
    float scale;
};

// The page tables lie one after the other, so that what is put keeps its size for long.
std::vector<AttentionRow> rows_of(VulkanCommands::Operator& record, const ops::Attention& op,
                                  const VulkanKvArena& kv) {
    std::vector<VkDeviceAddress> pages;
    for (const ops::SequenceRows& s : op.sequences) {
        for (const core::PageId page : s.pages) pages.push_back(kv.address(page));
    }
    VkDeviceAddress table = record.put(std::span<const VkDeviceAddress>(pages));
    std::vector<AttentionRow> rows;
    for (const ops::SequenceRows& s : op.sequences) {
        for (std::int64_t r = 0; r < s.rows; ++r) {
            const std::int64_t end = s.first_position + r + 1;
            const std::int64_t begin =
                op.window > 0 ? std::max<std::int64_t>(0, end - op.window) : 0;
            rows.push_back({table, word(s.first_row + r), word(begin), word(end), 0});
        }
        table += s.pages.size() * sizeof(VkDeviceAddress);
    }
    return rows;
}

// Of any row, up to the next power of two: so steps that follow each other are the same to the
// device. What of it a row has not, shaders leave alone.
std::int64_t most_chunks(std::span<const AttentionRow> rows) {
    std::int64_t most = 0;
    for (const AttentionRow& row : rows) {
        most = std::max<std::int64_t>(most, (row.end - 1) / kChunk - row.begin / kChunk + 1);
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

// Of all rows, as many at once as a dispatch takes. split: a workgroup for each chunk.
void dispatch_rows(VulkanCommands::Operator& record, AttentionPush push, std::int64_t rows,
                   std::int64_t split, const ops::KvLayout& layout) {
    const std::uint32_t constants[] = {static_cast<std::uint32_t>(layout.type),
                                       split > 0 ? 1U : 0U};
    for (std::int64_t first = 0; first < rows; first += kMostGroups) {
        const std::int64_t count = std::min(kMostGroups, rows - first);
        record.dispatch(shaders::attention, push,
                        {push.n_heads, count, std::max<std::int64_t>(1, split)}, constants);
        push.rows += static_cast<VkDeviceAddress>(count) * sizeof(AttentionRow);
    }
}

}  // namespace

void VulkanDevice::attention(const ops::Attention& op) {
    const auto& kv = static_cast<const VulkanKvArena&>(op.kv);
    const ops::KvLayout& layout = kv.layout();
    CHECK(layout.head_dim <= kMaxHeadDim);
    VulkanCommands::Operator record(*commands_);
    const std::vector<AttentionRow> rows = rows_of(record, op, kv);
    if (rows.empty()) return;
    const std::int64_t n = std::ssize(rows);
    const std::int64_t chunks = most_chunks(rows);
    const bool split = chunks > 1 && chunks <= kMostGroups && n * op.n_heads < kEnoughGroups;
    AttentionPush push = push_of(op, layout);
    push.rows = record.put(std::span<const AttentionRow>(rows));
    push.chunks = word(chunks);
    if (split) {
        const std::int64_t bytes = 4 * n * op.n_heads * chunks * (layout.head_dim + 2);
        if (attention_room_.slice().bytes < bytes) {
            auto part = buffers_->take(bytes);
            if (!part.ok()) return record.fail(part.error());
            attention_room_ = std::move(*part);
        }
        push.partials = attention_room_.slice().address();
    }
    dispatch_rows(record, push, n, split ? chunks : 0, layout);
    if (!split) return;
    record.barrier();
    record.dispatch(shaders::attention_combine, push, {op.n_heads, n, 1});
}

}  // namespace helix::engine

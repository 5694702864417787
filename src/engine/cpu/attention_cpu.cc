#include "engine/cpu/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"
#include "engine/cpu/kv_memory.h"

namespace helix::engine::ops {
namespace {

auto kernel_for(const Kernels& kernels, KvType type) {
    switch (type) {
        case KvType::f16:
            return kernels.attention_f16;
        case KvType::bf16:
            return kernels.attention_bf16;
        case KvType::f32:
            return kernels.attention_f32;
        case KvType::q8:
            return kernels.attention_q8;
    }
    CHECK(false);
}

}  // namespace

void PagedAttention::run(const Kernels& kernels, ThreadPool& pool, const KvLayout& layout,
                         const AttentionShape& shape, std::span<const AttentionRows> sequences,
                         const float* q, float* out) {
    const int group = shape.n_heads / layout.n_kv_heads;
    const std::int64_t width = static_cast<std::int64_t>(shape.n_heads) * layout.head_dim;
    const float scale =
        shape.scale > 0 ? shape.scale : 1.0F / std::sqrt(static_cast<float>(layout.head_dim));
    tasks_.clear();
    int longest = 0;
    const auto add = [&](const AttentionRows& sequence, std::int64_t r, int head) {
        AttentionTask task;
        const std::int64_t at = (sequence.first_row + r) * width +
                                static_cast<std::int64_t>(head) * group * layout.head_dim;
        task.q = q + at;
        task.out = out + at;
        task.n_heads = group;
        task.head_dim = layout.head_dim;
        const AttendedPositions attended =
            attended_positions(sequence, r, shape.window, shape.chunked, shape.both_ways);
        task.n_positions = attended.end;
        task.begin = attended.begin;
        task.scale = scale;
        task.softcap = shape.softcap;
        if (shape.sinks != nullptr) task.sinks = shape.sinks + std::ptrdiff_t{head} * group;
        if (shape.slopes != nullptr) task.slopes = shape.slopes + std::ptrdiff_t{head} * group;
        task.position = sequence.first_position + static_cast<int>(r);
        task.pages = sequence.pages;
        task.block_size = layout.block_size;
        task.kv_head = head;
        task.layout = &layout;
        longest = std::max(longest, task.n_positions - task.begin);
        tasks_.push_back(task);
    };
    for (int rank = 0; rank < layout.ranks; ++rank) {
        const int first = rank * layout.rank_heads();
        for (const AttentionRows& sequence : sequences) {
            for (std::int64_t r = 0; r < sequence.rows; ++r) {
                for (int head = first; head < first + layout.rank_heads(); ++head)
                    add(sequence, r, head);
            }
        }
    }
    const auto attend = kernel_for(kernels, layout.type);
    const auto one = [&](std::int64_t i, int) { attend(tasks_[static_cast<std::size_t>(i)]); };
    const auto count = static_cast<std::int64_t>(tasks_.size());
    constexpr std::int64_t kSharedWork = 64 << 10;  // multiplications worth waking the others for
    if (count * group * layout.head_dim * longest < kSharedWork) {
        pool.run_alone(count, one);
    } else {
        CHECK(pool.ranks() == layout.ranks);
        const std::int64_t each = count / layout.ranks;
        pool.run_ranks(each,
                       [&](int rank, std::int64_t i, int thread) { one(rank * each + i, thread); });
    }
}

}  // namespace helix::engine::ops

namespace helix::engine {

void CpuDevice::attention(const ops::Attention& op) {
    const auto& kv = static_cast<const KvMemory&>(op.kv);
    pages_.clear();
    for (const ops::SequenceRows& s : op.sequences) {
        for (const core::PageId page : s.pages)
            pages_.push_back(page == core::kNoPage ? nullptr : kv.page(page));
    }
    sequences_.clear();
    const std::byte* const* pages = pages_.data();
    for (const ops::SequenceRows& s : op.sequences) {
        sequences_.push_back({s.first_row, s.rows, s.first_position, pages});
        pages += s.pages.size();
    }
    const ops::AttentionShape shape{op.n_heads,
                                    op.window,
                                    op.scale,
                                    op.softcap,
                                    op.sinks == nullptr ? nullptr : data_of(*op.sinks),
                                    op.chunked,
                                    op.both_ways,
                                    op.slopes == nullptr ? nullptr : data_of(*op.slopes)};
    attention_.run(kernels_, pool_, kv.layout().of_heads(op.heads), shape, sequences_,
                   data_of(op.q), data_of(op.out));
}

}  // namespace helix::engine

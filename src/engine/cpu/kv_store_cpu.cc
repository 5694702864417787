#include "engine/cpu/kv_store_cpu.h"

#include <cstring>
#include <vector>

#include "base/index.h"
#include "engine/cpu/cpu_device.h"
#include "engine/cpu/cpu_memory.h"
#include "engine/cpu/kv_memory.h"
#include "model/quant/half.h"

namespace helix::engine::ops {
namespace {

// Element is what a page holds.
template <typename Element>
void store(const KvLayout& layout, int rank, const Element* key, const Element* value, int in_block,
           std::byte* page) {
    const std::size_t size = sizeof(Element);
    const int first = rank * layout.rank_heads();
    for (int head = 0; head < layout.rank_heads(); ++head) {
        std::byte* keys =
            page + layout.keys_of_head(first + head) + in_block * layout.element_bytes();
        const std::int64_t stride = layout.positions() * layout.element_bytes();
        for (int d = 0; d < layout.head_dim; ++d) {
            std::memcpy(keys + d * stride, key + head * layout.head_dim + d, size);
        }
        std::byte* values = page + layout.values_of_head(first + head) +
                            in_block * layout.dims() * layout.element_bytes();
        std::memcpy(values, value + head * layout.head_dim,
                    size * static_cast<std::size_t>(layout.head_dim));
    }
}

// Room of n elements for each of key and value.
template <typename Element>
Element* room(std::int64_t n) {
    thread_local std::vector<Element> elements;
    elements.resize(static_cast<std::size_t>(2 * n));
    return elements.data();
}

void store_bf16(const KvLayout& layout, int rank, const float* key, const float* value,
                int in_block, std::byte* page, std::int64_t n) {
    auto* shorts = room<std::uint16_t>(n);
    for (std::int64_t i = 0; i < n; ++i) {
        shorts[i] = model::quant::float_to_bfloat(key[i]);
        shorts[n + i] = model::quant::float_to_bfloat(value[i]);
    }
    store(layout, rank, shorts, shorts + n, in_block, page);
}

void store_q8(const Kernels& kernels, const KvLayout& layout, int rank, const float* key,
              const float* value, int in_block, std::byte* page, std::int64_t n) {
    auto* bytes = room<std::int8_t>(n);
    const int dim = layout.head_dim;
    for (std::int64_t at = 0; at < n; at += dim) {
        const auto head = rank * layout.rank_heads() + static_cast<int>(at / dim);
        const float key_scale = kernels.quantise_kv(key + at, dim, bytes + at);
        const float value_scale = kernels.quantise_kv(value + at, dim, bytes + n + at);
        const std::int64_t slot = std::int64_t{in_block} * 4;
        std::memcpy(page + layout.key_scales_of_head(head) + slot, &key_scale, sizeof key_scale);
        std::memcpy(page + layout.value_scales_of_head(head) + slot, &value_scale,
                    sizeof value_scale);
    }
    store(layout, rank, bytes, bytes + n, in_block, page);
}

}  // namespace

void kv_store(const Kernels& kernels, const KvLayout& layout, int rank, const float* key,
              const float* value, int in_block, std::byte* page) {
    if (layout.type == KvType::f32) {
        store(layout, rank, key, value, in_block, page);
        return;
    }
    const std::int64_t n = static_cast<std::int64_t>(layout.rank_heads()) * layout.head_dim;
    if (layout.type == KvType::bf16) {
        store_bf16(layout, rank, key, value, in_block, page, n);
        return;
    }
    if (layout.type == KvType::q8) {
        store_q8(kernels, layout, rank, key, value, in_block, page, n);
        return;
    }
    auto* halves = room<std::uint16_t>(n);
    kernels.to_half(key, n, halves);
    kernels.to_half(value, n, halves + n);
    store(layout, rank, halves, halves + n, in_block, page);
}

}  // namespace helix::engine::ops

namespace helix::engine {

// Each rank stores its own heads.
void CpuDevice::kv_store(const ops::KvStore& op) {
    auto& kv = static_cast<KvMemory&>(op.kv);
    const ops::KvLayout layout = kv.layout().of_heads(op.heads);
    row_sequence_.clear();
    for (const ops::SequenceRows& s : op.sequences)
        row_sequence_.insert(row_sequence_.end(), base::size_of(s.rows), &s);
    const std::int64_t width = std::int64_t{layout.n_kv_heads} * layout.head_dim;
    const std::int64_t rank_width = std::int64_t{layout.rank_heads()} * layout.head_dim;
    const float* keys = data_of(op.keys);
    const float* values = data_of(op.values);
    pool_.run_ranks(std::ssize(row_sequence_), [&](int rank, std::int64_t row, int) {
        const ops::SequenceRows& s = *row_sequence_[base::at(row)];
        const auto position = s.first_position + static_cast<std::int32_t>(row - s.first_row);
        std::byte* page = kv.page(s.pages[base::at(position / layout.block_size)]);
        const std::int64_t at = row * width + rank * rank_width;
        ops::kv_store(kernels_, layout, rank, keys + at, values + at, position % layout.block_size,
                      page);
    });
}

}  // namespace helix::engine

#include <cstring>
#include <vector>

#include "engine/ops/kv_store.h"

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

}  // namespace

void kv_store(const Kernels& kernels, const KvLayout& layout, int rank, const float* key,
              const float* value, int in_block, std::byte* page) {
    if (layout.type == KvType::f32) {
        store(layout, rank, key, value, in_block, page);
        return;
    }
    const std::int64_t n = static_cast<std::int64_t>(layout.rank_heads()) * layout.head_dim;
    thread_local std::vector<std::uint16_t> halves;
    halves.resize(static_cast<std::size_t>(2 * n));
    kernels.to_half(key, n, halves.data());
    kernels.to_half(value, n, halves.data() + n);
    store(layout, rank, halves.data(), halves.data() + n, in_block, page);
}

}  // namespace helix::engine::ops

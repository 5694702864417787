#pragma once

#include <cstdint>

#include "base/check.h"
#include "spec/kv_type.h"

namespace helix::engine::ops {

using spec::KvType;

// The key-value heads of a layer; none: those that the pages were made for.
struct KvHeads {
    int count = 0;
    int dim = 0;
};

// What is in a page: the keys and values of block_size positions of one layer.
//   keys    [n_kv_heads, head_dim, positions]: transposed, so that 16 scores fill a vector
//   values  [n_kv_heads, block_size, dims]
// positions and dims are block_size and head_dim rounded up to 16. In q8 each head's keys, and its
// values, are followed by the scales of [positions].
//
// With several tensor parallel ranks each holds n_kv_heads / ranks of the heads, in a page of its
// own under the same number. A page's address is that of rank 0's; rank r's lies r * rank_stride
// bytes further.
//
// Where a layer has fewer and larger heads than the pages were made for, each of them lies in the
// room of several (of_heads), with its scales at the end. So pages of all layers have the same
// parts for the ranks, and are moved without knowing whose they are.
struct KvLayout {
    KvType type = KvType::f16;
    int n_kv_heads = 0;
    int head_dim = 0;
    int block_size = 0;
    int ranks = 1;
    std::int64_t rank_stride = 0;  // bytes
    // From one head to the next, in bytes, where that is more than what they take; 0: it is not.
    std::int64_t keys_room = 0;
    std::int64_t values_room = 0;

    // Of a layer with these heads, by whose number that of this layout's can be divided, and which
    // have room in theirs.
    KvLayout of_heads(KvHeads heads) const {
        if (heads.count == 0) return *this;
        KvLayout layer = *this;
        CHECK(n_kv_heads % heads.count == 0);
        const std::int64_t each = n_kv_heads / heads.count;
        CHECK(heads.dim <= each * head_dim);
        layer.n_kv_heads = heads.count;
        layer.head_dim = heads.dim;
        layer.keys_room = each * head_keys_bytes();
        layer.values_room = each * head_values_bytes();
        return layer;
    }
    int rank_heads() const { return n_kv_heads / ranks; }
    static std::int64_t round_up(std::int64_t n) { return (n + 15) / 16 * 16; }
    std::int64_t element_bytes() const {
        if (type == KvType::q8) return 1;
        return type == KvType::f32 ? 4 : 2;
    }
    std::int64_t positions() const { return round_up(block_size); }
    std::int64_t dims() const { return round_up(head_dim); }
    std::int64_t scales_bytes() const { return type == KvType::q8 ? 4 * positions() : 0; }
    std::int64_t head_keys_bytes() const {
        if (keys_room > 0) return keys_room;
        return head_dim * positions() * element_bytes() + scales_bytes();
    }
    std::int64_t head_values_bytes() const {
        if (values_room > 0) return values_room;
        return block_size * dims() * element_bytes() + scales_bytes();
    }
    // Offsets in bytes.
    std::int64_t keys_of_head(int head) const {
        return head / rank_heads() * rank_stride + head % rank_heads() * head_keys_bytes();
    }
    std::int64_t values_of_head(int head) const {
        return head / rank_heads() * rank_stride + rank_heads() * head_keys_bytes() +
               head % rank_heads() * head_values_bytes();
    }
    std::int64_t key_scales_of_head(int head) const {
        return keys_of_head(head) + head_keys_bytes() - scales_bytes();
    }
    std::int64_t value_scales_of_head(int head) const {
        return values_of_head(head) + head_values_bytes() - scales_bytes();
    }
    std::int64_t rank_page_bytes() const {
        return rank_heads() * (head_keys_bytes() + head_values_bytes());
    }
    std::int64_t page_bytes() const { return ranks * rank_page_bytes(); }
};

}  // namespace helix::engine::ops

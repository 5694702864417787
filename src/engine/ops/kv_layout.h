#pragma once

#include <cstdint>

namespace helix::engine::ops {

// q8: int8, with an f32 scale for the key and one for the value of each head and position.
enum class KvType { f16, bf16, f32, q8 };

// What is in a page: the keys and values of block_size positions of one layer.
//   keys    [n_kv_heads, head_dim, positions]: transposed, so that 16 scores fill a vector
//   values  [n_kv_heads, block_size, dims]
// positions and dims are block_size and head_dim rounded up to 16. In q8 each head's keys, and its
// values, are followed by the scales of [positions].
//
// With several tensor parallel ranks each holds n_kv_heads / ranks of the heads, in a page of its
// own under the same number. A page's address is that of rank 0's; rank r's lies r * rank_stride
// bytes further.
struct KvLayout {
    KvType type = KvType::f16;
    int n_kv_heads = 0;
    int head_dim = 0;
    int block_size = 0;
    int ranks = 1;
    std::int64_t rank_stride = 0;  // bytes

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
        return head_dim * positions() * element_bytes() + scales_bytes();
    }
    std::int64_t head_values_bytes() const {
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

// Attention of one query row over paged keys and values. Included in a variant's namespace.
//
// Two passes: all scores (one fma per dimension, ascending), then softmax and the weighted sum of
// values (one fma per position, ascending; after every 256 positions the partial sum is added to
// the total). The order depends neither on the page size nor on how many rows are in the batch: it
// starts at the task's first position, for the sums of weights at the multiple of 16 before it.
// Scales are applied once to a score, and once to the weight of a position's value.

struct KvF16 {
    static constexpr int kBytes = 2;
    static constexpr bool kScaled = false;
    HELIX_INLINE static Floats load(const std::byte* p) { return load_half(p); }
};
struct KvBf16 {
    static constexpr int kBytes = 2;
    static constexpr bool kScaled = false;
    HELIX_INLINE static Floats load(const std::byte* p) { return load_bfloat(p); }
};
struct KvF32 {
    static constexpr int kBytes = 4;
    static constexpr bool kScaled = false;
    HELIX_INLINE static Floats load(const std::byte* p) { return load_float(p); }
};
struct KvQ8 {
    static constexpr int kBytes = 1;
    static constexpr bool kScaled = true;
    HELIX_INLINE static Floats load(const std::byte* p) { return to_floats(load_i8(p)); }
};

constexpr int kSplit = 256;

// Scores of kHeads query heads against 16 positions.
template <class Kv, int kHeads>
HELIX_INLINE void score_16(const std::byte* keys, std::int64_t stride, const float* q, int head_dim,
                           Array<Floats, kHeads>& sums) {
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) sums[h] = set1(0.0F);
    for (int d = 0; d < head_dim; ++d) {
        const Floats k = Kv::load(keys + d * stride);
        HELIX_UNROLL
        for (int h = 0; h < kHeads; ++h) sums[h] = fma(k, set1(q[h * head_dim + d]), sums[h]);
    }
}

// The position that scores[0] belongs to.
HELIX_INLINE int score_base(const AttentionTask& task) {
    return task.begin / 16 * 16;
}

// scores: [kHeads, room], of positions from score_base() on. May write up to 15 floats before a
// head's first score, where the room of the head before ends unused.
template <class Kv, int kHeads>
void all_scores(const AttentionTask& task, const float* q, float* scores, std::int64_t room) {
    const KvLayout& layout = *task.layout;
    const std::int64_t stride = layout.positions() * Kv::kBytes;
    const std::int64_t offset = layout.keys_of_head(task.kv_head);
    [[maybe_unused]] const std::int64_t scales_offset = layout.key_scales_of_head(task.kv_head);
    const int base = score_base(task);
    int block = task.begin / task.block_size;
    for (int first = block * task.block_size; first < task.n_positions;
         first += task.block_size, ++block) {
        const int last =
            first + task.block_size < task.n_positions ? first + task.block_size : task.n_positions;
        int at = first;
        while (at + 16 <= task.begin) at += 16;
        for (; at < last; at += 16) {
            Array<Floats, kHeads> sums;
            score_16<Kv, kHeads>(task.pages[block] + offset + (at - first) * Kv::kBytes, stride, q,
                                 task.head_dim, sums);
            if constexpr (Kv::kScaled) {
                const Floats scales = load_float(task.pages[block] + scales_offset +
                                                 static_cast<std::int64_t>(at - first) * 4);
                HELIX_UNROLL
                for (int h = 0; h < kHeads; ++h) sums[h] = mul(sums[h], scales);
            }
            const int n = last - at < 16 ? last - at : 16;
            HELIX_UNROLL
            for (int h = 0; h < kHeads; ++h)
                store_first(scores + h * room + at - base, n, mul(sums[h], set1(task.scale)));
        }
    }
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) {
        for (int i = base; i < task.begin; ++i)
            scores[h * room + i - base] = -std::numeric_limits<float>::infinity();
    }
}

// Turns scores into weights; returns their sum.
HELIX_INLINE float softmax_weights(float* scores, int n) {
    Floats top = set1(-std::numeric_limits<float>::infinity());
    int i = 0;
    for (; i + 16 <= n; i += 16) top = max(load(scores + i), top);
    if (i < n)
        top = max(load_first(scores + i, n - i, -std::numeric_limits<float>::infinity()), top);
    const Floats shift = set1(reduce_max(top));
    Floats sums = set1(0.0F);
    for (i = 0; i + 16 <= n; i += 16) {
        const Floats weights = exp_or_zero(sub(load(scores + i), shift));
        store(scores + i, weights);
        sums = add(sums, weights);
    }
    if (i < n) {
        const Floats v = load_first(scores + i, n - i, 0.0F);
        store_first(scores + i, n - i, exp_or_zero(sub(v, shift)));
        sums = add(sums, load_first(scores + i, n - i, 0.0F));
    }
    return reduce_add(sums);
}

// Adds up 16 * kDims dimensions of the values for kHeads heads.
template <class Kv, int kHeads, int kDims>
void weighted_values(const AttentionTask& task, const float* weights, std::int64_t room,
                     const Array<float, kHeads>& norm, int first_dim, float* out) {
    const KvLayout& layout = *task.layout;
    const std::int64_t stride = layout.dims() * Kv::kBytes;
    const std::int64_t offset = layout.values_of_head(task.kv_head) + first_dim * Kv::kBytes;
    [[maybe_unused]] const std::int64_t scales_offset = layout.value_scales_of_head(task.kv_head);
    Array<Floats, kHeads * kDims> total;
    HELIX_UNROLL
    for (int i = 0; i < kHeads * kDims; ++i) total[i] = set1(0.0F);
    const int base = score_base(task);
    int block = task.begin / task.block_size;
    int in_block = task.begin % task.block_size;
    for (int split = task.begin; split < task.n_positions; split += kSplit) {
        const int end = split + kSplit < task.n_positions ? split + kSplit : task.n_positions;
        Array<Floats, kHeads * kDims> part;
        HELIX_UNROLL
        for (int i = 0; i < kHeads * kDims; ++i) part[i] = set1(0.0F);
        for (int at = split; at < end; ++at) {
            const std::byte* row = task.pages[block] + offset + in_block * stride;
            Array<float, kHeads> weight;
            HELIX_UNROLL
            for (int h = 0; h < kHeads; ++h) weight[h] = weights[h * room + at - base];
            if constexpr (Kv::kScaled) {
                float scale = 0;
                std::memcpy(
                    &scale,
                    task.pages[block] + scales_offset + static_cast<std::int64_t>(in_block) * 4,
                    sizeof scale);
                HELIX_UNROLL
                for (int h = 0; h < kHeads; ++h) weight[h] *= scale;
            }
            HELIX_UNROLL
            for (int d = 0; d < kDims; ++d) {
                const Floats v = Kv::load(row + 16 * d * Kv::kBytes);
                HELIX_UNROLL
                for (int h = 0; h < kHeads; ++h)
                    part[h * kDims + d] = fma(v, set1(weight[h]), part[h * kDims + d]);
            }
            if (++in_block == task.block_size) {
                in_block = 0;
                ++block;
            }
        }
        HELIX_UNROLL
        for (int i = 0; i < kHeads * kDims; ++i) total[i] = add(total[i], part[i]);
    }
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) {
        HELIX_UNROLL
        for (int d = 0; d < kDims; ++d) {
            const int dim = first_dim + 16 * d;
            const int n = task.head_dim - dim < 16 ? task.head_dim - dim : 16;
            store_first(out + h * task.head_dim + dim, n, mul(total[h * kDims + d], set1(norm[h])));
        }
    }
}

template <class Kv, int kHeads>
void attend_heads(const AttentionTask& task, int head) {
    const int positions = task.n_positions - score_base(task);
    const std::int64_t room = KvLayout::round_up(positions) + 16;
    float* scores = task.scratch + 16;
    const float* q = task.q + head * task.head_dim;
    float* out = task.out + head * task.head_dim;
    all_scores<Kv, kHeads>(task, q, scores, room);
    Array<float, kHeads> norm;
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) norm[h] = 1.0F / softmax_weights(scores + h * room, positions);
    int dim = 0;
    for (; dim + 16 < task.head_dim; dim += 32)
        weighted_values<Kv, kHeads, 2>(task, scores, room, norm, dim, out);
    if (dim < task.head_dim) weighted_values<Kv, kHeads, 1>(task, scores, room, norm, dim, out);
}

template <class Kv>
void attention(const AttentionTask& task) {
    int head = 0;
    for (; head + kAttentionHeadTile <= task.n_heads; head += kAttentionHeadTile)
        attend_heads<Kv, kAttentionHeadTile>(task, head);
    for (; head < task.n_heads; ++head) attend_heads<Kv, 1>(task, head);
}

// Attention of one query row over paged keys and values. Included in a variant's namespace.
//
// Positions are taken in chunks of kChunkPositions of the sequence, which depend neither on the
// page size nor on the batch. Of each: all scores (one fma per dimension, ascending), weights
// e^(score - the chunk's highest), their sum (sixteen sums, of the positions that are equal modulo
// 16, folded by reduce_add) and the weighted sum of values (one fma per position, ascending). The
// first chunk's are the row's; those of each that follows are scaled to the higher of the two
// highest scores and added. Scales of q8 are applied once to a score, and once to the weight of a
// position's value. docs/numerics.md has the definition.

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

// The next 16 floats, or the n that are left of them. Whole vectors go past the loops over
// lanes that load_first() and store_first() of some instruction sets are.
HELIX_INLINE Floats load_left(const float* at, int n) {
    return n == 16 ? load(at) : load_first(at, n, 0.0F);
}
HELIX_INLINE void store_left(float* at, int n, Floats floats) {
    if (n == 16) {
        store(at, floats);
    } else {
        store_first(at, n, floats);
    }
}

// The positions of a chunk that count: [begin, end). Scores are kept from the multiple of 16 before
// the first.
struct Chunk {
    int begin, end;
    HELIX_INLINE int base() const { return begin / 16 * 16; }
};

// Scores of kHeads heads, room for each: up to 15 floats before the first may be written, where the
// room of the head before ends unused.
constexpr int kScoreRoom = kChunkPositions + 16;
template <int kHeads>
struct Scores {
    alignas(64) float unused[16];
    Array<float, kHeads * kScoreRoom> of;  // [kHeads][kScoreRoom]
};

// Takes from the scores of a chunk slopes times the distances of its positions from the row's own.
template <int kHeads>
void take_distances(const AttentionTask& task, const Chunk& chunk, const float* slopes,
                    float* scores) {
    alignas(64) float distances[kScoreRoom];
    const int base = chunk.base();
    const int n = chunk.end - base;
    for (int i = 0; i < n; ++i) {
        const int distance = base + i - task.position;
        distances[i] = static_cast<float>(distance < 0 ? -distance : distance);
    }
    for (int h = 0; h < kHeads; ++h) {
        const Floats minus = set1(-slopes[h]);
        float* of_head = scores + h * kScoreRoom;
        for (int i = 0; i < n; i += 16) {
            const int some = n - i < 16 ? n - i : 16;
            store_left(of_head + i, some,
                       fma(minus, load_left(distances + i, some), load_left(of_head + i, some)));
        }
    }
}

// slopes: of these heads, or null.
template <class Kv, int kHeads>
void chunk_scores(const AttentionTask& task, const Chunk& chunk, const float* q,
                  const float* slopes, float* scores) {
    const KvLayout& layout = *task.layout;
    const std::int64_t stride = layout.positions() * Kv::kBytes;
    const std::int64_t offset = layout.keys_of_head(task.kv_head);
    [[maybe_unused]] const std::int64_t scales_offset = layout.key_scales_of_head(task.kv_head);
    const int base = chunk.base();
    int block = chunk.begin / task.block_size;
    for (int first = block * task.block_size; first < chunk.end;
         first += task.block_size, ++block) {
        const int last = first + task.block_size < chunk.end ? first + task.block_size : chunk.end;
        int at = first < chunk.begin ? first + (chunk.begin - first) / 16 * 16 : first;
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
                store_left(scores + h * kScoreRoom + at - base, n, mul(sums[h], set1(task.scale)));
        }
    }
    for (int h = 0; task.softcap > 0 && h < kHeads; ++h) {
        float* of_head = scores + h * kScoreRoom + chunk.begin - base;
        scale_row(of_head, chunk.end - chunk.begin, 1.0F, task.softcap, of_head);
    }
    if (slopes != nullptr) take_distances<kHeads>(task, chunk, slopes, scores);
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) {
        for (int i = base; i < chunk.begin; ++i)
            scores[h * kScoreRoom + i - base] = -std::numeric_limits<float>::infinity();
    }
}

// The highest of n scores. Those that are no numbers do not count, and it is finite or infinity: a
// score of minus infinity has no weight.
HELIX_INLINE float highest_score(const float* scores, int n) {
    constexpr float kLowest = std::numeric_limits<float>::lowest();
    Floats top = set1(kLowest);
    int i = 0;
    for (; i + 16 <= n; i += 16) top = max(load(scores + i), top);
    if (i < n) top = max(load_first(scores + i, n - i, kLowest), top);
    return reduce_max(top);
}

// Turns scores into weights; returns their sum.
HELIX_INLINE float softmax_weights(float* scores, int n, float top) {
    const Floats shift = set1(top);
    Floats sums = set1(0.0F);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
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

// What the chunks so far have come to, for kHeads heads; out holds the weighted values.
template <int kHeads>
struct Softmax {
    // Lane h is head h's.
    Floats top;
    Floats sum;
    // What a chunk's weighted values, and those before it, are to be multiplied by.
    alignas(64) float of_chunk[16];
    alignas(64) float of_former[16];

    // Turns the scores of the next chunk into weights.
    HELIX_INLINE void add_chunk(float* scores, int n, bool first) {
        alignas(64) float tops[16] = {};
        alignas(64) float sums[16] = {};
        HELIX_UNROLL
        for (int h = 0; h < kHeads; ++h) {
            float* of_head = scores + h * kScoreRoom;
            tops[h] = highest_score(of_head, n);
            sums[h] = softmax_weights(of_head, n, tops[h]);
        }
        if (first) {
            top = load(tops);
            sum = load(sums);
            return;
        }
        const Floats highest = max(load(tops), top);
        const Floats chunk_factor = exp_or_zero(sub(load(tops), highest));
        const Floats former_factor = exp_or_zero(sub(top, highest));
        sum = fma(load(sums), chunk_factor, mul(sum, former_factor));
        top = highest;
        store(of_chunk, chunk_factor);
        store(of_former, former_factor);
    }
};

// Adds up 16 * kDims dimensions of a chunk's values for kHeads heads.
template <class Kv, int kHeads, int kDims>
void chunk_values(const AttentionTask& task, const Chunk& chunk, const float* weights,
                  int first_dim, Array<Floats, kHeads * kDims>& sum) {
    const KvLayout& layout = *task.layout;
    const std::int64_t stride = layout.dims() * Kv::kBytes;
    const std::int64_t offset = layout.values_of_head(task.kv_head) + first_dim * Kv::kBytes;
    [[maybe_unused]] const std::int64_t scales_offset = layout.value_scales_of_head(task.kv_head);
    HELIX_UNROLL
    for (int i = 0; i < kHeads * kDims; ++i) sum[i] = set1(0.0F);
    const int base = chunk.base();
    int block = chunk.begin / task.block_size;
    int in_block = chunk.begin % task.block_size;
    for (int at = chunk.begin; at < chunk.end; ++at) {
        const std::byte* row = task.pages[block] + offset + in_block * stride;
        Array<float, kHeads> weight;
        HELIX_UNROLL
        for (int h = 0; h < kHeads; ++h) weight[h] = weights[h * kScoreRoom + at - base];
        if constexpr (Kv::kScaled) {
            float scale = 0;
            std::memcpy(&scale,
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
                sum[h * kDims + d] = fma(v, set1(weight[h]), sum[h * kDims + d]);
        }
        if (++in_block == task.block_size) {
            in_block = 0;
            ++block;
        }
    }
}

// out: [kHeads, head_dim], what came of the chunks before, unless this is the first.
template <class Kv, int kHeads, int kDims>
void add_values(const AttentionTask& task, const Chunk& chunk, const float* weights,
                const Softmax<kHeads>& softmax, bool first, int first_dim, float* out) {
    Array<Floats, kHeads * kDims> sum;
    chunk_values<Kv, kHeads, kDims>(task, chunk, weights, first_dim, sum);
    HELIX_UNROLL
    for (int h = 0; h < kHeads; ++h) {
        HELIX_UNROLL
        for (int d = 0; d < kDims; ++d) {
            const int dim = first_dim + 16 * d;
            const int n = task.head_dim - dim < 16 ? task.head_dim - dim : 16;
            float* at = out + h * task.head_dim + dim;
            Floats total = sum[h * kDims + d];
            if (!first) {
                const Floats former = mul(load_left(at, n), set1(softmax.of_former[h]));
                total = fma(total, set1(softmax.of_chunk[h]), former);
            }
            store_left(at, n, total);
        }
    }
}

// What the weighted values are multiplied by. A sink is as a chunk of one position whose values are
// zero.
template <int kHeads>
HELIX_INLINE Floats last_factors(const Softmax<kHeads>& softmax, const float* sinks) {
    if (sinks == nullptr) return div(set1(1.0F), softmax.sum);
    const Floats sink = load_first(sinks, kHeads, 0.0F);
    const Floats highest = max(sink, softmax.top);
    const Floats former = exp_or_zero(sub(softmax.top, highest));
    const Floats sum = add(mul(softmax.sum, former), exp_or_zero(sub(sink, highest)));
    return mul(div(set1(1.0F), sum), former);
}

template <int kHeads>
void normalise(const AttentionTask& task, const Softmax<kHeads>& softmax, const float* sinks,
               float* out) {
    alignas(64) float factors[16];
    store(factors, last_factors(softmax, sinks));
    for (int h = 0; h < kHeads; ++h, out += task.head_dim) {
        const Floats factor = set1(factors[h]);
        for (int dim = 0; dim < task.head_dim; dim += 16) {
            const int n = task.head_dim - dim < 16 ? task.head_dim - dim : 16;
            store_left(out + dim, n, mul(load_left(out + dim, n), factor));
        }
    }
}

template <class Kv, int kHeads>
void attend_heads(const AttentionTask& task, int head) {
    Scores<kHeads> scores;
    Softmax<kHeads> softmax;
    float* weights = scores.of.v;
    const float* q = task.q + head * task.head_dim;
    const float* slopes = task.slopes == nullptr ? nullptr : task.slopes + head;
    float* out = task.out + head * task.head_dim;
    Chunk chunk{task.begin, 0};
    for (; chunk.begin < task.n_positions; chunk.begin = chunk.end) {
        const bool first = chunk.begin == task.begin;
        const int end = (chunk.begin / kChunkPositions + 1) * kChunkPositions;
        chunk.end = end < task.n_positions ? end : task.n_positions;
        chunk_scores<Kv, kHeads>(task, chunk, q, slopes, weights);
        softmax.add_chunk(weights, chunk.end - chunk.base(), first);
        int dim = 0;
        for (; dim + 16 < task.head_dim; dim += 32)
            add_values<Kv, kHeads, 2>(task, chunk, weights, softmax, first, dim, out);
        if (dim < task.head_dim)
            add_values<Kv, kHeads, 1>(task, chunk, weights, softmax, first, dim, out);
    }
    normalise(task, softmax, task.sinks == nullptr ? nullptr : task.sinks + head, out);
}

template <class Kv>
void attention(const AttentionTask& task) {
    int head = 0;
    for (; head + kAttentionHeadTile <= task.n_heads; head += kAttentionHeadTile)
        attend_heads<Kv, kAttentionHeadTile>(task, head);
    for (; head < task.n_heads; ++head) attend_heads<Kv, 1>(task, head);
}

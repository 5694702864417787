#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "model/quant/fp8.h"
#include "model/quant/half.h"
#include "model/quant/int4.h"
#include "model/quant/q2_k.h"
#include "model/quant/q4_1.h"
#include "model/quant/q4_k.h"
#include "model/quant/q6_k.h"
#include "model/quant/q8_0.h"

// docs/numerics.md in plain loops over single floats, with its lengths as numbers of their own and
// nothing of the kernels. std::fma rounds once; all else is compiled as it is written.

namespace helix::engine::test::numerics {

inline float half(std::uint16_t bits) {
    return model::quant::half_to_float(bits);
}

inline float nearest_even(float x) {
    return std::nearbyint(x);
}

// Sixteen sums of what is equal modulo 16, folded.
inline float folded_sum(std::span<const float> x) {
    std::array<float, 16> sums{};
    for (std::size_t i = 0; i < x.size(); ++i) sums[i % 16] += x[i];
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) sums[i] += sums[i + apart];
    }
    return sums[0];
}

// Of a row of logits: pieces' sums, then those of pieces of these, until one is left.
inline float sum_of_pieces(std::vector<float> values, std::size_t piece) {
    do {
        std::vector<float> sums;
        for (std::size_t first = 0; first < values.size(); first += piece) {
            const std::size_t n = std::min(piece, values.size() - first);
            sums.push_back(folded_sum(std::span(values).subspan(first, n)));
        }
        values = sums;
    } while (values.size() > 1);
    return values[0];
}

// 32 activations as int8.
struct Activations {
    std::array<int, 32> q{};
    float scale = 0;
    float scaled_sum = 0;
};

inline Activations to_int8(std::span<const float> x) {
    Activations a;
    float top = 0;
    for (const float v : x) top = std::max(top, std::abs(v));
    if (top < 1e-30F) return a;
    const float inverse = 127.0F / top;
    int sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        a.q[i] = static_cast<int>(nearest_even(x[i] * inverse));
        sum += a.q[i];
    }
    a.scale = top / 127.0F;
    a.scaled_sum = a.scale * static_cast<float>(sum);
    return a;
}

// Sum over columns [begin, end) of a block of 32; weight(i) is an integer.
template <typename Weight>
float exact_sum(const Activations& x, std::size_t begin, std::size_t end, Weight weight) {
    int sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += x.q[i] * weight(i);
    return static_cast<float>(sum);
}

// Of each kind of scales one format. row: its blocks; b: the number of a block of 32 columns; s:
// the segment's sum so far; the result: with the block added.
inline float add_block(const model::quant::BlockQ8_0* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b];
    const float sum = exact_sum(x, 0, 32, [&](std::size_t i) { return int{w.q[i]}; });
    return std::fma(sum, half(w.scale) * x.scale, s);
}

inline float add_block(const model::quant::BlockInt4* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b];
    const int zero = w.zero & 15;
    const float sum = exact_sum(
        x, 0, 32, [&](std::size_t i) { return (i < 16 ? w.q[i] & 15 : w.q[i - 16] >> 4) - zero; });
    const auto bits = static_cast<std::uint16_t>(w.scale[0] | w.scale[1] << 8);
    const float d = w.zero >= 128 ? model::quant::bfloat_to_float(bits) : half(bits);
    return std::fma(sum, d * x.scale, s);
}

inline float add_block(const model::quant::BlockQ4_1* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b];
    const float sum =
        exact_sum(x, 0, 32, [&](std::size_t i) { return i < 16 ? w.q[i] & 15 : w.q[i - 16] >> 4; });
    s = std::fma(sum, half(w.scale) * x.scale, s);
    return std::fma(x.scaled_sum, half(w.min), s);
}

inline float add_block(const model::quant::BlockQ4K* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b / 8];
    const auto group = static_cast<int>(b % 8);
    const auto of_group = model::quant::group_scale_min(w.packed, group);
    const float sum = exact_sum(x, 0, 32, [&](std::size_t i) {
        const int both = w.q[static_cast<std::size_t>(group / 2 * 32) + i];
        return group % 2 == 0 ? both & 15 : both >> 4;
    });
    const float d = half(w.scale) * static_cast<float>(of_group.scale);
    const float m = (0.0F - half(w.min)) * static_cast<float>(of_group.min);
    s = std::fma(sum, d * x.scale, s);
    return std::fma(x.scaled_sum, m, s);
}

inline float add_block(const model::quant::BlockQ6K* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b / 8];
    const auto weight = [&](std::size_t i) {
        const std::size_t e = b % 8 * 32 + i;
        const std::size_t k = e % 128 / 32;
        const int low = w.low[e / 128 * 64 + k % 2 * 32 + e % 32] >> (k < 2 ? 0 : 4) & 15;
        const int high = w.high[e / 128 * 32 + e % 32] >> (2 * k) & 3;
        return (low | high << 4) - 32;
    };
    const auto d = [&](std::size_t part) {
        return half(w.scale) * static_cast<float>(w.scales[b % 8 * 2 + part]);
    };
    const float lower = exact_sum(x, 0, 16, weight) * d(0);
    const float both = std::fma(exact_sum(x, 16, 32, weight), d(1), lower);
    return std::fma(both, x.scale, s);
}

inline float add_block(const model::quant::BlockQ2K* row, std::size_t b, const Activations& x,
                       float s) {
    const auto& w = row[b / 8];
    const std::size_t group = b % 8 * 2;
    const auto weight = [&](std::size_t i) { return w.q[b % 8 / 4 * 32 + i] >> (2 * (b % 4)) & 3; };
    const auto scale = [&](std::size_t i) {
        return half(w.scale) * static_cast<float>(w.packed[group + i] & 15);
    };
    const auto min = [&](std::size_t i) {
        return half(w.min) * static_cast<float>(w.packed[group + i] >> 4);
    };
    const auto minus_one = [](std::size_t) { return -1; };
    float both = exact_sum(x, 0, 16, weight) * scale(0);
    both = std::fma(exact_sum(x, 16, 32, weight), scale(1), both);
    both = std::fma(exact_sum(x, 0, 16, minus_one), min(0), both);
    both = std::fma(exact_sum(x, 16, 32, minus_one), min(1), both);
    return std::fma(both, x.scale, s);
}

// One output of a product with a quantised matrix.
template <typename Block>
float quantised_product(const std::byte* row, std::span<const float> x, std::size_t segment) {
    constexpr std::size_t kBlockColumns = sizeof(Block) > 80 ? 256 : 32;
    std::vector<Block> blocks(x.size() / kBlockColumns);
    std::memcpy(blocks.data(), row, blocks.size() * sizeof(Block));
    float total = 0;
    for (std::size_t first = 0; first < x.size(); first += segment) {
        float sum = 0;
        for (std::size_t c = first; c < std::min(first + segment, x.size()); c += 32)
            sum = add_block(blocks.data(), c / 32, to_int8(x.subspan(c, 32)), sum);
        total += sum;
    }
    return total;
}

// One output of a product with a matrix of floats.
inline float float_product(std::span<const float> row, std::span<const float> x,
                           std::size_t segment) {
    float total = 0;
    for (std::size_t first = 0; first < x.size(); first += segment) {
        float sum = 0;
        for (std::size_t c = first; c < std::min(first + segment, x.size()); ++c)
            sum = std::fma(row[c], x[c], sum);
        total += sum;
    }
    return total;
}

// One output of a product with a matrix of FP8. A segment that is not of 64 columns, as the
// definition has them, takes the scale of its first column.
inline float fp8_product(const std::byte* row, std::span<const float> x, std::size_t segment) {
    std::vector<model::quant::BlockFp8> blocks(x.size() / 64);
    std::memcpy(blocks.data(), row, blocks.size() * sizeof blocks[0]);
    float total = 0;
    for (std::size_t first = 0; first < x.size(); first += segment) {
        float sum = 0;
        for (std::size_t c = first; c < std::min(first + segment, x.size()); ++c) {
            const unsigned bits = blocks[c / 64].q[c % 64];
            const float w = half(static_cast<std::uint16_t>((bits & 127U) << 7U));
            sum = std::fma(bits < 128 ? w : -w, x[c], sum);
        }
        const float scaled = sum * blocks[first / 64].scale;
        total += scaled;
    }
    return total;
}

inline float exp(float x) {
    x = std::clamp(x, -87.3F, 88.3F);
    const float n = nearest_even(x * 1.44269504F);
    float r = std::fma(n, -0.693359375F, x);
    r = std::fma(n, 2.12194440e-4F, r);
    float y = 1.0F / 720.0F;
    for (const float next : {1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F})
        y = std::fma(y, r, next);
    return y * std::ldexp(1.0F, static_cast<int>(n));  // exact
}

// 0 where exp() ends.
inline float exp_or_zero(float x) {
    return std::max(0.0F, exp(x) - exp(-100.0F));
}

// The sixteen sums of what is equal modulo 16, in halves.
inline float folded(std::array<float, 16> lanes) {
    for (std::size_t half = 8; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
}

inline std::vector<float> rms_norm(std::span<const float> x, std::span<const float> weight,
                                   float epsilon) {
    std::array<float, 16> squares{};
    for (std::size_t i = 0; i < x.size(); ++i)
        squares[i % 16] = std::fma(x[i], x[i], squares[i % 16]);
    const float mean = folded(squares) / static_cast<float>(x.size());
    const float factor = 1.0F / std::sqrt(mean + epsilon);
    std::vector<float> y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * factor * weight[i]);
    return y;
}

inline std::vector<float> layer_norm(std::span<const float> x, std::span<const float> weight,
                                     float epsilon) {
    const auto n = static_cast<float>(x.size());
    const float mean = folded_sum(x) / n;
    std::vector<float> apart;
    std::array<float, 16> squares{};
    for (std::size_t i = 0; i < x.size(); ++i) {
        apart.push_back(x[i] - mean);
        squares[i % 16] = std::fma(apart[i], apart[i], squares[i % 16]);
    }
    const float factor = 1.0F / std::sqrt(folded(squares) / n + epsilon);
    for (std::size_t i = 0; i < x.size(); ++i) apart[i] = apart[i] * factor * weight[i];
    return apart;
}

inline float tanh(float x) {
    const float a = std::clamp(x, -9.0F, 9.0F) * 0.125F;
    const float square = a * a;
    const float above = std::fma(std::fma(21.0F, square, 1260.0F), square, 10395.0F);
    const float below = std::fma(std::fma(square + 210.0F, square, 4725.0F), square, 10395.0F);
    float t = a * above / below;
    for (int i = 0; i < 3; ++i) t = (t + t) / std::fma(t, t, 1.0F);
    return t;
}

inline float capped(float x, float cap) {
    return tanh(x * (1.0F / cap)) * cap;
}

inline float geglu(float gate, float up) {
    const float inner = std::fma(gate * gate, 0.044715F, 1.0F);
    return gate / (1.0F + exp(gate * inner * -1.5957691F)) * up;
}

inline float gelu(float x) {
    const float a = std::min(std::abs(x), 14.0F);
    const float t = 1.0F / std::fma(a, 0.25F, 1.0F);
    float p = -0.187237933F;
    for (const float next : {0.794700384F, -1.15509403F, 0.590449631F, -0.0902904272F,
                             -0.0435807519F, 0.284184515F, 0.41612488F, 1.00300014F, -2.30540347F})
        p = std::fma(p, t, next);
    return std::max(x, 0.0F) - a * t * exp(std::fma(a * a, -0.5F, p));
}

inline float swiglu(float gate, float up) {
    return gate / (1.0F + exp(0.0F - gate)) * up;
}

inline float clamped_swiglu(float gate, float up) {
    gate = std::min(gate, 7.0F);
    up = std::clamp(up, -7.0F, 7.0F);
    return gate / (1.0F + exp(gate * -1.702F)) * (up + 1.0F);
}

inline float sigmoid(float x) {
    return 1.0F / (1.0F + exp(0.0F - x));
}

// A cache of one head: keys and values [positions, head_dim] as they are stored, widened.
struct Cache {
    std::size_t head_dim = 0;
    std::vector<float> keys, values;
    std::vector<float> key_scales, value_scales;  // of each position; empty: none
};

struct Partial {
    float top = std::numeric_limits<float>::lowest();
    float sum = 0;
    std::vector<float> values;
};

// Of positions [begin, end), which are of one chunk.
inline Partial attend_chunk(std::span<const float> q, const Cache& cache, std::size_t begin,
                            std::size_t end) {
    const std::size_t dim = cache.head_dim;
    std::vector<float> scores;
    Partial chunk;
    for (std::size_t p = begin; p < end; ++p) {
        float score = 0;
        for (std::size_t d = 0; d < dim; ++d)
            score = std::fma(cache.keys[p * dim + d], q[d], score);
        if (!cache.key_scales.empty()) score *= cache.key_scales[p];
        score *= 1.0F / std::sqrt(static_cast<float>(dim));
        scores.push_back(score);
        chunk.top = std::max(chunk.top, score);
    }
    std::array<float, 16> sums{};
    chunk.values.assign(dim, 0.0F);
    for (std::size_t p = begin; p < end; ++p) {
        float weight = exp_or_zero(scores[p - begin] - chunk.top);
        sums[p % 16] += weight;
        if (!cache.value_scales.empty()) weight *= cache.value_scales[p];
        for (std::size_t d = 0; d < dim; ++d)
            chunk.values[d] = std::fma(cache.values[p * dim + d], weight, chunk.values[d]);
    }
    chunk.sum = folded(sums);
    return chunk;
}

inline void combine(Partial& so_far, const Partial& chunk) {
    const float top = std::max(so_far.top, chunk.top);
    const float of_former = exp_or_zero(so_far.top - top);
    const float of_chunk = exp_or_zero(chunk.top - top);
    so_far.top = top;
    so_far.sum = std::fma(chunk.sum, of_chunk, so_far.sum * of_former);
    for (std::size_t d = 0; d < chunk.values.size(); ++d)
        so_far.values[d] = std::fma(chunk.values[d], of_chunk, so_far.values[d] * of_former);
}

// One row and head over positions [begin, end).
inline std::vector<float> attention(std::span<const float> q, const Cache& cache, std::size_t begin,
                                    std::size_t end, std::size_t chunk_positions,
                                    std::optional<float> sink = std::nullopt) {
    Partial so_far;
    for (std::size_t first = begin; first < end;) {
        const std::size_t next = std::min(end, (first / chunk_positions + 1) * chunk_positions);
        const Partial chunk = attend_chunk(q, cache, first, next);
        if (first == begin) {
            so_far = chunk;
        } else {
            combine(so_far, chunk);
        }
        first = next;
    }
    float factor = 1.0F / so_far.sum;
    if (sink) {
        const float top = std::max(so_far.top, *sink);
        const float former = exp_or_zero(so_far.top - top);
        const float sum = so_far.sum * former + exp_or_zero(*sink - top);
        factor = 1.0F / sum * former;
    }
    for (float& value : so_far.values) value *= factor;
    return so_far.values;
}

// The sum of a row's weights.
inline float logit_weights(std::span<const float> logits, std::size_t piece) {
    const float top = *std::max_element(logits.begin(), logits.end());
    std::vector<float> weights;
    for (const float logit : logits) weights.push_back(exp_or_zero(logit - top));
    return sum_of_pieces(weights, piece);
}

}  // namespace helix::engine::test::numerics

#include "engine/ops/attention.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/ops/kv_store.h"
#include "op_helpers.h"

namespace helix::engine::test {
namespace {

struct Case {
    int n_heads, n_kv_heads, head_dim, block_size, positions;
    int window = 0;
};

// Keys and values of one sequence, in pages that were full of NaNs before.
struct Sequence {
    std::vector<float> keys, values;  // [positions, n_kv_heads, head_dim]
    std::vector<std::vector<std::byte>> pages;
    std::vector<const std::byte*> table;
};

Sequence make_sequence(base::Random& random, const ops::Kernels& kernels,
                       const ops::KvLayout& layout, int positions) {
    Sequence s;
    const auto width = static_cast<std::size_t>(layout.n_kv_heads * layout.head_dim);
    s.keys = random_floats(random, static_cast<std::size_t>(positions) * width, 2);
    s.values = random_floats(random, static_cast<std::size_t>(positions) * width, 2);
    const int blocks = (positions + layout.block_size - 1) / layout.block_size;
    for (int b = 0; b < blocks; ++b) {
        s.pages.emplace_back(static_cast<std::size_t>(layout.page_bytes()), std::byte{0xff});
    }
    for (int p = 0; p < positions; ++p) {
        const std::size_t at = static_cast<std::size_t>(p) * width;
        ops::kv_store(kernels, layout, 0, s.keys.data() + at, s.values.data() + at,
                      p % layout.block_size,
                      s.pages[static_cast<std::size_t>(p / layout.block_size)].data());
    }
    for (const auto& page : s.pages) s.table.push_back(page.data());
    return s;
}

double stored(float value, ops::KvType type) {
    if (type == ops::KvType::f32) return static_cast<double>(value);
    std::uint16_t half = 0;
    ops::kernels(ops::Isa::portable).to_half(&value, 1, &half);
    float back = 0;
    model::dequantize_row(TensorType::f16, std::as_bytes(std::span(&half, 1)), &back);
    return static_cast<double>(back);
}

std::vector<double> exact_attention(const Case& c, const Sequence& s, const float* q,
                                    int n_positions, ops::KvType type) {
    std::vector<double> out(static_cast<std::size_t>(c.n_heads * c.head_dim), 0.0);
    const int group = c.n_heads / c.n_kv_heads;
    const int first = c.window > 0 ? std::max(0, n_positions - c.window) : 0;
    for (int head = 0; head < c.n_heads; ++head) {
        std::vector<double> weights;
        double sum = 0;
        const auto at = [&](int p, int d) {
            return static_cast<std::size_t>((p * c.n_kv_heads + head / group) * c.head_dim + d);
        };
        for (int p = first; p < n_positions; ++p) {
            double score = 0;
            for (int d = 0; d < c.head_dim; ++d) {
                score +=
                    static_cast<double>(q[head * c.head_dim + d]) * stored(s.keys[at(p, d)], type);
            }
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(c.head_dim))));
            sum += weights.back();
        }
        for (int p = first; p < n_positions; ++p) {
            for (int d = 0; d < c.head_dim; ++d) {
                out[static_cast<std::size_t>(head * c.head_dim + d)] +=
                    weights[static_cast<std::size_t>(p - first)] / sum *
                    stored(s.values[at(p, d)], type);
            }
        }
    }
    return out;
}

std::vector<float> attend(ops::Isa isa, ThreadPool& pool, const ops::KvLayout& layout,
                          const Case& c, const Sequence& s, const std::vector<float>& q,
                          int first_position, std::int64_t rows) {
    std::vector<float> out(q.size());
    ops::Attention attention;
    const ops::AttentionRows sequence[] = {{0, rows, first_position, s.table.data()}};
    attention.run(ops::kernels(isa), pool, layout, {c.n_heads, c.window}, sequence, q.data(),
                  out.data());
    return out;
}

constexpr Case kCases[] = {{1, 1, 8, 16, 1},
                           {8, 4, 8, 16, 40},
                           {6, 2, 20, 5, 33},
                           {32, 4, 64, 16, 70},
                           {9, 1, 128, 32, 300},
                           {4, 4, 48, 8, 513},
                           {5, 5, 16, 1, 17},
                           // windows that end within a page, at its edge, and before the sequence
                           {8, 4, 8, 16, 40, 13},
                           {6, 2, 20, 5, 33, 9},
                           {32, 4, 64, 16, 70, 32},
                           {9, 1, 128, 32, 700, 290},
                           {4, 4, 48, 8, 513, 1},
                           {5, 5, 16, 1, 17, 16},
                           {8, 2, 32, 48, 100, 70},
                           {4, 1, 16, 16, 40, 1000}};

class AttentionOp : public testing::TestWithParam<ops::KvType> {};

TEST_P(AttentionOp, EqualsDoublePrecisionOnEveryInstructionSet) {
    base::Random random(31);
    ThreadPool pool(2);
    for (const Case& c : kCases) {
        const ops::KvLayout layout{GetParam(), c.n_kv_heads, c.head_dim, c.block_size};
        const Sequence s =
            make_sequence(random, ops::kernels(ops::best_isa()), layout, c.positions);
        const std::int64_t rows = std::min(c.positions, 3);
        const auto width = static_cast<std::size_t>(c.n_heads * c.head_dim);
        const auto q = random_floats(random, width * static_cast<std::size_t>(rows), 2);
        const int first = c.positions - static_cast<int>(rows);
        const auto out = attend(ops::best_isa(), pool, layout, c, s, q, first, rows);
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
            const auto exact = exact_attention(c, s, q.data() + r * width,
                                               first + static_cast<int>(r) + 1, GetParam());
            for (std::size_t i = 0; i < width; ++i) {
                ASSERT_NEAR(out[r * width + i], exact[i], 1e-5 * (1 + std::abs(exact[i])))
                    << "heads of " << c.head_dim << ", row " << r << ", " << i;
            }
        }
        for (const ops::Isa isa : machine_isas()) {
            EXPECT_TRUE(same_bits(attend(isa, pool, layout, c, s, q, first, rows), out))
                << ops::to_string(isa);
        }
    }
}

TEST_P(AttentionOp, DependsNeitherOnThePageSizeNorOnTheOtherRows) {
    ThreadPool pool(3);
    for (const int window : {0, 1, 20, 100, 257}) {
        const Case c{8, 2, 24, 16, 290, window};
        std::vector<float> expected;
        for (const int block_size : {16, 1, 7, 64, 512}) {
            base::Random random(32);
            const ops::KvLayout layout{GetParam(), c.n_kv_heads, c.head_dim, block_size};
            const Sequence s =
                make_sequence(random, ops::kernels(ops::best_isa()), layout, c.positions);
            const auto q = random_floats(
                random, static_cast<std::size_t>(c.positions * c.n_heads * c.head_dim), 2);
            const auto all = attend(ops::best_isa(), pool, layout, c, s, q, 0, c.positions);
            if (expected.empty()) expected = all;
            EXPECT_TRUE(same_bits(all, expected))
                << "pages of " << block_size << ", window " << window;
            const auto width = static_cast<std::size_t>(c.n_heads * c.head_dim);
            for (const int p : {0, 15, 16, 255, 256, 289}) {
                const auto from =
                    q.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * width);
                const std::vector<float> one(from, from + static_cast<std::ptrdiff_t>(width));
                const auto alone = attend(ops::best_isa(), pool, layout, c, s, one, p, 1);
                EXPECT_TRUE(same_bits(
                    alone, std::span(expected).subspan(static_cast<std::size_t>(p) * width, width)))
                    << p << ", window " << window;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, AttentionOp, testing::Values(ops::KvType::f16, ops::KvType::f32),
                         [](const auto& given) {
                             return given.param == ops::KvType::f16 ? "f16" : "f32";
                         });

}  // namespace
}  // namespace helix::engine::test

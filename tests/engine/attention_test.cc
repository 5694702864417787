#include "engine/cpu/attention_cpu.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "engine/cpu/kv_store_cpu.h"
#include "engine/ops/kv_type.h"
#include "op_helpers.h"
#include "spec/model_shape.h"

namespace helix::engine::test::attention_test {
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

// What a page holds of these heads' vectors: rounded to the type, q8 with its scale.
std::vector<double> stored(std::span<const float> x, ops::KvType type, int head_dim) {
    std::vector<double> values(x.begin(), x.end());
    if (type == ops::KvType::q8) {
        const auto dim = static_cast<std::size_t>(head_dim);
        for (std::size_t head = 0; head < x.size(); head += dim) {
            float largest = 0;
            for (std::size_t d = 0; d < dim; ++d)
                largest = std::max(largest, std::abs(x[head + d]));
            if (largest == 0) continue;
            const float inverse = 127.0F / largest;
            const float scale = largest / 127.0F;
            for (std::size_t d = 0; d < dim; ++d) {
                values[head + d] = static_cast<double>(scale) *
                                   std::nearbyint(static_cast<double>(x[head + d] * inverse));
            }
        }
    } else if (type != ops::KvType::f32) {
        const TensorType element = type == ops::KvType::f16 ? TensorType::f16 : TensorType::bf16;
        std::vector<std::byte> bytes(2 * x.size());
        model::quantize_row(element, x, bytes.data());
        std::vector<float> back(x.size());
        model::dequantize_row(element, bytes, back.data());
        values.assign(back.begin(), back.end());
    }
    return values;
}

std::vector<double> exact_attention(const Case& c, const Sequence& s, const float* q,
                                    int n_positions, ops::KvType type) {
    const std::vector<double> keys = stored(s.keys, type, c.head_dim);
    const std::vector<double> values = stored(s.values, type, c.head_dim);
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
                score += static_cast<double>(q[head * c.head_dim + d]) * keys[at(p, d)];
            }
            weights.push_back(std::exp(score / std::sqrt(static_cast<double>(c.head_dim))));
            sum += weights.back();
        }
        for (int p = first; p < n_positions; ++p) {
            for (int d = 0; d < c.head_dim; ++d) {
                out[static_cast<std::size_t>(head * c.head_dim + d)] +=
                    weights[static_cast<std::size_t>(p - first)] / sum * values[at(p, d)];
            }
        }
    }
    return out;
}

std::vector<float> attend(ops::Isa isa, ThreadPool& pool, const ops::KvLayout& layout,
                          const Case& c, const Sequence& s, const std::vector<float>& q,
                          int first_position, std::int64_t rows) {
    std::vector<float> out(q.size());
    ops::PagedAttention attention;
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

// What one instruction set stored, another reads.
TEST_P(AttentionOp, PagesAreTheSameBytesOnEveryInstructionSet) {
    const ops::KvLayout layout{GetParam(), 3, 20, 5};
    std::vector<std::vector<std::byte>> expected;
    for (const ops::Isa isa : machine_isas()) {
        base::Random random(33);
        const Sequence s = make_sequence(random, ops::kernels(isa), layout, 17);
        if (expected.empty()) expected = s.pages;
        EXPECT_EQ(s.pages, expected) << ops::to_string(isa);
    }
}

// What lies behind each rank's page stays as it was.
TEST_P(AttentionOp, NothingIsWrittenOutsideThePage) {
    const ops::Kernels& kernels = ops::kernels(ops::best_isa());
    base::Random random(34);
    for (const Case& c : kCases) {
        ops::KvLayout layout{GetParam(), c.n_kv_heads, c.head_dim, c.block_size};
        layout.ranks = c.n_kv_heads % 2 == 0 ? 2 : 1;
        const std::int64_t size = layout.rank_page_bytes();
        layout.rank_stride = size + 64;
        std::vector<std::byte> memory(static_cast<std::size_t>(layout.ranks * layout.rank_stride),
                                      std::byte{0x5a});
        const auto x =
            random_floats(random, static_cast<std::size_t>(layout.rank_heads() * c.head_dim), 2);
        for (int rank = 0; rank < layout.ranks; ++rank) {
            for (int p = 0; p < c.block_size; ++p)
                ops::kv_store(kernels, layout, rank, x.data(), x.data(), p, memory.data());
        }
        for (std::int64_t i = 0; i < std::ssize(memory); ++i) {
            if (i % layout.rank_stride < size) continue;
            ASSERT_EQ(memory[static_cast<std::size_t>(i)], std::byte{0x5a});
        }
    }
}

// However little there is to do, so that a row has the same bits alone and in a large batch. The
// second position weighs e^-87 - e^-87.3, which is below the least normal number.
TEST_P(AttentionOp, AWeightBelowTheLeastNormalNumberIsZero) {
    const Case c{1, 1, 16, 16, 2};
    const ops::KvLayout layout{GetParam(), c.n_kv_heads, c.head_dim, c.block_size};
    const std::vector<float> keys[] = {std::vector<float>(16, 0.0F), std::vector<float>(16, -1.0F)};
    const std::vector<float> values[] = {std::vector<float>(16, 0.0F),
                                         std::vector<float>(16, 1e4F)};
    const std::vector<float> q(16, 21.75F);  // times 16 keys of -1, over the root of 16: -87
    ThreadPool pool(2);
    for (const ops::Isa isa : machine_isas()) {
        Sequence s;
        s.pages.emplace_back(static_cast<std::size_t>(layout.page_bytes()), std::byte{0});
        for (int p = 0; p < 2; ++p) {
            ops::kv_store(ops::kernels(isa), layout, 0, keys[p].data(), values[p].data(), p,
                          s.pages[0].data());
        }
        s.table.push_back(s.pages[0].data());
        EXPECT_EQ(attend(isa, pool, layout, c, s, q, 1, 1), std::vector<float>(16, 0.0F))
            << ops::to_string(isa);
    }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, AttentionOp,
                         testing::Values(ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32,
                                         ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

TEST(KvLayout, ATokenTakesTheBytesThatItsTypeSays) {
    const auto bytes = [](ops::KvType type) {
        return ops::kv_bytes_per_token_layer(type, 8, 128, 16);
    };
    EXPECT_EQ(bytes(ops::KvType::f16), 2 * 8 * 128 * 2);
    EXPECT_EQ(bytes(ops::KvType::bf16), 2 * 8 * 128 * 2);
    EXPECT_EQ(bytes(ops::KvType::f32), 2 * 8 * 128 * 4);
    EXPECT_EQ(bytes(ops::KvType::q8), 2 * 8 * (128 + 4));
    for (const ops::KvType type :
         {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8}) {
        EXPECT_EQ(spec::kv_bytes_per_token_layer(8, 128, type), bytes(type))
            << "what plans count with";
    }
    // Pages of 5 keep room for keys of 16: 672 bytes.
    EXPECT_EQ(ops::kv_bytes_per_token_layer(ops::KvType::f16, 1, 16, 5), 135);
}

TEST(KvTypeNames, AreReadAndAnUnknownOneIsAnErrorThatListsThem) {
    for (const ops::KvType type :
         {ops::KvType::f16, ops::KvType::bf16, ops::KvType::f32, ops::KvType::q8}) {
        const auto read = ops::parse_kv_type(ops::to_string(type));
        ASSERT_TRUE(read.ok());
        EXPECT_EQ(*read, type);
    }
    const auto wrong = ops::parse_kv_type("q4");
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().message, "KV cache type 'q4': expected f16, bf16, f32 or q8");
}

TEST(QuantiseKv, RoundsToTheNearestEvenWithinTheByte) {
    // The scale is 1: what lies between two integers goes to the even one.
    const std::vector<float> x = {127,   -127,   0.5F,   1.5F,   2.5F,   -0.5F, -1.5F,
                                  -2.5F, 126.5F, 125.5F, 3.49F,  -3.51F, 0,     1,
                                  -1,    2,      63.5F,  -64.5F, 100.25F};
    const std::vector<std::int8_t> expected = {127, -127, 0, 2, 2,  0, -2, -2,  126, 126,
                                               3,   -4,   0, 1, -1, 2, 64, -64, 100};
    const float infinity = std::numeric_limits<float>::infinity();
    for (const ops::Isa isa : machine_isas()) {
        const ops::Kernels& kernels = ops::kernels(isa);
        std::vector<std::int8_t> q(x.size());
        EXPECT_EQ(kernels.quantise_kv(x.data(), std::ssize(x), q.data()), 1.0F);
        EXPECT_EQ(q, expected) << ops::to_string(isa);
        for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
            for (const std::size_t at : {std::size_t{3}, x.size() - 1}) {
                std::vector<float> broken = x;
                broken[at] = bad;
                EXPECT_TRUE(
                    std::isnan(kernels.quantise_kv(broken.data(), std::ssize(broken), q.data())));
            }
        }
        const std::vector<float> zeros(19, -0.0F);
        EXPECT_EQ(kernels.quantise_kv(zeros.data(), 19, q.data()), 0.0F);
        EXPECT_EQ(q, std::vector<std::int8_t>(19, 0));
        base::Random random(35);
        for (int trial = 0; trial < 2000; ++trial) {
            // Of any size, up to the largest there is.
            auto wild = random_floats(random, 19);
            const int power = static_cast<int>(random.between(-95, 124));
            for (float& value : wild) value = std::ldexp(value, power);
            const float scale = kernels.quantise_kv(wild.data(), 19, q.data());
            for (std::size_t i = 0; i < 19; ++i) {
                ASSERT_GE(q[i], -127);
                ASSERT_LE(
                    std::abs(static_cast<double>(scale) * q[i] - static_cast<double>(wild[i])),
                    0.5001 * static_cast<double>(scale));
            }
        }
    }
}

}  // namespace
}  // namespace helix::engine::test::attention_test

// The kernels of every instruction set against the definition of docs/numerics.md, bit by bit.

#include <gtest/gtest.h>

#include "engine/cpu/attention_cpu.h"
#include "engine/cpu/kv_store_cpu.h"
#include "engine/cpu/matmul_cpu.h"
#include "engine/kernels/reduce_row.h"
#include "engine/ops/kv_type.h"
#include "numerics_reference.h"
#include "op_helpers.h"

namespace helix::engine::test::numerics_test {
namespace {

// As docs/numerics.md has them. Other lengths are other numbers: tokens would change.
constexpr std::size_t kSegment = 256;
constexpr std::size_t kFloatSegment = 64;
constexpr std::size_t kChunk = 128;
constexpr std::size_t kPiece = 256;

constexpr std::size_t kOutputs = 19;
constexpr std::size_t kRows = 3;

std::vector<float> product(ops::Isa isa, TensorType type, std::span<const std::byte> bytes,
                           std::size_t cols, const std::vector<float>& x) {
    ThreadPool pool(1);
    const auto matrix =
        ops::PackedMatrix::pack(type, kOutputs, static_cast<std::int64_t>(cols), bytes, pool);
    EXPECT_TRUE(matrix.ok()) << matrix.error().message;
    std::vector<float> y(kRows * kOutputs);
    ops::MatmulRows input;
    input.set(x.data(), kRows, static_cast<std::int64_t>(cols));
    const ops::MatmulJob job[] = {{&*matrix, {y.data(), kOutputs, false}}};
    ops::matmul(ops::kernels(isa), pool, input, job);
    return y;
}

// Columns [first, first + n) of rows of `width`.
template <typename T>
std::vector<T> columns(std::span<const T> rows, std::size_t width, std::size_t first,
                       std::size_t n) {
    std::vector<T> part;
    for (std::size_t at = 0; at < rows.size(); at += width) {
        const auto row = rows.subspan(at + first, n);
        part.insert(part.end(), row.begin(), row.end());
    }
    return part;
}

class MatmulOrder : public testing::TestWithParam<TensorType> {};

// Segments alone, added in ascending order, are the whole: the order of segments and their length.
TEST_P(MatmulOrder, SegmentsAreSummedAloneAndAddedInOrder) {
    const auto& info = *model::tensor_type_info(GetParam());
    const bool quantised = ops::takes_quantised_input(GetParam());
    const std::size_t segment = quantised ? kSegment : kFloatSegment;
    const auto block = static_cast<std::size_t>(info.block_size);
    // Three whole segments, and a shorter one where the format's blocks allow it.
    const std::size_t cols = 3 * segment + (block < segment ? std::max<std::size_t>(32, block) : 0);
    base::Random random(61);
    const auto w = random_matrix(random, GetParam(), kOutputs, cols);
    const auto x = random_floats(random, kRows * cols, 2.0);
    const auto in_segments = [&](std::size_t length) {
        std::vector<float> sum(kRows * kOutputs, 0.0F);
        for (std::size_t first = 0; first < cols; first += length) {
            const std::size_t n = std::min(length, cols - first);
            const auto bytes = [&](std::size_t elements) {
                return elements / block * static_cast<std::size_t>(info.block_bytes);
            };
            const auto weights = columns<std::byte>(w.bytes, bytes(cols), bytes(first), bytes(n));
            const auto part = product(ops::Isa::portable, GetParam(), weights, n,
                                      columns<float>(x, cols, first, n));
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        }
        return sum;
    };
    const auto expected = in_segments(segment);
    for (const ops::Isa isa : machine_isas())
        EXPECT_TRUE(same_bits(product(isa, GetParam(), w.bytes, cols, x), expected))
            << ops::to_string(isa);
}

std::string type_name(const testing::TestParamInfo<TensorType>& info) {
    return model::tensor_type_info(info.param)->name;
}
INSTANTIATE_TEST_SUITE_P(Types, MatmulOrder, testing::ValuesIn(types_of_kernels()), type_name);

using Product = float (*)(const std::byte* row, std::span<const float> x, std::size_t segment);

float f32_product(const std::byte* row, std::span<const float> x, std::size_t segment) {
    std::vector<float> weights(x.size());
    std::memcpy(weights.data(), row, x.size() * sizeof(float));
    return numerics::float_product(weights, x, segment);
}

struct OfKind {
    TensorType type;
    Product product;
    std::size_t segment;
};

// One format of each kind: floats, one scale, a minimum, a minimum of blocks of 256, halves, minima
// of halves, a scale and a zero, floats with scales.
constexpr OfKind kKinds[] = {
    {TensorType::f32, f32_product, kFloatSegment},
    {TensorType::q8_0, numerics::quantised_product<model::quant::BlockQ8_0>, kSegment},
    {TensorType::q4_1, numerics::quantised_product<model::quant::BlockQ4_1>, kSegment},
    {TensorType::q4_k, numerics::quantised_product<model::quant::BlockQ4K>, kSegment},
    {TensorType::q6_k, numerics::quantised_product<model::quant::BlockQ6K>, kSegment},
    {TensorType::q2_k, numerics::quantised_product<model::quant::BlockQ2K>, kSegment},
    {TensorType::int4, numerics::quantised_product<model::quant::BlockInt4>, kSegment},
    {TensorType::fp8, numerics::fp8_product, kFloatSegment}};

TEST(Numerics, ProductsAreTheDefinitionBitByBit) {
    constexpr std::size_t kCols = 1280;
    base::Random random(62);
    for (const OfKind& kind : kKinds) {
        const auto w = random_matrix(random, kind.type, kOutputs, kCols);
        const auto x = random_floats(random, kRows * kCols, 2.0);
        const auto by_definition = [&](std::size_t segment) {
            std::vector<float> y;
            for (std::size_t r = 0; r < kRows; ++r) {
                for (std::size_t o = 0; o < kOutputs; ++o)
                    y.push_back(kind.product(w.bytes.data() + o * (w.bytes.size() / kOutputs),
                                             std::span(x).subspan(r * kCols, kCols), segment));
            }
            return y;
        };
        const auto expected = by_definition(kind.segment);
        const char* name = model::tensor_type_info(kind.type)->name;
        for (const ops::Isa isa : machine_isas())
            EXPECT_TRUE(same_bits(product(isa, kind.type, w.bytes, kCols, x), expected))
                << name << " on " << ops::to_string(isa);
        // These numbers tell one length from another, and from one chain over all columns.
        for (const std::size_t other : {kind.segment / 2, 2 * kind.segment, kCols})
            EXPECT_FALSE(same_bits(by_definition(other), expected)) << name << ", " << other;
    }
}

TEST(Numerics, NormsGatesAndExpAreTheDefinitionBitByBit) {
    base::Random random(63);
    for (const std::size_t n : {5U, 16U, 64U, 175U}) {
        const auto x = random_floats(random, n, 20);
        const auto other = random_floats(random, n);
        std::vector<float> gated, through_gelu, through_relu, scaled, powers, sigmoids, clamped;
        std::vector<float> exact_gelu, exact_geglu;
        for (std::size_t i = 0; i < n; ++i) {
            gated.push_back(numerics::swiglu(x[i], other[i]));
            through_gelu.push_back(numerics::geglu(x[i], other[i]));
            through_relu.push_back(std::max(x[i], 0.0F) * other[i]);
            exact_gelu.push_back(numerics::gelu(x[i]));
            exact_geglu.push_back(numerics::gelu(x[i]) * other[i]);
            scaled.push_back(numerics::capped(0.7F * x[i], 30.0F));
            clamped.push_back(numerics::clamped_swiglu(x[i], 10.0F * other[i]));
            sigmoids.push_back(numerics::sigmoid(x[i]));
            powers.push_back(numerics::exp_or_zero(x[i] - 30.0F));
        }
        const auto normed = numerics::rms_norm(x, other, 1e-5F);
        const auto centred = numerics::layer_norm(x, other, 1e-5F);
        for (const ops::Isa isa : machine_isas()) {
            const ops::Kernels& kernels = ops::kernels(isa);
            const auto size = static_cast<std::int64_t>(n);
            std::vector<float> y(n);
            kernels.rms_norm(x.data(), other.data(), size, 1e-5F, y.data());
            EXPECT_TRUE(same_bits(y, normed)) << ops::to_string(isa);
            kernels.swiglu(x.data(), other.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, gated)) << ops::to_string(isa);
            kernels.layer_norm(x.data(), other.data(), size, 1e-5F, y.data());
            EXPECT_TRUE(same_bits(y, centred)) << ops::to_string(isa);
            kernels.geglu(x.data(), other.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, through_gelu)) << ops::to_string(isa);
            kernels.reglu(x.data(), other.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, through_relu)) << ops::to_string(isa);
            kernels.gelu(x.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, exact_gelu)) << ops::to_string(isa);
            kernels.exact_geglu(x.data(), other.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, exact_geglu)) << ops::to_string(isa);
            kernels.scale_row(x.data(), size, 0.7F, 30.0F, y.data());
            EXPECT_TRUE(same_bits(y, scaled)) << ops::to_string(isa);
            std::vector<float> tenfold = other;
            for (float& value : tenfold) value *= 10.0F;
            kernels.clamped_swiglu(x.data(), tenfold.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, clamped)) << ops::to_string(isa);
            kernels.sigmoid_row(x.data(), size, y.data());
            EXPECT_TRUE(same_bits(y, sigmoids)) << ops::to_string(isa);
            kernels.exp_row(x.data(), size, 30.0F, 1.0F, y.data());
            EXPECT_TRUE(same_bits(y, powers)) << ops::to_string(isa);
        }
    }
}

TEST(Numerics, WeightsOfARowOfLogitsAreSummedInPiecesBitByBit) {
    base::Random random(64);
    int seen = 0;
    for (const std::size_t vocab : {1U, 15U, 256U, 300U, 5000U, 65536U, 70001U}) {
        const auto logits = random_floats(random, vocab);
        const float sum = numerics::logit_weights(logits, kPiece);
        for (const ops::Isa isa : machine_isas()) {
            ops::RowReducer reducer(ops::kernels(isa));
            const float got = reducer.reduce(logits, 1, true).sum;
            EXPECT_TRUE(same_bits({&got, 1}, {&sum, 1}))
                << ops::to_string(isa) << ", " << vocab << " tokens";
        }
        if (sum != numerics::logit_weights(logits, kPiece / 2)) ++seen;
    }
    EXPECT_GT(seen, 0) << "another length is not seen";
}

// Flat rows are the worst: every token's weight counts.
TEST(Numerics, TheSumOfALargeVocabularysWeightsIsAccurate) {
    base::Random random(65);
    ops::RowReducer reducer(ops::kernels(ops::best_isa()));
    for (const double scale : {0.01, 1.0, 4.0}) {
        const auto logits = random_floats(random, 262144, scale);
        const float top = *std::max_element(logits.begin(), logits.end());
        double exact = 0;
        for (const float logit : logits)
            exact += std::exp(static_cast<double>(logit) - static_cast<double>(top));
        const auto sum = static_cast<double>(reducer.reduce(logits, 1, true).sum);
        EXPECT_LT(std::abs(sum / exact - 1), 1e-6) << "logits of about " << scale;
    }
}

TEST(Numerics, ExpFallsToZeroAtItsEnd) {
    EXPECT_EQ(numerics::exp_or_zero(0.0F), 1.0F);
    EXPECT_EQ(numerics::exp_or_zero(-88.0F), 0.0F);
    EXPECT_EQ(numerics::exp_or_zero(-std::numeric_limits<float>::infinity()), 0.0F);
}

class AttentionOrder : public testing::TestWithParam<ops::KvType> {};

struct Stored {
    numerics::Cache cache;
    std::vector<std::byte> page;  // one that holds all positions
};

// A head's keys and values, as f32 or as q8 with its scales.
Stored make_cache(base::Random& random, const ops::KvLayout& layout) {
    const auto positions = static_cast<std::size_t>(layout.block_size);
    const auto dim = static_cast<std::size_t>(layout.head_dim);
    Stored s;
    s.cache.head_dim = dim;
    s.page.resize(static_cast<std::size_t>(layout.page_bytes()));
    const auto keys = random_floats(random, positions * dim, 3);
    const auto values = random_floats(random, positions * dim, 3);
    const auto take = [&](const float* x, std::vector<float>& to, std::vector<float>& scales) {
        if (layout.type == ops::KvType::f32) {
            to.insert(to.end(), x, x + dim);
            return;
        }
        float top = 0;
        for (std::size_t d = 0; d < dim; ++d) top = std::max(top, std::abs(x[d]));
        const float inverse = 127.0F / top;
        for (std::size_t d = 0; d < dim; ++d) to.push_back(numerics::nearest_even(x[d] * inverse));
        scales.push_back(top / 127.0F);
    };
    for (std::size_t p = 0; p < positions; ++p) {
        take(keys.data() + p * dim, s.cache.keys, s.cache.key_scales);
        take(values.data() + p * dim, s.cache.values, s.cache.value_scales);
        ops::kv_store(ops::kernels(ops::Isa::portable), layout, 0, keys.data() + p * dim,
                      values.data() + p * dim, static_cast<int>(p), s.page.data());
    }
    return s;
}

TEST_P(AttentionOrder, IsTheDefinitionBitByBit) {
    constexpr int kPositions = 700, kHeads = 5, kDim = 24;
    const ops::KvLayout layout{GetParam(), 1, kDim, kPositions};
    base::Random random(64);
    const Stored stored = make_cache(random, layout);
    const std::byte* page = stored.page.data();
    const auto q = random_floats(random, std::size_t{kHeads} * kDim, 2);
    ThreadPool pool(1);
    for (const int window : {0, 1, 128, 130, 150, 401, 699}) {
        const auto by_definition = [&](std::size_t chunk) {
            std::vector<float> out;
            for (std::size_t head = 0; head < kHeads; ++head) {
                const auto one = numerics::attention(
                    std::span(q).subspan(head * kDim, kDim), stored.cache,
                    static_cast<std::size_t>(window > 0 ? kPositions - window : 0), kPositions,
                    chunk);
                out.insert(out.end(), one.begin(), one.end());
            }
            return out;
        };
        const auto expected = by_definition(kChunk);
        const ops::AttentionRows row[] = {{0, 1, kPositions - 1, &page}};
        for (const ops::Isa isa : machine_isas()) {
            std::vector<float> out(q.size());
            ops::PagedAttention attention;
            attention.run(ops::kernels(isa), pool, layout, {kHeads, window}, row, q.data(),
                          out.data());
            EXPECT_TRUE(same_bits(out, expected)) << ops::to_string(isa) << ", window " << window;
        }
        for (const std::size_t other : {kChunk / 2, 2 * kChunk, std::size_t{kPositions}}) {
            EXPECT_EQ(same_bits(by_definition(other), expected), window == 1)
                << "chunks of " << other << ", window " << window;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, AttentionOrder,
                         testing::Values(ops::KvType::f32, ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

// Heads with sinks below, among and above the scores.
TEST(AttentionOrder, SinksAreOneMoreScoreBitByBit) {
    constexpr int kPositions = 300, kHeads = 6, kDim = 24;
    const ops::KvLayout layout{ops::KvType::f32, 1, kDim, kPositions};
    base::Random random(66);
    const Stored stored = make_cache(random, layout);
    const std::byte* page = stored.page.data();
    const auto q = random_floats(random, std::size_t{kHeads} * kDim, 2);
    const float sinks[kHeads] = {-200, -1, 0, 2.5F, 30, 200};
    std::vector<float> expected;
    for (std::size_t head = 0; head < kHeads; ++head) {
        const auto one = numerics::attention(std::span(q).subspan(head * kDim, kDim), stored.cache,
                                             0, kPositions, kChunk, sinks[head]);
        expected.insert(expected.end(), one.begin(), one.end());
    }
    const ops::AttentionRows row[] = {{0, 1, kPositions - 1, &page}};
    ThreadPool pool(1);
    for (const ops::Isa isa : machine_isas()) {
        std::vector<float> out(q.size());
        ops::PagedAttention attention;
        attention.run(ops::kernels(isa), pool, layout, {kHeads, 0, 0, 0, sinks}, row, q.data(),
                      out.data());
        EXPECT_TRUE(same_bits(out, expected)) << ops::to_string(isa);
    }
}

// A score of minus infinity has no weight, in whichever chunk it is.
TEST(AttentionOrder, AScoreOfMinusInfinityIsLeftOut) {
    constexpr int kPositions = 300, kDim = 8;
    const ops::KvLayout layout{ops::KvType::f32, 1, kDim, kPositions};
    std::vector<std::byte> page(static_cast<std::size_t>(layout.page_bytes()));
    const float infinity = std::numeric_limits<float>::infinity();
    for (int p = 0; p < kPositions; ++p) {
        std::vector<float> key(kDim, 0.0F);
        if (p < 130) key[0] = -infinity;
        const std::vector<float> value(kDim, p < 130 ? 5.0F : 1.0F);
        ops::kv_store(ops::kernels(ops::Isa::portable), layout, 0, key.data(), value.data(), p,
                      page.data());
    }
    const std::byte* table = page.data();
    const std::vector<float> q(kDim, 1.0F);
    const ops::AttentionRows row[] = {{0, 1, kPositions - 1, &table}};
    ThreadPool pool(1);
    for (const ops::Isa isa : machine_isas()) {
        std::vector<float> out(kDim);
        ops::PagedAttention attention;
        attention.run(ops::kernels(isa), pool, layout, {1, 0}, row, q.data(), out.data());
        for (const float value : out) EXPECT_NEAR(value, 1.0F, 1e-6F) << ops::to_string(isa);
    }
}

}  // namespace
}  // namespace helix::engine::test::numerics_test

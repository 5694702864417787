#include "engine/cpu/matmul_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "op_helpers.h"

namespace helix::engine::test::matmul_test {
namespace {

struct Shape {
    std::int64_t outputs, cols, rows;
};

std::int64_t fitting_cols(TensorType type, std::int64_t cols) {
    const std::int64_t block = model::tensor_type_info(type)->block_size;
    // Quantised activations come in blocks of 32 too.
    const std::int64_t step =
        ops::takes_quantised_input(type) ? std::max<std::int64_t>(block, 32) : block;
    return (cols + step - 1) / step * step;
}

ops::PackedMatrix packed(TensorType type, const Shape& shape, const StoredMatrix& stored,
                         ThreadPool& pool) {
    auto matrix = ops::PackedMatrix::pack(type, shape.outputs, shape.cols, stored.bytes, pool);
    EXPECT_TRUE(matrix.ok()) << matrix.error().message;
    return std::move(matrix).value();
}

std::vector<float> product(ops::Isa isa, ThreadPool& pool, const ops::PackedMatrix& matrix,
                           const float* x, std::int64_t rows) {
    std::vector<float> y(static_cast<std::size_t>(rows * matrix.rows()), -7.0F);
    ops::MatmulRows input;
    input.set(x, rows, matrix.cols());
    const ops::MatmulJob job[] = {{&matrix, {y.data(), matrix.rows(), false}}};
    ops::matmul(ops::kernels(isa), pool, input, job);
    return y;
}

class Matmul : public testing::TestWithParam<TensorType> {};

// Against double precision over the dequantised weights. Bound: an activation of a block of 32 with
// greatest magnitude a is off by at most a / 254 when it is quantised; floats round by 2^-24 at
// each of the sums.
TEST_P(Matmul, IsWithinTheQuantisationBoundOfDoublePrecision) {
    const TensorType type = GetParam();
    base::Random random(11);
    ThreadPool pool(2);
    for (Shape shape :
         {Shape{1, 1, 1}, {16, 32, 1}, {17, 64, 2}, {33, 160, 3}, {70, 256, 9}, {130, 768, 5}}) {
        shape.cols = fitting_cols(type, shape.cols);
        const StoredMatrix w = random_matrix(random, type, static_cast<std::size_t>(shape.outputs),
                                             static_cast<std::size_t>(shape.cols));
        const auto x =
            random_floats(random, static_cast<std::size_t>(shape.rows * shape.cols), 3.0);
        const ops::PackedMatrix matrix = packed(type, shape, w, pool);
        const auto y = product(ops::best_isa(), pool, matrix, x.data(), shape.rows);
        for (std::int64_t r = 0; r < shape.rows; ++r) {
            for (std::int64_t o = 0; o < shape.outputs; ++o) {
                double exact = 0, magnitude = 0, quantisation = 0;
                for (std::int64_t b = 0; b < shape.cols; b += 32) {
                    double largest = 0, weights = 0;
                    for (std::int64_t c = b; c < std::min(b + 32, shape.cols); ++c) {
                        const double wv = w.values[static_cast<std::size_t>(o * shape.cols + c)];
                        const double xv = x[static_cast<std::size_t>(r * shape.cols + c)];
                        exact += wv * xv;
                        magnitude += std::abs(wv * xv);
                        weights += std::abs(wv);
                        largest = std::max(largest, std::abs(xv));
                    }
                    quantisation += weights * largest / 254;
                }
                const double rounding =
                    1e-6 + 0x1.0p-24 * static_cast<double>(shape.cols) * magnitude;
                const double bound = ops::takes_quantised_input(type)
                                         ? quantisation * 1.001 + 2e-6 * magnitude + 1e-6
                                         : rounding;
                ASSERT_NEAR(y[static_cast<std::size_t>(r * shape.outputs + o)], exact, bound)
                    << model::tensor_type_info(type)->name << " " << shape.outputs << " x "
                    << shape.cols << ", row " << r << ", output " << o;
            }
        }
    }
}

// Activations that int8 holds exactly leave only float rounding: no error hides behind the bound
// above.
TEST_P(Matmul, IsExactUpToRoundingWhenActivationsNeedNoQuantisation) {
    const TensorType type = GetParam();
    base::Random random(12);
    ThreadPool pool(1);
    const Shape shape{50, 512, 3};
    const StoredMatrix w = random_matrix(random, type, 50, 512);
    std::vector<float> x(3 * 512);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(i % 32 == 5 ? 127 : random.between(-127, 127)) * 0.25F;
    }
    const ops::PackedMatrix matrix = packed(type, shape, w, pool);
    const auto y = product(ops::best_isa(), pool, matrix, x.data(), 3);
    for (std::size_t r = 0; r < 3; ++r) {
        for (std::size_t o = 0; o < 50; ++o) {
            double exact = 0, magnitude = 0;
            for (std::size_t c = 0; c < 512; ++c) {
                const double term = static_cast<double>(w.values[o * 512 + c]) *
                                    static_cast<double>(x[r * 512 + c]);
                exact += term;
                magnitude += std::abs(term);
            }
            ASSERT_NEAR(y[r * 50 + o], exact, 2e-6 * magnitude) << "row " << r << ", output " << o;
        }
    }
}

TEST_P(Matmul, EveryInstructionSetGivesTheSameBits) {
    const TensorType type = GetParam();
    base::Random random(13);
    ThreadPool pool(2);
    Shape shape{83, fitting_cols(type, 300), 13};
    const StoredMatrix w = random_matrix(random, type, 83, static_cast<std::size_t>(shape.cols));
    const auto x = random_floats(random, static_cast<std::size_t>(shape.rows * shape.cols), 2.0);
    const ops::PackedMatrix matrix = packed(type, shape, w, pool);
    const auto expected = product(ops::Isa::portable, pool, matrix, x.data(), shape.rows);
    for (const ops::Isa isa : machine_isas()) {
        EXPECT_TRUE(same_bits(product(isa, pool, matrix, x.data(), shape.rows), expected))
            << ops::to_string(isa);
    }
}

TEST_P(Matmul, ARowDoesNotDependOnTheOthersNorOnTheThreads) {
    const TensorType type = GetParam();
    base::Random random(14);
    ThreadPool one(1), three(3);
    Shape shape{1030, fitting_cols(type, 300), 21};
    const StoredMatrix w = random_matrix(random, type, 1030, static_cast<std::size_t>(shape.cols));
    const auto x = random_floats(random, static_cast<std::size_t>(shape.rows * shape.cols), 2.0);
    const ops::PackedMatrix matrix = packed(type, shape, w, three);
    for (const ops::Isa isa : machine_isas()) {
        const auto together = product(isa, three, matrix, x.data(), shape.rows);
        for (std::int64_t r = 0; r < shape.rows; ++r) {
            const auto alone = product(isa, one, matrix, x.data() + r * shape.cols, 1);
            const auto row = std::span(together).subspan(static_cast<std::size_t>(r * 1030), 1030);
            ASSERT_TRUE(same_bits(alone, row)) << ops::to_string(isa) << ", row " << r;
        }
        for (const std::int64_t cut : {1, 4, 6, 16}) {
            const auto head = product(isa, one, matrix, x.data(), cut);
            ASSERT_TRUE(same_bits(head, std::span(together).first(head.size()))) << cut << " rows";
        }
    }
}

TEST_P(Matmul, AccumulateAddsToWhatIsThere) {
    const TensorType type = GetParam();
    base::Random random(15);
    ThreadPool pool(1);
    Shape shape{37, fitting_cols(type, 64), 5};
    const StoredMatrix w = random_matrix(random, type, 37, static_cast<std::size_t>(shape.cols));
    const auto x = random_floats(random, static_cast<std::size_t>(shape.rows * shape.cols));
    const ops::PackedMatrix matrix = packed(type, shape, w, pool);
    const auto plain = product(ops::best_isa(), pool, matrix, x.data(), 5);
    auto sums = random_floats(random, plain.size());
    auto expected = sums;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += plain[i];
    ops::MatmulRows input;
    input.set(x.data(), 5, shape.cols);
    const ops::MatmulJob job[] = {{&matrix, {sums.data(), 37, true}}};
    ops::matmul(ops::kernels(ops::best_isa()), pool, input, job);
    EXPECT_TRUE(same_bits(sums, expected));
}

TEST_P(Matmul, ANotANumberInARowComesOutOfThatRowAlone) {
    const TensorType type = GetParam();
    base::Random random(16);
    ThreadPool pool(1);
    Shape shape{20, fitting_cols(type, 64), 3};
    const StoredMatrix w = random_matrix(random, type, 20, static_cast<std::size_t>(shape.cols));
    auto x = random_floats(random, static_cast<std::size_t>(shape.rows * shape.cols));
    x[static_cast<std::size_t>(shape.cols + 40)] = std::numeric_limits<float>::quiet_NaN();
    const ops::PackedMatrix matrix = packed(type, shape, w, pool);
    for (const ops::Isa isa : machine_isas()) {
        const auto y = product(isa, pool, matrix, x.data(), 3);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
    }
}

std::string type_name(const testing::TestParamInfo<TensorType>& info) {
    return model::tensor_type_info(info.param)->name;
}
INSTANTIATE_TEST_SUITE_P(Types, Matmul, testing::ValuesIn(types_of_kernels()), type_name);

// Writes a scale of one (and a min of one) wherever the blocks have it.
void set_scales_to_one(TensorType type, std::vector<std::byte>& bytes) {
    const auto block = static_cast<std::size_t>(model::tensor_type_info(type)->block_bytes);
    std::size_t at = 0;
    if (type == TensorType::q6_k) at = 208;
    if (type == TensorType::q3_k) at = 108;
    if (type == TensorType::q2_k) at = 80;
    if (type == TensorType::tq1_0) at = 52;
    if (type == TensorType::tq2_0) at = 64;
    const bool has_min = type == TensorType::q4_1 || type == TensorType::q5_1 ||
                         type == TensorType::q4_k || type == TensorType::q5_k ||
                         type == TensorType::q2_k;
    for (std::size_t b = 0; b < bytes.size(); b += block) {
        if (type == TensorType::mxfp4) {
            bytes[b] = std::byte{128};
            continue;
        }
        if (type == TensorType::iq1_m) {  // four bits of it in each of four shorts
            const unsigned bits[] = {0x00, 0x00, 0xc0, 0x30};
            for (std::size_t i = 0; i < 4; ++i) {
                std::byte& upper = bytes[b + 49 + 2 * i];
                upper = (upper & std::byte{15}) | static_cast<std::byte>(bits[i]);
            }
            continue;
        }
        if (type == TensorType::nvfp4) {
            std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(b), 4, std::byte{0x38});
            continue;
        }
        for (std::size_t i = 0; i < (has_min ? 4U : 2U); i += 2) {  // 0x3c00: a half 1.0
            bytes[b + at + i] = std::byte{0x00};
            bytes[b + at + i + 1] = std::byte{0x3c};
        }
    }
}

// Before that is added to what is there, and rounded of itself.
TEST(MatmulFactors, MultiplyWhatIsSummed) {
    base::Random random(17);
    ThreadPool pool(2);
    for (const TensorType type : {TensorType::f32, TensorType::q8_0, TensorType::nvfp4}) {
        const Shape shape{20, 320, 19};
        const StoredMatrix w = random_matrix(random, type, 20, 320);
        const auto x = random_floats(random, 19 * 320);
        const ops::PackedMatrix matrix = packed(type, shape, w, pool);
        for (const ops::Isa isa : machine_isas()) {
            const auto sums = product(isa, pool, matrix, x.data(), shape.rows);
            std::vector<float> y(sums.size(), 3.0F);
            ops::MatmulRows input;
            input.set(x.data(), shape.rows, shape.cols);
            const ops::MatmulJob job[] = {{&matrix, {y.data(), shape.outputs, true, 0.37F}}};
            ops::matmul(ops::kernels(isa), pool, input, job);
            for (std::size_t i = 0; i < y.size(); ++i) {
                const float multiplied = 0.37F * sums[i];
                ASSERT_EQ(y[i], 3.0F + multiplied) << to_string(isa) << ", output " << i;
            }
        }
    }
}

// The extremes of the integer formats: every byte value against +-127, where a 16-bit sum would
// saturate.
TEST(MatmulExtremes, NoIntegerSumOverflows) {
    ThreadPool pool(1);
    for (const TensorType type : kAllTypes) {
        if (!ops::takes_quantised_input(type)) continue;
        const auto block = static_cast<std::size_t>(model::tensor_type_info(type)->block_bytes);
        const auto block_cols = static_cast<std::size_t>(model::tensor_type_info(type)->block_size);
        for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {
            StoredMatrix w;
            w.bytes.assign(16 * 256 / block_cols * block, static_cast<std::byte>(fill));
            set_scales_to_one(type, w.bytes);
            w.values.resize(16 * 256);
            model::dequantize_row(type, w.bytes, w.values.data());
            const ops::PackedMatrix matrix = packed(type, {16, 256, 1}, w, pool);
            for (const float sign : {-127.0F, 127.0F}) {
                const std::vector<float> x(256, sign);
                double exact = 0;
                for (std::size_t c = 0; c < 256; ++c)
                    exact += static_cast<double>(w.values[c]) * static_cast<double>(sign);
                for (const ops::Isa isa : machine_isas()) {
                    const auto y = product(isa, pool, matrix, x.data(), 1);
                    EXPECT_NEAR(y[0], exact, 1e-6 * std::abs(exact))
                        << model::tensor_type_info(type)->name << " filled with " << fill << " on "
                        << to_string(isa);
                }
            }
        }
    }
}

// However little there is to do, so that a row has the same bits alone and in a large batch.
TEST(MatmulExtremes, AProductBelowTheLeastNormalNumberIsZero) {
    ThreadPool pool(2);
    StoredMatrix w;
    w.values.assign(16 * 32, 1e-20F);
    w.bytes.resize(w.values.size() * sizeof(float));
    std::memcpy(w.bytes.data(), w.values.data(), w.bytes.size());
    const ops::PackedMatrix matrix = packed(TensorType::f32, {16, 32, 1}, w, pool);
    const std::vector<float> x(32, 1e-20F);
    for (const ops::Isa isa : machine_isas()) {
        EXPECT_EQ(product(isa, pool, matrix, x.data(), 1), std::vector<float>(16, 0.0F))
            << to_string(isa);
    }
}

// Large enough for huge pages, small enough to share one.
TEST(PackedMatrix, MatricesOfOneMemoryLieOneAfterTheOtherAndGoAlone) {
    constexpr Shape kShape{512, 512, 3};
    base::Random random(21);
    ThreadPool pool(2);
    const std::int64_t bytes =
        ops::PackedMatrix::packed_bytes(TensorType::q8_0, kShape.outputs, kShape.cols);
    auto memory = ops::MatrixMemory::allocate(3 * bytes);
    ASSERT_TRUE(memory.ok());
    std::vector<StoredMatrix> stored;
    std::vector<ops::PackedMatrix> matrices;
    for (int i = 0; i < 4; ++i) {
        stored.push_back(random_matrix(random, TensorType::q8_0, 512, 512));
        auto matrix = ops::PackedMatrix::pack(TensorType::q8_0, kShape.outputs, kShape.cols,
                                              stored.back().bytes, pool, *memory);
        ASSERT_TRUE(matrix.ok()) << matrix.error().message;
        matrices.push_back(std::move(*matrix));
    }
    const std::byte* first = matrices[0].panel(0);
    EXPECT_EQ(matrices[1].panel(0), first + bytes);
    EXPECT_EQ(matrices[2].panel(0), first + 2 * bytes);
    const auto outside = [&](const std::byte* at) { return at < first || at >= first + 3 * bytes; };
    EXPECT_TRUE(outside(matrices[3].panel(0))) << "there was room for three";

    // The one between the others goes, and its pages with it.
    matrices[1] = {};
    memory->reset();
    const std::vector<std::byte> zeros(static_cast<std::size_t>(bytes - 2 * 4096));
    EXPECT_EQ(std::memcmp(first + bytes + 4096, zeros.data(), zeros.size()), 0);
    const auto x = random_floats(random, static_cast<std::size_t>(kShape.rows * kShape.cols), 3.0);
    for (const std::size_t left : {0U, 2U, 3U}) {
        const auto alone = packed(TensorType::q8_0, kShape, stored[left], pool);
        EXPECT_EQ(product(ops::best_isa(), pool, matrices[left], x.data(), kShape.rows),
                  product(ops::best_isa(), pool, alone, x.data(), kShape.rows))
            << "matrix " << left;
    }
}

TEST(PackedMatrix, RefusesAShapeThatIsNotWholeBlocksAndAWrongSize) {
    ThreadPool pool(1);
    const std::vector<std::byte> data(34 * 3);
    const auto odd = ops::PackedMatrix::pack(TensorType::q8_0, 3, 33, data, pool);
    ASSERT_FALSE(odd.ok());
    EXPECT_NE(odd.error().message.find("blocks of 32"), std::string::npos) << odd.error().message;
    const auto small = ops::PackedMatrix::pack(TensorType::q8_0, 4, 32, data, pool);
    ASSERT_FALSE(small.ok());
    EXPECT_NE(small.error().message.find("136 bytes expected, 102 found"), std::string::npos)
        << small.error().message;
}

}  // namespace
}  // namespace helix::engine::test::matmul_test

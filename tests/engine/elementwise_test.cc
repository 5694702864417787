// RMSNorm, SwiGLU, exp, quantisation of activations and rope against double precision.

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "engine/cpu/rope_cpu.h"
#include "engine/ops/rope.h"
#include "op_helpers.h"

namespace helix::engine::test::elementwise_test {
namespace {

constexpr std::size_t kSizes[] = {1, 5, 16, 31, 64, 172, 2048};

class OnIsa : public testing::TestWithParam<ops::Isa> {
  protected:
    const ops::Kernels& kernels_ = ops::kernels(GetParam());
    const ops::Kernels& portable_ = ops::kernels(ops::Isa::portable);
};

using Elementwise = OnIsa;

TEST_P(Elementwise, RmsNormEqualsTheFormula) {
    base::Random random(21);
    for (const std::size_t n : kSizes) {
        const auto x = random_floats(random, n, 5);
        const auto weight = random_floats(random, n);
        std::vector<float> y(n), same(n);
        kernels_.rms_norm(x.data(), weight.data(), static_cast<std::int64_t>(n), 1e-5F, y.data());
        double squares = 0;
        for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
        const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        for (std::size_t i = 0; i < n; ++i) {
            const double exact =
                static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]);
            ASSERT_NEAR(y[i], exact, 2e-6 * std::abs(exact)) << n << ", " << i;
        }
        portable_.rms_norm(x.data(), weight.data(), static_cast<std::int64_t>(n), 1e-5F,
                           same.data());
        EXPECT_TRUE(same_bits(y, same)) << n;
    }
}

TEST_P(Elementwise, SwigluEqualsTheFormula) {
    base::Random random(22);
    for (const std::size_t n : kSizes) {
        const auto gate = random_floats(random, n, 20);
        const auto up = random_floats(random, n);
        std::vector<float> y(n), same(n);
        kernels_.swiglu(gate.data(), up.data(), static_cast<std::int64_t>(n), y.data());
        for (std::size_t i = 0; i < n; ++i) {
            const double g = static_cast<double>(gate[i]);
            const double exact = g / (1 + std::exp(-g)) * static_cast<double>(up[i]);
            ASSERT_NEAR(y[i], exact, 1e-6 * std::abs(exact) + 1e-30) << gate[i] << " * " << up[i];
        }
        portable_.swiglu(gate.data(), up.data(), static_cast<std::int64_t>(n), same.data());
        EXPECT_TRUE(same_bits(y, same)) << n;
        auto in_place = gate;
        kernels_.swiglu(in_place.data(), up.data(), static_cast<std::int64_t>(n), in_place.data());
        EXPECT_TRUE(same_bits(in_place, y));
    }
}

TEST_P(Elementwise, LayerNormGegluAndCapsEqualTheirFormulas) {
    base::Random random(24);
    for (const std::size_t n : kSizes) {
        const auto size = static_cast<std::int64_t>(n);
        const auto x = random_floats(random, n, 5);
        const auto other = random_floats(random, n);
        std::vector<float> normed(n), gated(n), capped(n), same(n);
        kernels_.layer_norm(x.data(), other.data(), size, 1e-5F, normed.data());
        kernels_.geglu(x.data(), other.data(), size, gated.data());
        kernels_.scale_row(x.data(), size, 2.0F, 3.0F, capped.data());
        double mean = 0, squares = 0;
        for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
        for (const float v : x) squares += std::pow(static_cast<double>(v) - mean, 2);
        const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        for (std::size_t i = 0; i < n; ++i) {
            const auto v = static_cast<double>(x[i]), w = static_cast<double>(other[i]);
            ASSERT_NEAR(normed[i], (v - mean) * factor * w, 1e-5) << n << ", " << i;
            const double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
            const double exact = v / 2 * (1 + std::tanh(inner)) * w;
            ASSERT_NEAR(gated[i], exact, 1e-6 * std::abs(exact) + 1e-6) << v;
            ASSERT_NEAR(capped[i], 3 * std::tanh(2 * v / 3), 2e-6) << v;
        }
        portable_.layer_norm(x.data(), other.data(), size, 1e-5F, same.data());
        EXPECT_TRUE(same_bits(normed, same)) << n;
        portable_.geglu(x.data(), other.data(), size, same.data());
        EXPECT_TRUE(same_bits(gated, same)) << n;
        portable_.scale_row(x.data(), size, 2.0F, 3.0F, same.data());
        EXPECT_TRUE(same_bits(capped, same)) << n;
    }
}

// The greatest errors are where exp is of large arguments, and the values are small.
TEST_P(Elementwise, GeluIsThatOfTheErrorFunctionEverywhere) {
    std::vector<float> x;
    for (int i = -20 * 256; i <= 20 * 256; ++i) x.push_back(static_cast<float>(i) / 256.0F);
    std::vector<float> y(x.size());
    kernels_.gelu(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto v = static_cast<double>(x[i]);
        const double exact = v / 2 * std::erfc(-v / M_SQRT2);
        ASSERT_NEAR(y[i], exact, 5e-6 * std::abs(exact) + 1e-30) << x[i];
        if (std::abs(v) < 3) {
            ASSERT_NEAR(y[i], exact, 1e-6 * std::abs(exact) + 1e-30) << x[i];
        }
    }
}

TEST_P(Elementwise, TanhIsAccurateEverywhere) {
    std::vector<float> x;
    for (int i = -12 * 256; i <= 12 * 256; ++i) x.push_back(static_cast<float>(i) / 256.0F);
    std::vector<float> y(x.size());
    kernels_.scale_row(x.data(), static_cast<std::int64_t>(x.size()), 1.0F, 1.0F, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::tanh(static_cast<double>(x[i]));
        ASSERT_NEAR(y[i], exact, 4e-7 * std::abs(exact)) << x[i];
        ASSERT_LE(std::abs(y[i]), 1.0F) << x[i];
    }
}

TEST_P(Elementwise, ExpIsAccurateToTwoUnitsAndZeroFarBelow) {
    std::vector<float> x;
    for (int i = 0; i <= 87 * 64; ++i) x.push_back(static_cast<float>(-i) / 64.0F);
    x.insert(x.end(), {-87.4F, -100.0F, -1e30F});
    std::vector<float> y(x.size());
    kernels_.exp_row(x.data(), static_cast<std::int64_t>(x.size()), 0.0F, 1.0F, y.data());
    for (std::size_t i = 0; i + 3 < x.size(); ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        ASSERT_NEAR(y[i], exact, 2.4e-7 * exact + 2.4e-38) << x[i];
    }
    for (std::size_t i = x.size() - 3; i < x.size(); ++i) EXPECT_EQ(y[i], 0.0F) << x[i];
    EXPECT_EQ(y[0], 1.0F);
    const float three = 3.0F;
    kernels_.exp_row(&three, 1, 4.0F, 0.5F, y.data());
    EXPECT_NEAR(y[0], std::exp(-0.5), 1e-7);
}

TEST_P(Elementwise, NotANumberIsPassedOn) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> x{1.0F, nan, 2.0F};
    const std::vector<float> one{1.0F, 1.0F, 1.0F};
    std::vector<float> y(3);
    kernels_.swiglu(x.data(), one.data(), 3, y.data());
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[2]));
    kernels_.exp_row(x.data(), 3, 0.0F, 1.0F, y.data());
    EXPECT_TRUE(std::isnan(y[1]));
    kernels_.rms_norm(x.data(), one.data(), 3, 1e-5F, y.data());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[2]));
}

TEST_P(Elementwise, QuantisationIsWithinHalfAStep) {
    base::Random random(23);
    const std::size_t n = 32 * 40;
    auto x = random_floats(random, n, 3);
    std::fill(x.begin(), x.begin() + 32, 0.0F);
    x[64] = std::numeric_limits<float>::infinity();
    x[96] = std::numeric_limits<float>::quiet_NaN();
    std::fill(x.begin() + 128, x.begin() + 160, 1e-38F);
    std::vector<ops::QuantisedBlock> blocks(n / 32), same(n / 32);
    kernels_.quantise_row(x.data(), n, blocks.data());
    portable_.quantise_row(x.data(), n, same.data());
    EXPECT_EQ(std::memcmp(blocks.data(), same.data(), n / 32 * sizeof same[0]), 0);
    EXPECT_TRUE(std::isnan(blocks[2].scale) && std::isnan(blocks[3].scale));
    EXPECT_EQ(blocks[0].scale, 0.0F);
    EXPECT_EQ(blocks[4].scale, 0.0F);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        const ops::QuantisedBlock& block = blocks[b];
        const double step = static_cast<double>(block.scale);
        std::int32_t sums[2] = {0, 0};
        for (std::size_t i = 0; i < 32; ++i) {
            sums[i / 16] += block.q[i];
            if (b == 2 || b == 3) continue;
            EXPECT_NEAR(block.q[i] * step, x[32 * b + i], 0.5001 * step + 1e-30) << b << ", " << i;
            EXPECT_LE(std::abs(block.q[i]), 127);
        }
        EXPECT_EQ(block.minus_sum, -sums[0] - sums[1]);
        EXPECT_EQ(block.minus_upper_sum, -sums[1]);
        if (b == 2 || b == 3) continue;
        EXPECT_EQ(block.scaled_sum, block.scale * static_cast<float>(sums[0] + sums[1]));
    }
}

TEST_P(Elementwise, HalvesRoundToNearestEven) {
    base::Random random(24);
    std::vector<float> x = random_floats(random, 1000, 30);
    for (const float special : {65504.0F, 65519.9F, 65520.0F, 1e9F, 6e-8F, 2.9e-8F, 3.1e-5F, -0.0F,
                                1.00048828125F, 1.00146484375F}) {
        x.push_back(special);
        x.push_back(-special);
    }
    std::vector<std::uint16_t> y(x.size()), same(x.size());
    kernels_.to_half(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    portable_.to_half(x.data(), static_cast<std::int64_t>(x.size()), same.data());
    EXPECT_EQ(y, same);
}

std::string isa_name(const testing::TestParamInfo<ops::Isa>& info) {
    return ops::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Isas, Elementwise, testing::ValuesIn(machine_isas()), isa_name);

class Rope : public testing::TestWithParam<model::RopePairs> {};

TEST_P(Rope, RotatesPairsByTheAngleOfTheirFrequency) {
    const bool adjacent = GetParam() == model::RopePairs::adjacent;
    model::ModelConfig config;
    config.head_dim = 20;
    config.rope_dim = 16;
    config.rope_base = 50000;
    config.rope_scale = 0.25F;
    config.rope_magnitude = 1.5F;
    config.rope_factors = {1, 1, 1.5F, 2, 4, 8, 8, 8};
    base::Random random(25);
    const ops::RopeTable angles(config);
    for (const std::int32_t position : {0, 1, 7, 1000, 131071}) {
        const auto before = random_floats(random, 3 * 20);
        auto after = before;
        std::vector<float> table(16);
        angles.fill(position, table);
        ops::rope_row(table, GetParam(), 3, 20, after.data());
        for (std::size_t head = 0; head < 3; ++head) {
            for (std::size_t i = 0; i < 8; ++i) {
                const double angle = position * 0.25 *
                                     std::pow(50000.0, -2.0 * static_cast<double>(i) / 16.0) /
                                     static_cast<double>(config.rope_factors[i]);
                const std::size_t first = head * 20 + (adjacent ? 2 * i : i);
                const std::size_t second = first + (adjacent ? 1 : 8);
                const double a = 1.5 * static_cast<double>(before[first]);
                const double b = 1.5 * static_cast<double>(before[second]);
                EXPECT_NEAR(after[first], a * std::cos(angle) - b * std::sin(angle), 3e-6);
                EXPECT_NEAR(after[second], a * std::sin(angle) + b * std::cos(angle), 3e-6);
            }
            for (std::size_t i = 16; i < 20; ++i)
                EXPECT_EQ(after[head * 20 + i], before[head * 20 + i]);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Pairs, Rope,
                         testing::Values(model::RopePairs::adjacent, model::RopePairs::halves),
                         [](const auto& given) {
                             return given.param == model::RopePairs::adjacent ? "adjacent"
                                                                              : "halves";
                         });

}  // namespace
}  // namespace helix::engine::test::elementwise_test

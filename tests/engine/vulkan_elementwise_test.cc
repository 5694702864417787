// Norms, gates, sums, factors and caps, rope and copies of rows on a Vulkan device: the CPU
// device's bits.

#include <cmath>

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_elementwise_test {
namespace {

using VulkanElementwise = VulkanTest;

constexpr proof::WidthCase kShapes[] = {{1, 1},  {1, 16},  {3, 5},    {2, 31},
                                        {7, 64}, {5, 172}, {2, 2048}, {9, 14592}};

TEST_F(VulkanElementwise, RmsNorm) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(same_values(proof::rms_norm_values(*vulkan_, c, 71),
                                proof::rms_norm_values(*cpu_, c, 71)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, Swiglu) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(
            same_values(proof::swiglu_values(*vulkan_, c, 72), proof::swiglu_values(*cpu_, c, 72)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, LayerNorm) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(same_values(proof::layer_norm_values(*vulkan_, c, 76),
                                proof::layer_norm_values(*cpu_, c, 76)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, GegluRegluAndGelu) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(
            same_values(proof::gelu_values(*vulkan_, c, 77), proof::gelu_values(*cpu_, c, 77)))
            << c.rows << " x " << c.width;
        EXPECT_TRUE(
            same_values(proof::reglu_values(*vulkan_, c, 77), proof::reglu_values(*cpu_, c, 77)))
            << c.rows << " x " << c.width;
        EXPECT_TRUE(same_values(proof::exact_geglu_values(*vulkan_, c, 77),
                                proof::exact_geglu_values(*cpu_, c, 77)))
            << c.rows << " x " << c.width;
        EXPECT_TRUE(
            same_values(proof::geglu_values(*vulkan_, c, 77), proof::geglu_values(*cpu_, c, 77)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, ClampedSwigluAndBiases) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(same_values(proof::clamped_swiglu_values(*vulkan_, c, 79),
                                proof::clamped_swiglu_values(*cpu_, c, 79)))
            << c.rows << " x " << c.width;
        EXPECT_TRUE(same_values(proof::add_bias_values(*vulkan_, c, 80),
                                proof::add_bias_values(*cpu_, c, 80)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, ScaleRows) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(same_values(proof::scale_rows_values(*vulkan_, c, 78),
                                proof::scale_rows_values(*cpu_, c, 78)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, AddRows) {
    for (const proof::WidthCase& c : kShapes) {
        EXPECT_TRUE(same_values(proof::add_rows_values(*vulkan_, c, 75),
                                proof::add_rows_values(*cpu_, c, 75)))
            << c.rows << " x " << c.width;
    }
}

TEST_F(VulkanElementwise, RopeWithBiasAndNorm) {
    constexpr auto kAdjacent = model::RopePairs::adjacent;
    constexpr auto kHalves = model::RopePairs::halves;
    constexpr proof::RopeCase kCases[] = {
        {1, 1, 8, 8, false, false, true, kAdjacent},  {3, 2, 20, 12, true, false, true, kHalves},
        {5, 4, 64, 64, false, true, true, kHalves},   {2, 3, 128, 64, true, true, true, kAdjacent},
        {2, 3, 96, 96, true, true, false, kAdjacent},
    };
    for (const proof::RopeCase& c : kCases) {
        EXPECT_TRUE(
            same_values(proof::rope_values(*vulkan_, c, 73), proof::rope_values(*cpu_, c, 73)))
            << c.rows << " x " << c.head_dim;
    }
}

TEST_F(VulkanElementwise, CopiesOfRowsLeaveTheOthers) {
    const proof::WidthCase c{6, 5};
    EXPECT_TRUE(same_values(proof::copy_rows_values(*vulkan_, c, 74),
                            proof::copy_rows_values(*cpu_, c, 74)));
}

TEST_F(VulkanElementwise, ManyOperatorsTakeEffectInTheirOrder) {
    base::Random random(75);
    const auto x = random_floats(random, 64);
    const auto weight = random_floats(random, 64);
    const auto on = [&](Device& device) {
        const auto to = make(device, x);
        const auto by = make(device, weight);
        for (int i = 0; i < 1500; ++i) {
            device.rms_norm({*to, *by, *to, 1, 64, 1e-5F});
            if (i % 100 == 7) CHECK(device.write(*to, i % 64, std::vector<float>{0.25F}).ok());
        }
        return values_of(device, *to);
    };
    EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_)));
}

TEST_F(VulkanElementwise, LargeWritesComeBackWhole) {
    base::Random random(76);
    const auto x = random_floats(random, 5'000'000);  // more than a batch stages, and than a read
    const auto buffer = make(*vulkan_, x);
    EXPECT_TRUE(same_bits(values_of(*vulkan_, *buffer), x));
    const auto part = vulkan_->read(*buffer, 1'234'567, 3);
    ASSERT_TRUE(part.ok());
    EXPECT_TRUE(same_bits(*part, std::span(x).subspan(1'234'567, 3)));
}

}  // namespace
}  // namespace helix::engine::test::vulkan_elementwise_test

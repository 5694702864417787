// RMS norm, SwiGLU, rope and copies of rows on a Vulkan device: the CPU device's bits.

#include <cmath>

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_elementwise_test {
namespace {

using VulkanElementwise = VulkanTest;

struct Shape {
    std::int64_t rows, width;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 16}, {3, 5}, {2, 31}, {7, 64}, {5, 172}, {2, 2048}};

TEST_F(VulkanElementwise, RmsNorm) {
    base::Random random(71);
    for (const Shape& shape : kShapes) {
        const std::int64_t rows = shape.rows;
        const std::int64_t width = shape.width;
        const auto x = random_floats(random, base::size_of(rows * width), 5);
        const auto weight = random_floats(random, base::size_of(width));
        const auto on = [&](Device& device) {
            const auto from = make(device, x);
            const auto by = make(device, weight);
            const auto to = poisoned(device, rows * width);
            device.rms_norm({*from, *by, *to, rows, width, 1e-5F});
            device.rms_norm({*from, *by, *from, rows, width, 1e-5F});  // in place
            auto both = values_of(device, *to);
            const auto in_place = values_of(device, *from);
            both.insert(both.end(), in_place.begin(), in_place.end());
            return both;
        };
        EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_))) << rows << " x " << width;
    }
}

TEST_F(VulkanElementwise, Swiglu) {
    base::Random random(72);
    for (const Shape& shape : kShapes) {
        const std::int64_t rows = shape.rows;
        const std::int64_t width = shape.width;
        auto gate = random_floats(random, base::size_of(rows * width), 20);
        if (gate.size() > 8) {
            gate[1] = 90;
            gate[2] = -95;
            gate[3] = -0.0F;
            gate[4] = std::numeric_limits<float>::infinity();
            gate[5] = -std::numeric_limits<float>::infinity();
            gate[6] = std::numeric_limits<float>::quiet_NaN();
        }
        const auto up = random_floats(random, base::size_of(rows * width));
        const auto on = [&](Device& device) {
            const auto to = make(device, gate);
            device.swiglu({*to, *make(device, up), rows, width});
            return values_of(device, *to);
        };
        EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_))) << rows << " x " << width;
    }
}

struct RopeShape {
    std::int64_t rows;
    int n_heads, head_dim, rope_dim;
    bool bias, norm, rotate;
    model::RopePairs pairs;
};
constexpr RopeShape kRopes[] = {
    {1, 1, 8, 8, false, false, true, model::RopePairs::adjacent},
    {3, 2, 20, 12, true, false, true, model::RopePairs::halves},
    {5, 4, 64, 64, false, true, true, model::RopePairs::halves},
    {2, 3, 128, 64, true, true, true, model::RopePairs::adjacent},
    {2, 3, 96, 96, true, true, false, model::RopePairs::adjacent},
};

TEST_F(VulkanElementwise, RopeWithBiasAndNorm) {
    base::Random random(73);
    for (const RopeShape& s : kRopes) {
        const auto width = base::size_of(std::int64_t{s.n_heads} * s.head_dim);
        const auto x = random_floats(random, base::size_of(s.rows) * width);
        const auto bias = random_floats(random, width);
        const auto norm = random_floats(random, base::size_of(s.head_dim));
        const auto angles = random_floats(random, base::size_of(s.rows * s.rope_dim));
        const auto on = [&](Device& device) {
            const auto heads = make(device, x);
            const auto biases = make(device, bias);
            const auto norms = make(device, norm);
            const auto table = make(device, angles);
            const ops::ProjectedHeads of[] = {{*heads, s.n_heads, s.bias ? biases.get() : nullptr,
                                               s.norm ? norms.get() : nullptr, s.rotate}};
            device.rope({of, *table, s.rows, s.head_dim, s.rope_dim, s.pairs, 1e-6F});
            return values_of(device, *heads);
        };
        EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_))) << s.rows << " x " << s.head_dim;
    }
}

TEST_F(VulkanElementwise, CopiesOfRowsLeaveTheOthers) {
    base::Random random(74);
    const auto x = random_floats(random, 6 * 5);
    const ops::RowRange ranges[] = {{0, 3, 2}, {4, 0, 1}, {5, 6, 1}, {2, 2, 0}};
    const auto on = [&](Device& device) {
        const auto from = make(device, x);
        const auto to = make(device, std::vector<float>(7 * 5, 42.0F));
        device.copy_rows({*from, *to, 5, ranges});
        return values_of(device, *to);
    };
    EXPECT_TRUE(same_floats(on(*vulkan_), on(*cpu_)));
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

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
    for (const auto [rows, width] : kShapes) {
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
    for (const auto [rows, width] : kShapes) {
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

}  // namespace
}  // namespace helix::engine::test::vulkan_elementwise_test

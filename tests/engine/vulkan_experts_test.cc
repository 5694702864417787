// The steps of a mixture of experts around its matrices, on a Vulkan device.

#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_experts_test {
namespace {

using VulkanExperts = VulkanTest;

// What the visits add up to: which experts, in which order, with which weights.
std::vector<float> routed(Device& device, std::span<const float> scores, std::span<const float> x,
                          std::int64_t rows, int n_experts, int n_used, bool normalise) {
    constexpr std::int64_t kWidth = 37;
    const auto score = device.make_buffer(std::ssize(scores));
    CHECK(score.ok() && device.write(**score, 0, scores).ok());
    const auto from = device.make_buffer(std::ssize(x));
    CHECK(from.ok() && device.write(**from, 0, x).ok());
    const auto visits = device.make_buffer(rows * n_used * kWidth);
    CHECK(visits.ok());
    const auto routing = device.make_routing();
    device.route_rows({**score, rows, n_experts, n_used, normalise, *routing});
    device.gather_visits({*routing, **from, **visits, kWidth});
    device.add_visits({*routing, **visits, **from, kWidth});
    std::vector<float> all;
    for (const auto* buffer : {visits->get(), from->get()}) {
        const auto read = device.read(*buffer, 0, buffer->size());
        CHECK(read.ok());
        all.insert(all.end(), read->begin(), read->end());
    }
    return all;
}

TEST_F(VulkanExperts, RowsVisitTheSameExpertsInTheSameOrder) {
    base::Random random(91);
    const std::tuple<std::int64_t, int, int> shapes[] = {{1, 4, 1}, {7, 8, 2}, {33, 60, 6}};
    for (const auto& [rows, n_experts, n_used] : shapes) {
        for (const bool normalise : {false, true}) {
            auto scores = random_floats(random, base::size_of(rows * n_experts), 3);
            for (float& score : scores) {
                if (random.chance(0.2)) score = 0.5F;  // ties
                if (random.chance(0.02)) score = std::numeric_limits<float>::quiet_NaN();
            }
            const auto x = random_floats(random, base::size_of(rows * 37));
            EXPECT_TRUE(same_floats(routed(*vulkan_, scores, x, rows, n_experts, n_used, normalise),
                                    routed(*cpu_, scores, x, rows, n_experts, n_used, normalise)))
                << rows << " rows, " << n_used << " of " << n_experts;
        }
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_experts_test

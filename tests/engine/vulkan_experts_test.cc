// The steps of a mixture of experts around its matrices, on a Vulkan device.

#include <gtest/gtest.h>

#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_experts_test {
namespace {

using VulkanExperts = VulkanTest;

TEST_F(VulkanExperts, RowsVisitTheSameExpertsInTheSameOrder) {
    for (const bool normalise : {false, true}) {
        for (const proof::RoutingCase& c :
             {proof::RoutingCase{1, 4, 1, normalise}, proof::RoutingCase{7, 8, 2, normalise},
              proof::RoutingCase{33, 60, 6, normalise},
              proof::RoutingCase{33, 60, 6, normalise, true},
              proof::RoutingCase{33, 60, 6, normalise, false, true},
              proof::RoutingCase{33, 60, 2, normalise, true, false, true}}) {
            EXPECT_TRUE(same_values(proof::routing_values(*vulkan_, c, 91),
                                    proof::routing_values(*cpu_, c, 91)))
                << c.rows << " rows, " << c.n_used << " of " << c.n_experts;
        }
    }
}

// As Llama 4 chooses: its sigmoids round to one from scores of 17 on.
TEST_F(VulkanExperts, OfScoresWhoseSigmoidsAreEqualTheGreatestIsChosen) {
    for (Device* device : {cpu_.get(), vulkan_.get()}) {
        const auto scores = make(*device, std::vector<float>{20, 30, 25, -2, -1, -3});
        const auto factors = make(*device, std::vector<float>{2, 3, 4});
        const auto x = make(*device, std::vector<float>{1, 10});
        const auto visits = poisoned(*device, 2), sums = poisoned(*device, 2);
        const std::unique_ptr<Routing> routing = device->make_routing();
        device->route_rows({*scores, 2, 3, 1, false, *routing, 1.0F, true, nullptr, factors.get()});
        device->gather_visits({*routing, *x, *visits, 1, true});
        device->add_visits({*routing, *visits, *sums, 1, true, false});
        const std::vector<float> got = values_of(*device, *sums);
        EXPECT_EQ(got[0], 3.0F);
        EXPECT_NEAR(got[1], 10 * 3 / (1 + std::exp(1.0)), 1e-5);
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_experts_test

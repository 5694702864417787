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

}  // namespace
}  // namespace helix::engine::test::vulkan_experts_test

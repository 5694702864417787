#include "logit_rows.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_logits_test {
namespace {

class VulkanLogits : public VulkanTest {};

TEST_F(VulkanLogits, AreReducedToTheCpusBits) {
    base::Random random(111);
    for (const std::int64_t vocab : {1, 7, 256, 300, 5000, 70001}) {
        const LogitRows rows = random_logits(random, 5, vocab);
        const auto ours = make(*vulkan_, rows.logits);
        const auto cpus = make(*cpu_, rows.logits);
        for (const int wanted : {1, 20, 128}) {
            const int n_top = static_cast<int>(std::min<std::int64_t>(wanted, vocab));
            const bool sum = wanted != 20;
            const std::int64_t first_row = wanted == 20 ? 1 : 0;
            EXPECT_TRUE(same_floats(reduced(*vulkan_, *ours, first_row, rows, n_top, sum),
                                    reduced(*cpu_, *cpus, first_row, rows, n_top, sum)))
                << "the greatest " << n_top << " of " << vocab;
        }
        EXPECT_TRUE(same_floats(values_of(*vulkan_, *ours), rows.logits)) << "they stay";
    }
}

// More rows than pieces fit a workgroup, in work space that grew.
TEST_F(VulkanLogits, ManyRowsAreReducedSideBySide) {
    base::Random random(112);
    for (const std::int64_t count : {1, 70}) {
        const LogitRows rows = random_logits(random, count, 777);
        const auto ours = make(*vulkan_, rows.logits);
        const auto cpus = make(*cpu_, rows.logits);
        EXPECT_TRUE(same_floats(reduced(*vulkan_, *ours, 0, rows, 5, true),
                                reduced(*cpu_, *cpus, 0, rows, 5, true)))
            << count;
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_logits_test

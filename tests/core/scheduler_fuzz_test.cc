// Runs the fuzz target fuzz/scheduler_fuzz.cc with seeded bytes.

#include <gtest/gtest.h>

#include "base/effort.h"
#include "core/scheduler_drive.h"

namespace helix::core::test::scheduler_fuzz_test {
namespace {

TEST(SchedulerFuzz, RandomLivesOfGroupsKeepToThePlainModel) {
    constexpr std::int64_t kShare = kSanitized ? 10 : 1;
    SchedulerDrive::Counts sum;
    for (std::uint64_t seed = 0; seed < 400 / kShare; ++seed) {
        base::Random random(seed);
        std::vector<std::uint8_t> bytes(1500);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
        SchedulerDrive drive(bytes);
        ASSERT_EQ(drive.run(), "") << "seed " << seed;
        const SchedulerDrive::Counts& c = drive.counts();
        sum.forks += c.forks;
        sum.overtaken_forks += c.overtaken_forks;
        sum.copies += c.copies;
        sum.swapped_pages += c.swapped_pages;
        sum.drafts_right += c.drafts_right;
        sum.drafts_wrong += c.drafts_wrong;
        sum.prefix_hits += c.prefix_hits;
        sum.prefix_lost += c.prefix_lost;
        sum.out_of_pages += c.out_of_pages;
        sum.no_swap_space += c.no_swap_space;
        sum.failures += c.failures;
        sum.group_draws += c.group_draws;
        sum.rows += c.rows;
    }
    // All that the drive can do was tried.
    EXPECT_GT(sum.rows, 20000 / kShare);
    EXPECT_GT(sum.forks, 1000 / kShare);
    EXPECT_GT(sum.overtaken_forks, 200 / kShare);
    EXPECT_GT(sum.copies, 1000 / kShare);
    EXPECT_GT(sum.swapped_pages, 1000 / kShare);
    EXPECT_GT(sum.drafts_right, 200 / kShare);
    EXPECT_GT(sum.drafts_wrong, 200 / kShare);
    EXPECT_GT(sum.prefix_hits, 200 / kShare);
    EXPECT_GT(sum.prefix_lost, 100 / kShare);
    EXPECT_GT(sum.out_of_pages, 100 / kShare);
    EXPECT_GT(sum.no_swap_space, 100 / kShare);
    EXPECT_GT(sum.failures, 100 / kShare);
    EXPECT_GT(sum.group_draws, 200 / kShare);
}

// The same in vLLM's order, where batches have whole prompts.
TEST(SchedulerFuzz, SoDoTheyWithPromptsFirst) {
    SchedulerDrive::Counts sum;
    for (std::uint64_t seed = 0; seed < (kSanitized ? 15 : 150); ++seed) {
        base::Random random(seed);
        std::vector<std::uint8_t> bytes(1500);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
        const PromptsFirst how{40, static_cast<std::int32_t>(random.between(1, 8)),
                               random.chance(0.5) ? 0.0 : 1.0};
        SchedulerDrive drive(bytes, how);
        ASSERT_EQ(drive.run(), "") << "seed " << seed;
        sum.swapped_pages += drive.counts().swapped_pages;
        sum.out_of_pages += drive.counts().out_of_pages;
        sum.rows += drive.counts().rows;
    }
    EXPECT_GT(sum.rows, kSanitized ? 500 : 5000);
    EXPECT_GT(sum.swapped_pages, kSanitized ? 20 : 200);
    EXPECT_GT(sum.out_of_pages, kSanitized ? 2 : 20);
}

}  // namespace
}  // namespace helix::core::test::scheduler_fuzz_test

#include "core/batch/batch_limits.h"

#include <gtest/gtest.h>

namespace helix::core::batch_limits_test {
namespace {

// Costs from batches of 1 to 40 decodes and of 8 to 400 prompt rows, then from some of both. saved
// is what a shared batch saves, in seconds.
BatchCosts costs_of(CostLine decodes, CostLine prefills, double saved_s) {
    BatchCosts costs;
    for (int i = 0; i < 40; ++i) {
        const double d = 1 + i;
        const double p = 8 + 10 * i;
        costs.add(d, 0, decodes.fixed_s + decodes.per_row_s * d);
        costs.add(0, p, prefills.fixed_s + prefills.per_row_s * p);
        costs.add(d, p,
                  decodes.fixed_s + decodes.per_row_s * d + prefills.fixed_s +
                      prefills.per_row_s * p - saved_s);
    }
    return costs;
}

WorkerConfig config() {
    WorkerConfig config;
    config.n_layers = 8;
    return config;
}

TEST(CostFit, FindsTheLineAndFollowsAChange) {
    CostFit fit;
    EXPECT_FALSE(fit.line());
    for (int i = 0; i < 100; ++i) fit.add(i % 7, 0.5 + 0.01 * (i % 7));
    ASSERT_TRUE(fit.line());
    EXPECT_NEAR(fit.line()->fixed_s, 0.5, 1e-6);
    EXPECT_NEAR(fit.line()->per_row_s, 0.01, 1e-6);
    for (int i = 0; i < 1000; ++i) fit.add(i % 7, 0.1 + 0.02 * (i % 7));
    EXPECT_NEAR(fit.line()->fixed_s, 0.1, 1e-4);
    ASSERT_TRUE(fit.at(5));
    EXPECT_NEAR(*fit.at(5), 0.2, 1e-4);
}

TEST(CostFit, PointsOfOneSizeDoNotTellAFixedCost) {
    CostFit fit;
    for (int i = 0; i < 100; ++i) fit.add(4, 0.2);
    ASSERT_TRUE(fit.line());
    EXPECT_EQ(fit.line()->fixed_s, 0);
    EXPECT_NEAR(fit.line()->per_row_s, 0.05, 1e-9);
    ASSERT_TRUE(fit.at(4.3));
    EXPECT_NEAR(*fit.at(4.3), 0.2, 1e-9);
    EXPECT_FALSE(fit.at(5)) << "what one more costs was not seen";
    EXPECT_FALSE(fit.at(3));
}

TEST(CostFit, NeverGivesANegativeCost) {
    CostFit falling;
    CostFit steep;
    for (int i = 1; i <= 50; ++i) {
        falling.add(i, 1.0 / i);
        steep.add(i, 0.001 * i * i);
    }
    EXPECT_GE(falling.line()->fixed_s, 0);
    EXPECT_GE(falling.line()->per_row_s, 0);
    EXPECT_GE(steep.line()->fixed_s, 0);
    EXPECT_GT(steep.line()->per_row_s, 0);
}

TEST(BatchLimits, UnmeasuredDecodesGoInGroupsWithTheConfiguredPromptRows) {
    const BatchLimits limits = batch_limits(config(), {}, {}, 4, 30);
    EXPECT_EQ(limits.decodes, 8);
    EXPECT_TRUE(limits.share);
    EXPECT_EQ(limits.mixed_rows, config().mixed_prefill_rows);
    EXPECT_EQ(limits.alone_rows, config().max_batch_rows);
}

TEST(BatchLimits, AGroupIsWorthItsFixedCost) {
    const BatchCosts costs = costs_of({0.05, 0.001}, {0, 0.0002}, 0);
    EXPECT_NEAR(static_cast<double>(batch_limits(config(), costs, {}, 16, 100).decodes), 50, 1);
    EXPECT_EQ(batch_limits(config(), costs, {}, 2, 400).decodes, 200)
        << "no more groups than machines";
    EXPECT_EQ(batch_limits(config(), costs, {}, 1, 100).decodes, 100) << "one machine: all at once";
}

// A worker that has run batches of this many decodes for ten seconds, so many rows per second; the
// rest of `busy` was prompts' time.
BatchLoad load_of(double rows_per_s, double prompts_share) {
    BatchLoad load;
    constexpr double kEvery_s = 0.1;
    for (int i = 1; i <= 200; ++i) {
        load.add(TimePoint{} + base::from_seconds(kEvery_s * i), base::from_ms(50),
                 rows_per_s * kEvery_s, prompts_share * kEvery_s);
    }
    return load;
}

TEST(BatchLimits, AGroupIsAsSmallAsTheLoadAllows) {
    // Batches of d rows take 50 ms and 1 ms a row: at 100 rows/s they take 5 / d + 0.1 of the time.
    const BatchCosts costs = costs_of({0.05, 0.001}, {0, 0.0002}, 0);
    const auto least = [&](const BatchLoad& load) {
        return static_cast<double>(batch_limits(config(), costs, load, 64, 64).decodes);
    };
    EXPECT_NEAR(least(load_of(100, 0)), 5 / (kBusyAtMost - 0.1), 1);
    EXPECT_NEAR(least(load_of(100, 0.2)), 5 / (kBusyAtMost - 0.1 - 0.2), 2);
    EXPECT_EQ(least(load_of(10, 0)), 1) << "nearly idle";
    EXPECT_NEAR(least(load_of(400, 0.2)), 50, 1) << "too busy: a group is worth its fixed cost";
    BatchLoad moment;
    moment.add(TimePoint{} + base::from_seconds(1), base::from_ms(50), 1, 0);
    EXPECT_NEAR(least(moment), 50, 1) << "not known yet";
}

TEST(BatchLimits, AThousandDecodesAreSeveralBatchesWhereOneWouldTakeLong) {
    WorkerConfig large = config();
    large.max_batch_seqs = 1024;
    const auto most = [&](CostLine decodes, std::int64_t past_prompt) {
        return static_cast<double>(
            batch_limits(large, costs_of(decodes, {0, 0.001}, 0), {}, 1, past_prompt).decodes);
    };
    EXPECT_NEAR(most({0.001, 0.001}, 1000), 250, 2) << "a quarter of a second";
    EXPECT_EQ(most({0.001, 0.0001}, 1000), 1000) << "all take a tenth of one";
    // A batch that costs 0.1 s by itself: 800 rows of 1 ms save eight ninths of it.
    EXPECT_NEAR(most({0.1, 0.001}, 1000), 800, 8);
    EXPECT_EQ(most({0.1, 0.001}, 30), 30);
    // What a batch costs by itself is not known from batches of one size.
    BatchCosts alike;
    for (int i = 0; i < 50; ++i) alike.add(16, 0, 4.0);
    EXPECT_EQ(batch_limits(config(), alike, {}, 1, 16).decodes, 16);
}

TEST(BatchLimits, SharesBatchesOnlyWhereThatSaves) {
    const CostLine decodes{0.05, 0.0001};
    EXPECT_FALSE(batch_limits(config(), costs_of(decodes, {0, 0.0002}, 0), {}, 16, 100).share);
    EXPECT_TRUE(batch_limits(config(), costs_of(decodes, {0.05, 0.0002}, 0.05), {}, 16, 100).share);
    EXPECT_FALSE(
        batch_limits(config(), costs_of(decodes, {0.05, 0.0002}, 0.005), {}, 16, 100).share);
}

// Prompts were only seen in large pieces: what a small one costs alone is not known, nor what a
// batch with one saves.
TEST(BatchLimits, PiecesUnlikeThoseSeenAloneSayNothingAboutSharing) {
    BatchCosts costs;
    for (int i = 0; i < 40; ++i) {
        costs.add(1 + i % 8, 0, 0.1 + 0.001 * (1 + i % 8));
        costs.add(0, 64, 0.09 + 0.0015 * 64);
        costs.add(4, 35, 0.1 + 0.004 + 0.09 + 0.0015 * 35);  // saves nothing
    }
    EXPECT_FALSE(costs.saved_by_sharing());
    for (int i = 0; i < 2; ++i) costs.add(0, 35, 0.09 + 0.0015 * 35);
    for (int i = 0; i < 4; ++i) costs.add(4, 35, 0.1 + 0.004 + 0.09 + 0.0015 * 35);
    ASSERT_TRUE(costs.saved_by_sharing());
    EXPECT_NEAR(*costs.saved_by_sharing(), 0, 0.01);
}

TEST(BatchLimits, PromptsTakeTheirShareOfTheTimeBesideDecodesAndByTurns) {
    const BatchCosts saves = costs_of({0.05, 0}, {0, 0.001}, 0.05);
    EXPECT_NEAR(batch_limits(config(), saves, {}, 4, 20).mixed_rows,
                spec::ServingPolicy().prefill_share * 50, 1);
    const BatchCosts saves_nothing = costs_of({0.05, 0}, {0, 0.001}, 0);
    EXPECT_NEAR(batch_limits(config(), saves_nothing, {}, 4, 20).mixed_rows, 50, 1);
}

TEST(BatchLimits, PromptsGoInSmallPiecesUnlessAPieceCostsMuchByItself) {
    const WorkerConfig plain = config();
    EXPECT_EQ(batch_limits(plain, costs_of({0.05, 0}, {0, 0.0005}, 0), {}, 4, 20).alone_rows,
              plain.mixed_prefill_rows);
    EXPECT_NEAR(batch_limits(plain, costs_of({0.05, 0}, {0.02, 0.0005}, 0), {}, 4, 20).alone_rows,
                160, 2);
    EXPECT_EQ(batch_limits(plain, costs_of({0.05, 0}, {0.2, 0.0005}, 0), {}, 4, 20).alone_rows,
              plain.max_batch_rows);
    EXPECT_EQ(batch_limits(plain, costs_of({0.05, 0}, {0, 0.0005}, 0), {}, 1, 20).alone_rows,
              plain.max_batch_rows)
        << "one machine: nobody waits for a piece";
}

}  // namespace
}  // namespace helix::core::batch_limits_test

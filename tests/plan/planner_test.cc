#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "plan/bounds.h"
#include "plan/evaluator.h"
#include "plan/heuristics.h"
#include "plan_fixtures.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;
using spec::LayerRange;
using testing::HasSubstr;

// Walks every path over positive-flow edges; each must run exactly the layers [0, n_layers) in
// order.
void expect_every_path_is_a_pipeline(const PlanReport& report, std::int32_t n_layers) {
    std::int64_t finished = 0;
    std::int64_t steps = 0;
    const std::function<void(std::int32_t, std::int32_t)> walk = [&](std::int32_t node,
                                                                     std::int32_t done) {
        if (++steps > 20000) return;  // enough of a wide plan
        bool any = false;
        for (const spec::LinkFlow& flow : report.flows) {
            ASSERT_GT(flow.tokens_per_s, 0);
            if (flow.from != node) continue;
            any = true;
            if (flow.to == kCoordinator) {
                ASSERT_EQ(done, n_layers);
                ++finished;
                continue;
            }
            const LayerRange range = report.placement.layers[static_cast<std::size_t>(flow.to)];
            ASSERT_LE(range.begin, done);
            ASSERT_GT(range.end, done);
            walk(flow.to, range.end);
        }
        ASSERT_TRUE(any) << "dead end at node " << node;
    };
    walk(kCoordinator, 0);
    EXPECT_GT(finished, 0);
}

TEST(Planner, AMachineThatHoldsTheWholeModelGetsIt) {
    const auto cluster = cluster_of({machine("only", 40, 1e-4)});
    const auto report = plan(cluster, small_model(32), {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->placement.layers[0], (LayerRange{0, 32}));
    EXPECT_NEAR(report->max_flow_tokens_per_s, 1 / (32 * 1e-4), 1e-3);
    EXPECT_NEAR(report->gap, 0, 1e-6);
    EXPECT_EQ(report->mean_depth, 1);
}

TEST(Planner, ThreeOddMachinesShareByMemoryAndSpeed) {
    const auto cluster = cluster_of(
        {machine("big", 20, 1e-4), machine("middle", 10, 2e-4), machine("small", 6, 4e-4)});
    const auto report = plan(cluster, small_model(32), {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->max_flow_tokens_per_s, 400);
    EXPECT_LE(report->max_flow_tokens_per_s, report->upper_bound_tokens_per_s * (1 + 1e-9));
    EXPECT_EQ(report->mean_depth, 3);
    expect_every_path_is_a_pipeline(*report, 32);
}

TEST(Planner, EqualMachinesThatHoldEverythingAreReplicasNotAChain) {
    const auto cluster =
        cluster_of({machine("a", 40, 1e-4), machine("b", 40, 1e-4), machine("c", 40, 1e-4)});
    const auto report = plan(cluster, small_model(32), {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->mean_depth, 1);
    EXPECT_NEAR(report->max_flow_tokens_per_s, 3 / (32 * 1e-4), 1e-2);
    EXPECT_EQ(report->flows.size(), 6U);
}

TEST(Planner, SaysWhatIsMissingWhenTheModelDoesNotFit) {
    const auto cluster = cluster_of({machine("a", 10, 1e-4), machine("b", 10, 1e-4)});
    const auto report = plan(cluster, small_model(32), {});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, base::Errc::unavailable);
    EXPECT_THAT(report.error().message, HasSubstr("of the 32 layers"));
    EXPECT_THAT(report.error().message, HasSubstr("more memory"));
}

}  // namespace
}  // namespace helix::plan

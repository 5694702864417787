#include "plan/change/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "spec/measured_node.h"

namespace helix::plan::what_if_test {
namespace {

using testing::HasSubstr;

// small_model's machines: types "fast" and "slow" measure differently.
spec::NodeSpec typed(const std::string& name, const std::string& type, const std::string& region) {
    spec::NodeSpec node = machine(name, 5, type == "fast" ? 1e-3 : 4e-3);
    node.type = type;
    node.region = region;
    return node;
}

spec::ClusterSpec office() {
    return cluster_of({typed("a", "fast", "east"), typed("b", "slow", "east"),
                       typed("c", "fast", "west"), typed("d", "slow", "west")});
}

base::Result<CapacityTable> measured_speeds(const spec::ClusterSpec& cluster) {
    TRY_VOID(spec::check_measured(cluster));
    return capacity_from_costs(cluster, small_model(8), spec::MeasuredNode(), Workload{},
                               MemoryRule{});
}

base::Result<PlanReport> short_plan(const Problem& problem, const spec::Placement*) {
    PlanOptions options;
    options.capacities = &problem.capacities;
    options.iterations = 3000;
    return plan(problem.cluster, problem.model, options);
}

base::Result<WhatIf> with(const Change& change, const PlanFunction& planner = short_plan) {
    return what_if(office(), small_model(8), {change}, measured_speeds, planner);
}

TEST(WhatIf, PlansBothAndComparesThem) {
    const auto more = with(*parse_add("2xfast@east"));
    ASSERT_TRUE(more.ok()) << more.error().message;
    EXPECT_EQ(more->changed.cluster.nodes.size(), 6U);
    EXPECT_GT(more->effect_after.flow, more->effect_before.flow);
    EXPECT_EQ(more->effect_before.flow, more->before.max_flow_tokens_per_s);
    EXPECT_GT(more->effect_after.bound, more->effect_before.bound);
    ASSERT_TRUE(more->after.prediction);
    EXPECT_EQ(more->effect_after.predicted_tokens_per_s,
              more->after.prediction->decode_tokens_per_s);
    const PlanFunction with_prediction =
        [](const Problem& problem, const spec::Placement* start) -> base::Result<PlanReport> {
        TRY(PlanReport report, short_plan(problem, start));
        report.prediction.emplace().decode_tokens_per_s = 42;
        return report;
    };
    const auto less = with(*parse_remove("c"), with_prediction);
    ASSERT_TRUE(less.ok()) << less.error().message;
    EXPECT_LT(less->effect_after.flow, less->effect_before.flow);
    EXPECT_EQ(less->effect_after.predicted_tokens_per_s, 42);
    const std::string table = describe_effect(less->effect_before, less->effect_after);
    EXPECT_THAT(table, HasSubstr("predicted, tokens/s"));
    EXPECT_THAT(table, HasSubstr("+0.0 %"));
    EXPECT_THAT(table, HasSubstr("-"));
}

TEST(WhatIf, ErrorsComeThrough) {
    EXPECT_THAT(with(*parse_remove("x")).error().message, HasSubstr("\"x\" is no machine"));
    // A machine of the catalogue has no measurements.
    EXPECT_THAT(with(*parse_add("L4@east")).error().message, HasSubstr("new-L4"));
}

// A limit that only the changed cluster can keep: the error says which of the two it is about.
TEST(WhatIf, AnErrorOfThePlanBeforeSaysSo) {
    const auto survives = [](const Problem& problem, const spec::Placement*) {
        PlanOptions options;
        options.capacities = &problem.capacities;
        options.iterations = 3000;
        options.survive_share = 1e-6;
        return plan(problem.cluster, problem.model, options);
    };
    const spec::ClusterSpec alone =
        cluster_of({typed("a", "fast", "east"), typed("b", "fast", "east")});
    const auto answer =
        what_if(alone, small_model(8), {*parse_add("2xfast@east")}, measured_speeds, survives);
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(answer.error().message, HasSubstr("without the change: no plan found"));
    EXPECT_THAT(answer.error().message, HasSubstr("some flow after any one loss"));
}

AdviceOptions advice_options() {
    AdviceOptions options;
    options.prices = {{"fast", 1.0}, {"slow", 0.5}};
    options.iterations = 3000;
    return options;
}

TEST(Advise, RanksPurchasesByGainPerPrice) {
    const spec::Placement current{{{0, 4}, {0, 4}, {4, 8}, {4, 8}}};
    const auto report =
        advise(office(), small_model(8), current, measured_speeds, {}, advice_options());
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(report->tokens_per_s, 0);
    ASSERT_FALSE(report->ranked.empty());
    for (std::size_t k = 0; k < report->ranked.size(); ++k) {
        const Advice& advice = report->ranked[k];
        EXPECT_GT(advice.gain, 0);
        EXPECT_NEAR(advice.tokens_per_s, report->tokens_per_s + advice.gain, 1e-6);
        EXPECT_NEAR(advice.gain_per_usd, advice.gain / advice.usd_per_hour, 1e-6);
        if (k > 0) {
            EXPECT_LE(advice.gain_per_usd, report->ranked[k - 1].gain_per_usd);
        }
    }
    ASSERT_EQ(report->picks.size(), 1U);
    EXPECT_EQ(to_string(report->picks[0].change), to_string(report->ranked[0].change));
    EXPECT_TRUE(report->skipped.empty());
    EXPECT_THAT(describe_advice(*report), HasSubstr(to_string(report->ranked[0].change)));
}

TEST(Advise, PicksBuildOnEachOther) {
    const spec::Placement current{{{0, 4}, {0, 4}, {4, 8}, {4, 8}}};
    AdviceOptions options = advice_options();
    options.picks = 3;
    const auto report = advise(office(), small_model(8), current, measured_speeds, {}, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_GE(report->picks.size(), 2U);
    double before = report->tokens_per_s;
    for (const Advice& pick : report->picks) {
        EXPECT_NEAR(pick.tokens_per_s - pick.gain, before, 1e-6);
        before = pick.tokens_per_s;
    }
    EXPECT_THAT(describe_advice(*report), HasSubstr("one after the other"));
}

TEST(Advise, ANarrowLinkIsWhatToUpgrade) {
    // Each machine holds half of the layers; what joins the two is narrow.
    spec::ClusterSpec cluster =
        cluster_of({typed("a", "fast", "east"), typed("b", "fast", "west")});
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 0 && link.to == 1) link.bandwidth_bytes_per_s = 50'000;
        if (link.from == 1 && link.to == 0) link.bandwidth_bytes_per_s = 50'000;
    }
    AdviceOptions options = advice_options();
    options.near_gbit_price = 100;
    options.link_factor = 4;
    const auto report =
        advise(cluster, small_model(8), {{{0, 4}, {4, 8}}}, measured_speeds, {}, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_FALSE(report->ranked.empty());
    EXPECT_THAT(to_string(report->ranked[0].change), HasSubstr("link east:west at 1.6 Mbit/s"));
    EXPECT_NEAR(report->ranked[0].usd_per_hour, 3 * 0.0004 * 100, 1e-9);
}

TEST(Advise, SaysWhatItCouldNotJudgeAndStops) {
    const spec::Placement current{{{0, 4}, {0, 4}, {4, 8}, {4, 8}}};
    AdviceOptions options = advice_options();
    options.prices.erase("slow");
    options.types = {"L4"};  // no measurements
    int calls = 0;
    options.progress = [&](int done, int all, const std::string&) {
        EXPECT_LT(done, all);
        ++calls;
    };
    const auto report = advise(office(), small_model(8), current, measured_speeds, {}, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(calls, 0);
    EXPECT_THAT(report->skipped, testing::Contains(HasSubstr("type slow: the price")));
    EXPECT_THAT(report->skipped, testing::Contains(HasSubstr("add L4 in east: node new-L4")));
    options.stop = [] { return true; };
    const auto stopped = advise(office(), small_model(8), current, measured_speeds, {}, options);
    ASSERT_TRUE(stopped.ok()) << stopped.error().message;
    EXPECT_TRUE(stopped->stopped);
    EXPECT_TRUE(stopped->ranked.empty());
    options.types = {"L9"};
    EXPECT_THAT(
        advise(office(), small_model(8), current, measured_speeds, {}, options).error().message,
        HasSubstr("\"L9\" is not in the catalogue"));
    options.picks = 0;
    EXPECT_FALSE(advise(office(), small_model(8), current, measured_speeds, {}, options).ok());
}

}  // namespace
}  // namespace helix::plan::what_if_test

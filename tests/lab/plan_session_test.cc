// Plans with the simulator as judge.

#include "lab/planning/plan_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "lab/planning/plan_changes.h"
#include "lab/simulation/simulation_setup.h"
#include "own_folder.h"
#include "paper_data.h"
#include "sim/load/load.h"
#include "sim/throughput/helix_run.h"

namespace helix::lab::plan_session_test {
namespace {

class PlanSessionTest : public OwnFolder {
  protected:
    base::Result<Problem> problem(const std::string& cluster) {
        source_.cluster = folder_ + "/cluster.toml";
        source_.model = "llama3-8b";
        std::ofstream(source_.cluster) << cluster;
        return load_problem(source_);
    }
    // Each look at the clock takes tick_s_.
    plan::PlanReport plan(const Problem& problem) {
        looks_ = 0;
        const PlanSession session{source_,
                                  settings_,
                                  [this] { return tick_s_ * ++looks_; },
                                  [] { return false; },
                                  [](const plan::PlanProgress&) {},
                                  5};
        auto report = session.plan(problem, session.budget_s, nullptr);
        EXPECT_TRUE(report.ok()) << report.error().message;
        return std::move(report).value();
    }
    ProblemSource source_;
    PlanSettings settings_;
    double tick_s_ = 0.01;
    std::atomic<int> looks_ = 0;  // the search asks from several threads
};

constexpr const char* kOne = R"(name = "one"
[[machines]]
name = "only"
type = "RTX 4090"
[links]
default = {bandwidth = "10 Gbit/s", latency = "50 us"}
)";

// Alone, a request's tokens take what the layers take with one row, and little besides; among
// others they take longer.
TEST_F(PlanSessionTest, SaysWhatOneUserAloneGets) {
    const auto one = problem(kOne);
    ASSERT_TRUE(one.ok()) << one.error().message;
    const plan::PlanReport report = plan(*one);
    ASSERT_TRUE(report.alone);
    const double layers_s = one->model.n_layers * one->costs().layer_s(one->cluster.nodes[0], 1, 0);
    EXPECT_GE(report.alone->tpot_s, layers_s);
    EXPECT_LT(report.alone->tpot_s, 1.2 * layers_s);
    EXPECT_GE(report.alone->requests, 20);
    EXPECT_GT(report.alone->ttft_s, layers_s);
    EXPECT_LT(report.alone->ttft_s, report.prediction->ttft_s);
    EXPECT_LT(report.alone->tpot_s, report.prediction->tpot_s);
}

constexpr const char* kOffice = R"(name = "office"
[[machines]]
name = "workstation"
type = "RTX 4090"
[[machines]]
name = "old"
type = "RTX 3090"
count = 2
[links]
default = {bandwidth = "1 Gbit/s", latency = "300 us"}
)";

// One figure for one plan: above the table of choices, in it, and beside a change.
TEST_F(PlanSessionTest, APlanHasOnePredictionWhereverItIsTold) {
    const auto office = problem(kOffice);
    ASSERT_TRUE(office.ok()) << office.error().message;
    const auto check = [](const plan::PlanReport& report) {
        ASSERT_FALSE(report.pareto.empty());
        EXPECT_TRUE(report.pareto[0].chosen) << "first the plan that was taken";
        EXPECT_EQ(std::ranges::count(report.pareto, true, &plan::PlanReport::Choice::chosen), 1);
        ASSERT_TRUE(report.prediction);
        EXPECT_EQ(report.pareto[0].merits.decode_tokens_per_s,
                  report.prediction->decode_tokens_per_s);
    };
    check(plan(*office));
    const PlanSession session{source_,
                              settings_,
                              [this] { return tick_s_ * ++looks_; },
                              [] { return false; },
                              [](const plan::PlanProgress&) {},
                              5 + tick_s_ * looks_};
    const auto answer = answer_what_if(session, {*plan::parse_add("2xRTX 3090")});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    const plan::WhatIf& plans = answer->plans;
    check(plans.before);
    check(plans.after);
    EXPECT_EQ(plans.effect_before.predicted_tokens_per_s,
              plans.before.prediction->decode_tokens_per_s);
    EXPECT_EQ(plans.effect_after.predicted_tokens_per_s,
              plans.after.prediction->decode_tokens_per_s);
    EXPECT_GT(plans.effect_after.predicted_tokens_per_s,
              plans.effect_before.predicted_tokens_per_s);
}

// A plan's file carries the policy that the plan was judged under, and nothing where that is the
// usual one.
TEST_F(PlanSessionTest, ThePolicyGoesWithThePlan) {
    tick_s_ = 0.001;
    const auto one = problem(kOne);
    ASSERT_TRUE(one.ok()) << one.error().message;
    const plan::PlanReport chosen = plan(*one);
    settings_.choose_policy = false;
    const plan::PlanReport usual = plan(*one);
    EXPECT_EQ(usual.policy, spec::ServingPolicy());
    EXPECT_FALSE(placement_file(*one, usual).policy);
    EXPECT_GE(chosen.judged_tokens_per_s, usual.judged_tokens_per_s);
    EXPECT_GT(chosen.judged_plans, usual.judged_plans);
    plan::PlanReport other = usual;
    other.policy = {1, 1, 3};
    EXPECT_EQ(placement_file(*one, other).policy, other.policy);
}

// A plan's file carries the roles that were chosen with it, and the simulator's workers have them.
TEST_F(PlanSessionTest, RolesGoWithThePlan) {
    const auto office = problem(kOffice);
    ASSERT_TRUE(office.ok()) << office.error().message;
    plan::PlanReport report;
    report.placement = {{{0, 32}, {0, 32}, {0, 32}},
                        {spec::NodeRole::prefill, spec::NodeRole::both, spec::NodeRole::both}};
    for (const std::int32_t node : {0, 1, 2}) {
        report.flows.push_back({spec::kCoordinator, node, 100});
        report.flows.push_back({node, spec::kCoordinator, 100});
    }
    const std::string path = folder_ + "/plan.json";
    ASSERT_TRUE(spec::write_placement_file(path, placement_file(*office, report)).ok());
    const auto layout = read_simulated_layout(path, *office);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_EQ(layout->placement.roles, report.placement.roles);
    for (const bool roles : {true, false}) {
        spec::Placement placement = layout->placement;
        if (!roles) placement.roles.clear();
        sim::HelixSetup setup = helix_setup(*office, placement, layout->flows);
        EXPECT_EQ(setup.coordinator.roles.size(), roles ? 3U : 0U);
        setup.coordinator.balance.enabled = false;  // nothing else moves
        setup.warmup_s = 0;
        setup.duration_s = 20;
        setup.lengths = sim::LengthSource({{200, 50}}, sim::LengthOrder::sampled);
        setup.migration_bytes_per_s = 5e7;
        const auto run = sim::run_helix(setup);
        ASSERT_TRUE(run.ok()) << run.error().message;
        EXPECT_EQ(run->migrated > 0, roles) << "requests leave where their prompts were";
    }
}

// Separate pipelines that hold more layers than the tables cover are simulated like any plan, with
// the KV room that the plan took them to have.
TEST_F(PlanSessionTest, PlansBeyondTheTablesAreSimulatedToo) {
    const std::string data = kPaperData;
    source_.cluster = data + "/clusters/single24.json";
    source_.model = "llama2-70b";
    source_.profiles = data + "/profiles";
    const auto single24 = load_problem(source_);
    ASSERT_TRUE(single24.ok()) << single24.error().message;
    settings_.options.method = plan::Method::separate;
    const plan::PlanReport report = plan(*single24);
    ASSERT_EQ(report.placement.layers.size(), 24U);
    EXPECT_EQ(report.notes.size(), 3U);
    ASSERT_TRUE(report.prediction);
    ASSERT_TRUE(report.alone);
    EXPECT_GT(report.alone->requests, 0);
    std::size_t beyond = 0;
    for (std::size_t n = 0; n < report.placement.layers.size(); ++n) {
        const std::int32_t held = report.placement.layers[n].size();
        if (held <= single24->capacities.nodes[n].most()) continue;
        ++beyond;
        EXPECT_GE(single24->capacities.kv_tokens(n, held), 4096);
    }
    EXPECT_EQ(beyond, 24U);
}

TEST_F(PlanSessionTest, WithoutAJudgeItSaysNothingOfOneUser) {
    settings_.judge = false;
    const auto one = problem(kOne);
    ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_FALSE(plan(*one).alone);
}

}  // namespace
}  // namespace helix::lab::plan_session_test

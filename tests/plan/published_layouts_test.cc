#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "paper_data.h"
#include "plan/bounds/bounds.h"
#include "plan/flow/flow_graph.h"
#include "plan/planner.h"
#include "plan/problem/problem.h"
#include "plan/published_problems.h"
#include "plan/rules/heuristics.h"
#include "spec/placement_file.h"

// The published placements, clusters and tables of the paper (data/paper).

namespace helix::plan::published_layouts_test {
namespace {

const std::string kData = kPaperData;

// The machine mix that the published T_j of a cluster stand under.
std::string mix_of(const std::string& cluster) {
    static const std::map<std::string, std::string> mixes = {
        {"distributed24", "single24"},    {"single24_a100", "a100x4"},
        {"single24_l4", "l4x8"},          {"single24_t4", "t4x12"},
        {"distributed24_a100", "a100x4"}, {"distributed24_l4", "l4x8"},
        {"distributed24_t4", "t4x12"}};
    const auto found = mixes.find(cluster);
    return found == mixes.end() ? cluster : found->second;
}

PublishedProblem load(const std::string& cluster, const std::string& model) {
    return published_problem(cluster, model, mix_of(cluster));
}

// What was published and has a maximum flow. The hand-written separate pipelines of the 70B model
// hold more layers than there are T_j for, and so have none.
const char* const kEvaluated[] = {
    "ablation_no_prune_24",
    "ablation_quality",
    "distributed24__llama1-30b__helix_a100",
    "distributed24__llama1-30b__helix_l4",
    "distributed24__llama1-30b__helix_t4",
    "distributed24__llama1-30b__petals",
    "distributed24__llama1-30b__separate_a100",
    "distributed24__llama1-30b__separate_l4",
    "distributed24__llama1-30b__separate_t4",
    "distributed24__llama1-30b__swarm",
    "distributed24__llama2-70b__helix",
    "distributed24__llama2-70b__petals",
    "distributed24__llama2-70b__swarm",
    "highhet42__llama2-70b__helix",
    "highhet42__llama2-70b__petals",
    "highhet42__llama2-70b__swarm",
    "reqsched_single24__llama2-70b__helix",
    "single24__llama1-30b__helix_a100",
    "single24__llama1-30b__helix_l4",
    "single24__llama1-30b__helix_t4",
    "single24__llama1-30b__petals",
    "single24__llama1-30b__separate_a100",
    "single24__llama1-30b__separate_l4",
    "single24__llama1-30b__separate_t4",
    "single24__llama1-30b__swarm",
    "single24__llama2-70b__helix",
    "single24__llama2-70b__petals",
    "single24__llama2-70b__swarm",
};

class PublishedLayout : public testing::TestWithParam<const char*> {};

TEST_P(PublishedLayout, EvaluatesToThePublishedMaxFlow) {
    const auto layout = spec::read_placement_file(kData + "/layouts/" + GetParam() + ".json");
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    ASSERT_TRUE(layout->max_flow_tokens_per_s.has_value());
    const PublishedProblem problem = load(layout->cluster, layout->model);
    const auto fits =
        check_placement({problem.cluster, problem.model, problem.capacities}, layout->placement);
    ASSERT_TRUE(fits.ok()) << fits.error().message;
    const FlowOptions options{
        .partial = true, .convention = Convention::reference, .only_links = layout->links};
    const FlowGraph graph = build_flow_graph({problem.cluster, problem.model, problem.capacities},
                                             layout->placement, options);
    const double published = *layout->max_flow_tokens_per_s;
    EXPECT_NEAR(solve_max_flow(graph.network).value, published, published * 1e-6);
    const FlowPlan flow = plan_flow(problem.cluster, graph);
    EXPECT_NEAR(flow.tokens_per_s, published, published * 1e-6);
    EXPECT_FALSE(flow.cut.empty());
    const Bounds bounds = flow_bounds({problem.cluster, problem.model, problem.capacities});
    EXPECT_LE(published, bounds.best * (1 + 1e-9));
}

std::string case_name(const testing::TestParamInfo<const char*>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(All, PublishedLayout, testing::ValuesIn(kEvaluated), case_name);

TEST(PublishedLayouts, SeparatePipelinesOfThe70BModelAreBeyondTheLayerLimits) {
    for (const char* type : {"a100", "l4", "t4"}) {
        const auto layout = spec::read_placement_file(
            kData + "/layouts/single24__llama2-70b__separate_" + type + ".json");
        ASSERT_TRUE(layout.ok()) << layout.error().message;
        const PublishedProblem problem = load(layout->cluster, layout->model);
        EXPECT_FALSE(
            check_placement({problem.cluster, problem.model, problem.capacities}, layout->placement)
                .ok())
            << type;
    }
}

TEST(PublishedLayouts, BothConventionsAgreeWithTheKnownDifference) {
    const auto layout =
        spec::read_placement_file(kData + "/layouts/distributed24__llama2-70b__swarm.json");
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    const PublishedProblem problem = load(layout->cluster, layout->model);
    FlowOptions options{
        .partial = true, .convention = Convention::paper, .only_links = layout->links};
    const auto value = [&] {
        return solve_max_flow(build_flow_graph({problem.cluster, problem.model, problem.capacities},
                                               layout->placement, options)
                                  .network)
            .value;
    };
    EXPECT_NEAR(value(), 616.456, 0.001);
    options.convention = Convention::reference;
    EXPECT_NEAR(value(), 616.380, 0.001);
}

TEST(PublishedLayouts, BoundsAreTheKnownOnes) {
    const struct {
        const char* cluster;
        const char* model;
        double paper;
        double capped;
    } known[] = {{"single24", "llama2-70b", 2803.86, 2045.64},
                 {"highhet42", "llama2-70b", 7104.26, 6528.9},
                 {"single24", "llama1-30b", 1755.01, 1563.7},
                 {"ablation10", "llama1-30b", 364.51, 340.7}};
    for (const auto& [cluster, model, paper, capped] : known) {
        const PublishedProblem problem = load(cluster, model);
        const Bounds bounds = flow_bounds({problem.cluster, problem.model, problem.capacities});
        EXPECT_NEAR(bounds.paper, paper, 0.01) << cluster << ' ' << model;
        EXPECT_NEAR(bounds.capped, capped, 0.1) << cluster << ' ' << model;
    }
}

TEST(PublishedLayouts, SwarmRuleGivesThePublishedSwarmFlow) {
    const struct {
        const char* cluster;
        const char* model;
        double flow;
    } known[] = {{"single24", "llama2-70b", 757.8532},
                 {"highhet42", "llama2-70b", 4892.2424},
                 {"single24", "llama1-30b", 889.8336}};
    for (const auto& [cluster, model, flow] : known) {
        const PublishedProblem problem = load(cluster, model);
        PlanOptions options;
        options.method = Method::swarm;
        options.capacities = &problem.capacities;
        const auto report = plan(problem.cluster, problem.model, options);
        ASSERT_TRUE(report.ok()) << report.error().message;
        EXPECT_NEAR(report->max_flow_tokens_per_s, flow, 1e-3) << cluster << ' ' << model;
    }
}

}  // namespace
}  // namespace helix::plan::published_layouts_test

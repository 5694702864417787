#include "plan/rules/heuristics_separate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "milp_fixtures.h"
#include "paper_data.h"
#include "plan/problem/problem.h"
#include "plan_fixtures.h"
#include "spec/placement_file.h"

namespace helix::plan::heuristics_separate_test {
namespace {

using spec::LayerRange;

// Machines of type/speed/room, T(j) = speed / j.
struct Machine {
    const char* type;
    double speed;
    std::int32_t room;
};

PublishedProblem problem_of(const std::vector<Machine>& machines, std::int32_t n_layers) {
    PublishedProblem problem;
    std::vector<spec::NodeSpec> nodes;
    for (const Machine& m : machines) {
        nodes.push_back(machine(m.type + std::to_string(nodes.size()), 1, 1));
        nodes.back().type = m.type;
        NodeCapacity capacity;
        for (auto& row : capacity.max_layers) row = {m.room, m.room};
        capacity.tokens_per_s.push_back(0);
        for (std::int32_t j = 1; j <= m.room; ++j) capacity.tokens_per_s.push_back(m.speed / j);
        capacity.kv_tokens.assign(capacity.tokens_per_s.size(), 1000);
        problem.capacities.nodes.push_back(std::move(capacity));
    }
    problem.cluster = cluster_of(std::move(nodes));
    problem.model = small_model(n_layers);
    return problem;
}

base::Result<SeparatePipelines> separate(const PublishedProblem& problem) {
    return separate_placement({problem.cluster, problem.model, problem.capacities});
}

base::Result<SeparatePipelines> separate_plus(const PublishedProblem& problem) {
    return separate_plus_placement({problem.cluster, problem.model, problem.capacities});
}

double flow_of(const PublishedProblem& problem, const SeparatePipelines& pipelines) {
    const FlowOptions options{
        .partial = false, .convention = Convention::paper, .only_links = pipelines.links};
    return max_flow_value(build_flow_graph({problem.cluster, problem.model, problem.capacities},
                                           pipelines.placement, options)
                              .network);
}

std::size_t used(const SeparatePipelines& pipelines) {
    std::size_t count = 0;
    for (const LayerRange range : pipelines.placement.layers) count += range.empty() ? 0U : 1U;
    return count;
}

TEST(Separate, EachTypeFormsAsManyPipelinesAsItHolds) {
    // Type a: 5 machines of 4 for 6 layers: two pipelines of two machines, one left over. Type b: 3
    // machines of 2: one pipeline of three. Type c holds 4 of 6.
    const auto problem = problem_of({{"a", 60, 4},
                                     {"b", 60, 2},
                                     {"a", 60, 4},
                                     {"c", 60, 4},
                                     {"a", 60, 4},
                                     {"b", 60, 2},
                                     {"a", 60, 4},
                                     {"b", 60, 2},
                                     {"a", 60, 4}},
                                    6);
    const auto pipelines = separate(problem);
    ASSERT_TRUE(pipelines.ok()) << pipelines.error().message;
    ASSERT_EQ(pipelines->pipelines.size(), 3U);
    EXPECT_EQ(pipelines->pipelines[0].nodes, (std::vector<std::int32_t>{0, 2}));
    EXPECT_EQ(pipelines->pipelines[1].nodes, (std::vector<std::int32_t>{4, 6}));
    EXPECT_EQ(pipelines->pipelines[2].nodes, (std::vector<std::int32_t>{1, 5, 7}));
    EXPECT_EQ(pipelines->placement.layers[5], (LayerRange{2, 4}));
    EXPECT_TRUE(pipelines->placement.layers[8].empty());
    ASSERT_EQ(pipelines->notes.size(), 2U);
    EXPECT_EQ(pipelines->notes[0], "the 1 machines of type c together hold 4 layers of 6");
    EXPECT_EQ(pipelines->notes[1], "unused: c3, a8");
    EXPECT_NEAR(flow_of(problem, *pipelines), 20 + 20 + 30, 1e-5);
}

TEST(Separate, UnevenSplitsGiveTheFirstNodesOneLayerLess) {
    const auto pipelines = separate(problem_of({{"a", 1, 9}, {"a", 1, 9}, {"a", 1, 9}}, 11));
    ASSERT_TRUE(pipelines.ok());
    // One pipeline: two would need two nodes each.
    EXPECT_EQ(pipelines->placement.layers, (std::vector<LayerRange>{{0, 3}, {3, 7}, {7, 11}}));
}

TEST(Separate, SaysWhichTypesCannotHoldTheModel) {
    const auto pipelines = separate(problem_of({{"a", 1, 3}, {"b", 1, 3}, {"b", 1, 5}}, 8));
    ASSERT_FALSE(pipelines.ok());
    EXPECT_EQ(pipelines.error().code, base::Errc::unavailable);
    EXPECT_EQ(pipelines.error().message,
              "no separate pipeline holds the 8 layers of small: the 1 machines of type a together "
              "hold 3 layers of 8; the 2 machines of type b together hold 8 layers of 8, "
              "but not in equal parts");
}

TEST(Separate, MakesLongerPipelinesWhereFewerAreAskedFor) {
    const auto problem =
        problem_of({{"a", 40, 4}, {"a", 40, 4}, {"a", 40, 4}, {"b", 30, 2}, {"b", 30, 2}}, 4);
    const Problem asked{problem.cluster, problem.model, problem.capacities};
    const auto most = separate_placement(asked);
    const auto one = separate_placement(asked, 1);
    ASSERT_TRUE(most.ok() && one.ok());
    ASSERT_EQ(most->pipelines.size(), 4U);  // three of type a, one of type b
    ASSERT_EQ(one->pipelines.size(), 2U);
    EXPECT_EQ(one->pipelines[0].nodes.size(), 3U);
    EXPECT_EQ(one->placement.layers[2], (spec::LayerRange{2, 4}));
    EXPECT_EQ(separate_placement(asked, 3)->placement.layers, most->placement.layers);
}

TEST(SeparatePlus, FormsMixedPipelinesFromWhatIsLeft) {
    // Type a fills a pipeline; b and c only together.
    const auto problem = problem_of({{"a", 40, 4}, {"b", 90, 3}, {"c", 30, 1}, {"a", 40, 4}}, 4);
    const auto alone = separate(problem);
    const auto plus = separate_plus(problem);
    ASSERT_TRUE(alone.ok() && plus.ok());
    EXPECT_EQ(used(*alone), 2U);
    EXPECT_EQ(used(*plus), 4U);
    ASSERT_EQ(plus->pipelines.size(), 3U);
    EXPECT_EQ(plus->pipelines[2].type, "mixed");
    EXPECT_EQ(plus->pipelines[2].tokens_per_s, 30);
    EXPECT_NEAR(flow_of(problem, *plus), 10 + 10 + 30, 1e-5);
    EXPECT_TRUE(plus->notes.empty() || plus->notes.back().find("unused") == std::string::npos);
}

TEST(Separate, IsThePublishedPlanWhereLayerLimitsAllowIt) {
    const struct {
        const char* type;
        const char* mix;
        double flow;
    } parts[] = {
        {"a100", "a100x4", 1044.5333}, {"l4", "l4x8", 214.9814}, {"t4", "t4x12", 397.6851}};
    for (const auto& [type, mix, flow] : parts) {
        const std::string cluster = std::string("single24_") + type;
        const PublishedProblem problem = published_problem(cluster, "llama1-30b", mix);
        const auto layout = spec::read_placement_file(
            kPaperData + "/layouts/single24__llama1-30b__separate_" + type + ".json");
        ASSERT_TRUE(layout.ok()) << layout.error().message;
        const auto pipelines = separate(problem);
        ASSERT_TRUE(pipelines.ok()) << pipelines.error().message;
        EXPECT_EQ(pipelines->placement.layers, layout->placement.layers) << type;
        EXPECT_NEAR(flow_of(problem, *pipelines), flow, 1e-3) << type;
        ASSERT_EQ(pipelines->pipelines.size(), 1U);
        EXPECT_NEAR(pipelines->pipelines[0].tokens_per_s, flow, 1e-3);
    }
    // The same three pipelines under the T_j of the whole cluster.
    const PublishedProblem whole = published_problem("single24", "llama1-30b", "single24");
    const auto pipelines = separate(whole);
    ASSERT_TRUE(pipelines.ok());
    EXPECT_EQ(pipelines->pipelines.size(), 3U);
    EXPECT_EQ(used(*pipelines), 24U);
    EXPECT_NEAR(flow_of(whole, *pipelines), 1137.18, 0.01);
}

TEST(SeparatePlus, UsesMoreMachinesThanSeparateOnThePublishedClusters) {
    const PublishedProblem problem = published_problem("highhet42", "llama2-70b", "highhet42");
    const auto alone = separate(problem);
    ASSERT_FALSE(alone.ok());  // no type holds 80 layers within its limits
    EXPECT_NE(alone.error().message.find("the 4 machines of type A100 together hold 48 layers"),
              std::string::npos)
        << alone.error().message;
    const auto plus = separate_plus(problem);
    ASSERT_TRUE(plus.ok()) << plus.error().message;
    EXPECT_EQ(used(*plus), 42U);
    EXPECT_EQ(plus->pipelines.size(), 4U);  // 350 layers of room
    const double flow = flow_of(problem, *plus);
    double sum = 0;
    for (const auto& pipeline : plus->pipelines) sum += pipeline.tokens_per_s;
    EXPECT_NEAR(flow, sum, 1e-4);
}

TEST(Separate, PipelinesFitAndHoldEveryLayerOnceOnRandomClusters) {
    int placed = 0;
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 12));
        std::vector<Machine> machines;
        const auto count = random.between(1, 9);
        static const Machine kinds[] = {{"a", 100, 6}, {"b", 50, 4}, {"c", 20, 2}, {"d", 10, 0}};
        for (std::int64_t i = 0; i < count; ++i) machines.push_back(kinds[random.below(4)]);
        PublishedProblem problem = problem_of(machines, n_layers);
        if (random.chance(0.5)) {  // embedding and head cost a layer each
            for (NodeCapacity& node : problem.capacities.nodes) {
                const std::int32_t most = node.most();
                const std::int32_t one = std::max(0, most - 1);
                node.max_layers = {{{most, one}, {one, std::max(0, most - 2)}}};
            }
        }
        const auto alone = separate(problem);
        const auto plus = separate_plus(problem);
        if (alone.ok()) {
            ASSERT_TRUE(plus.ok());
            ASSERT_GE(used(*plus), used(*alone));
            ASSERT_GE(flow_of(problem, *plus), flow_of(problem, *alone) - 1e-5);
        }
        for (const auto* result : {&alone, &plus}) {
            if (!result->ok()) continue;
            ++placed;
            const SeparatePipelines& found = result->value();
            const auto fits = check_placement({problem.cluster, problem.model, problem.capacities},
                                              found.placement);
            ASSERT_TRUE(fits.ok()) << fits.error().message;
            double sum = 0;
            for (const auto& pipeline : found.pipelines) {
                std::int32_t next = 0;
                for (const std::int32_t node : pipeline.nodes) {
                    const LayerRange range = found.placement.layers[static_cast<std::size_t>(node)];
                    ASSERT_EQ(range.begin, next);
                    next = range.end;
                }
                ASSERT_EQ(next, n_layers);
                sum += pipeline.tokens_per_s;
            }
            ASSERT_NEAR(flow_of(problem, found), sum, 1e-4);
        }
    }
    EXPECT_GT(placed, 300);
}

}  // namespace
}  // namespace helix::plan::heuristics_separate_test

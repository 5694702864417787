#include "plan/rules/heuristics_separate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "milp_fixtures.h"
#include "paper_data.h"
#include "plan/planner.h"
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

// Layers of the machines of a type, by node.
std::vector<std::int32_t> held_by(const spec::Placement& placement,
                                  const std::vector<spec::NodeSpec>& nodes,
                                  const std::string& type) {
    std::vector<std::int32_t> sizes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].type == type) sizes.push_back(placement.layers[i].size());
    }
    return sizes;
}

base::Result<PlanReport> separate_plan(const PublishedProblem& problem) {
    PlanOptions options;
    options.method = Method::separate;
    options.objective = Objective::flow;
    options.capacities = &problem.capacities;
    return plan(problem.cluster, problem.model, options);
}

// The published ones hold more layers than the tables cover. On distributed24 the T4s' stages go
// another way through the machines, and which of them hold six layers differs with it.
TEST(Separate, PlansHoldAsManyLayersAsThePublishedOnesOfThe70BModel) {
    for (const std::string name : {"single24", "distributed24"}) {
        const PublishedProblem problem = published_problem(name, "llama2-70b", "single24");
        const auto planned = separate_plan(problem);
        ASSERT_TRUE(planned.ok()) << planned.error().message;
        EXPECT_GT(planned->max_flow_tokens_per_s, 0);
        for (const char* type : {"A100", "L4", "T4"}) {
            std::string file = type;
            std::transform(file.begin(), file.end(), file.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
            const auto layout = spec::read_placement_file(
                kPaperData + "/layouts/" + name + "__llama2-70b__separate_" + file + ".json");
            ASSERT_TRUE(layout.ok()) << layout.error().message;
            std::vector<std::int32_t> published;
            for (const LayerRange range : layout->placement.layers) {
                published.push_back(range.size());
            }
            std::vector<std::int32_t> ours =
                held_by(planned->placement, problem.cluster.nodes, type);
            if (name == "distributed24") {
                std::sort(published.begin(), published.end());
                std::sort(ours.begin(), ours.end());
            }
            EXPECT_EQ(ours, published) << name << ' ' << type;
        }
        ASSERT_EQ(planned->notes.size(), 3U);
        const std::string of_t4 =
            "type T4: a machine holds 7 layers where the tables end at 4: seconds per token "
            "and KV room go on as with the last layer that was measured, with room for at "
            "least 4096 tokens";
        EXPECT_EQ(std::count(planned->notes.begin(), planned->notes.end(), of_t4), 1);
    }
}

TEST(Separate, SaysWhichTypeHoldsTooLittleEvenBeyondItsTables) {
    const PublishedProblem problem = published_problem("highhet42", "llama2-70b", "highhet42");
    const auto planned = separate_plan(problem);
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    const auto said = [&](const std::string& text) {
        return std::any_of(
            planned->notes.begin(), planned->notes.end(),
            [&](const std::string& note) { return note.find(text) != std::string::npos; });
    };
    EXPECT_TRUE(
        said("the 6 machines of type V100 together hold 60 layers of 80, all that their "
             "memory has room for, even beyond their tables"));
    for (const std::int32_t layers : held_by(planned->placement, problem.cluster.nodes, "V100")) {
        EXPECT_EQ(layers, 0);
    }
    for (const char* type : {"A100", "L4x2", "T4x4"}) {
        EXPECT_EQ(held_by(planned->placement, problem.cluster.nodes, type),
                  (std::vector<std::int32_t>{20, 20, 20, 20}));
    }
}

TEST(Separate, OnlySeparatePipelinesAloneAreBeyondTables) {
    const PublishedProblem problem = published_problem("single24", "llama2-70b", "single24");
    const Problem asked{problem.cluster, problem.model, problem.capacities};
    const CapacityTable made = separate_capacities(asked);
    for (std::size_t i = 0; i < made.nodes.size(); ++i) {
        const NodeCapacity& measured = problem.capacities.nodes[i];
        const NodeCapacity& node = made.nodes[i];
        const auto end = static_cast<std::size_t>(measured.most());
        ASSERT_GT(node.most(), measured.most());
        ASSERT_EQ(node.tokens_per_s.size(), static_cast<std::size_t>(node.most()) + 1);
        ASSERT_EQ(node.kv_tokens.size(), node.tokens_per_s.size());
        const double step_s = 1 / node.tokens_per_s[end] - 1 / node.tokens_per_s[end - 1];
        for (std::size_t j = 1; j < node.tokens_per_s.size(); ++j) {
            if (j <= end) {
                EXPECT_EQ(node.tokens_per_s[j], measured.tokens_per_s[j]);
                EXPECT_EQ(node.kv_tokens[j], measured.kv_tokens[j]);
                continue;
            }
            EXPECT_NEAR(1 / node.tokens_per_s[j] - 1 / node.tokens_per_s[j - 1], step_s, 1e-9);
            EXPECT_LE(node.kv_tokens[j], node.kv_tokens[j - 1]);
            EXPECT_GE(node.kv_tokens[j], 4096);
        }
    }
    // A search is held to the tables, and so is a model that they cover.
    PlanOptions options;
    options.objective = Objective::flow;
    options.iterations = 10;
    options.capacities = &problem.capacities;
    const auto searched = plan(problem.cluster, problem.model, options);
    ASSERT_TRUE(searched.ok()) << searched.error().message;
    EXPECT_TRUE(check_placement(asked, searched->placement).ok());
    const PublishedProblem smaller = published_problem("single24", "llama1-30b", "single24");
    const CapacityTable same =
        separate_capacities({smaller.cluster, smaller.model, smaller.capacities});
    for (std::size_t i = 0; i < same.nodes.size(); ++i) {
        EXPECT_EQ(same.nodes[i].tokens_per_s, smaller.capacities.nodes[i].tokens_per_s);
    }
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

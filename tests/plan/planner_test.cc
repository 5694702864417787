#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/effort.h"
#include "plan/bounds/bounds.h"
#include "plan/flow/evaluator.h"
#include "plan/problem/problem.h"
#include "plan_fixtures.h"
#include "spec/measured_node.h"

namespace helix::plan::planner_test {
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

TEST(Planner, NamesAMissingPlaceForTheEmbedding) {
    auto model = small_model(4);
    model.embedding_bytes = 100'000'000;
    const auto report = plan(cluster_of({machine("a", 10, 1e-4)}), model, {});
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message, HasSubstr("embedding"));
    EXPECT_THAT(report.error().message, HasSubstr("layer 0"));
}

TEST(Planner, NamesTheNodeWithoutMeasurements) {
    auto cluster = cluster_of({machine("a", 40, 1e-4), machine("b", 40, 1e-4)});
    cluster.nodes[1].prefill_s_per_token_layer = 0;
    const auto report = plan(cluster, small_model(4), {});
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message, HasSubstr("node b: prefill_s_per_token_layer"));
}

TEST(Planner, SaysThatMissingLinksAreTheReason) {
    auto cluster = cluster_of({machine("a", 3, 1e-4), machine("b", 3, 1e-4)});
    std::erase_if(cluster.links, [](const spec::LinkSpec& link) {
        return link.from != kCoordinator && link.to != kCoordinator;
    });
    const auto report = plan(cluster, small_model(4), {});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, base::Errc::unavailable);
    EXPECT_THAT(report.error().message, HasSubstr("links"));
}

TEST(Planner, ANarrowLinkIsAvoidedAndNamedWhenItLimits) {
    // Two machines hold half each; a -> b carries 50 tokens/s, b -> a plenty: b must come first.
    auto cluster = cluster_of({machine("a", 3, 1e-3), machine("b", 3, 1e-3)});
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 0 && link.to == 1) link.bandwidth_bytes_per_s = 50'000;
    }
    const auto model = small_model(4);
    const auto report = plan(cluster, model, {});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->placement.layers, (std::vector<LayerRange>{{2, 4}, {0, 2}}));
    EXPECT_NEAR(report->max_flow_tokens_per_s, 500, 1e-3);
    for (spec::LinkSpec& link : cluster.links) {
        if (link.from == 1 && link.to == 0) link.bandwidth_bytes_per_s = 60'000;
    }
    const auto narrow = plan(cluster, model, {});
    ASSERT_TRUE(narrow.ok()) << narrow.error().message;
    EXPECT_NEAR(narrow->max_flow_tokens_per_s, 60, 1e-3);
    EXPECT_EQ(narrow->min_cut_text, "the link b -> a");
    ASSERT_EQ(narrow->min_cut.size(), 1U);
    EXPECT_EQ(narrow->min_cut[0].kind, FlowGraph::Kind::link);
}

TEST(Planner, ManualPlacementsAreJudgedOrRefused) {
    const auto cluster = cluster_of({machine("a", 3, 1e-3), machine("b", 3, 1e-3)});
    PlanOptions options;
    options.method = Method::manual;
    options.manual.layers = {{0, 2}, {2, 4}};
    const auto good = plan(cluster, small_model(4), options);
    ASSERT_TRUE(good.ok()) << good.error().message;
    EXPECT_NEAR(good->max_flow_tokens_per_s, 500, 1e-3);
    options.manual.layers = {{0, 4}, {}};
    const auto heavy = plan(cluster, small_model(4), options);
    ASSERT_FALSE(heavy.ok());
    EXPECT_THAT(heavy.error().message, HasSubstr("node a"));
    EXPECT_THAT(heavy.error().message, HasSubstr("at most 3"));
    options.manual.layers = {{0, 2}};
    EXPECT_FALSE(plan(cluster, small_model(4), options).ok());
    options.manual.layers = {{0, 2}, {3, 5}};
    EXPECT_FALSE(plan(cluster, small_model(4), options).ok());
}

TEST(Planner, JoinedLayersStayTogether) {
    auto model = small_model(12);
    model.joined_layers = 5;
    const auto holds = [&](const PlanReport& report) {
        return std::all_of(report.placement.layers.begin(), report.placement.layers.end(),
                           [&](LayerRange range) { return spec::may_hold(model, range); });
    };
    base::Random random(7);
    for (int trial = 0; trial < 12; ++trial) {
        std::vector<spec::NodeSpec> nodes{machine("big", 8.0 + trial % 5, 1e-3)};
        for (int i = 0; i < 2 + trial % 3; ++i) {
            nodes.push_back(machine("n" + std::to_string(i),
                                    static_cast<double>(random.between(3, 13)),
                                    1e-4 * static_cast<double>(random.between(1, 20))));
        }
        const auto cluster = cluster_of(nodes);
        for (const Method method :
             {Method::search, Method::even, Method::petals, Method::swarm, Method::replicated}) {
            PlanOptions options;
            options.method = method;
            options.objective = Objective::flow;
            options.iterations = 3000;
            const auto report = plan(cluster, model, options);
            if (method == Method::search) {
                ASSERT_TRUE(report.ok()) << trial << ": " << report.error().message;
            }
            if (!report.ok()) continue;
            EXPECT_TRUE(holds(*report)) << trial << " " << to_string(method);
            EXPECT_GT(report->max_flow_tokens_per_s, 0);
        }
    }
}

TEST(Planner, JoinedLayersThatNobodyHoldsOrThatAreDividedAreNamed) {
    auto model = small_model(4);
    model.joined_layers = 3;
    const auto cluster = cluster_of({machine("a", 3, 1e-3), machine("b", 3, 1e-3)});
    PlanOptions options;
    options.method = Method::manual;
    options.manual.layers = {{0, 2}, {2, 4}};
    const auto divided = plan(cluster, model, options);
    ASSERT_FALSE(divided.ok());
    EXPECT_EQ(
        divided.error().message,
        "placement: node a has layers [0, 2), but the last 3 of small, [1, 4), share keys and "
        "values and stay together");
    options.manual.layers = {{0, 1}, {1, 4}};
    const auto whole = plan(cluster, model, options);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    EXPECT_GT(whole->max_flow_tokens_per_s, 0);
    options.method = Method::milp;
    EXPECT_THAT(plan(cluster, model, options).error().message,
                HasSubstr("method milp: it may divide the last 3 layers of small"));
    const auto small =
        cluster_of({machine("a", 2, 1e-3), machine("b", 2, 1e-3), machine("c", 2, 1e-3)});
    options.method = Method::automatic;
    const auto none = plan(small, model, options);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, base::Errc::unavailable);
    EXPECT_THAT(none.error().message, HasSubstr("can hold layers 1 to 3 of small"));
}

TEST(Planner, SameSeedSamePlan) {
    base::Random random(5);
    const auto cluster = random_cluster(random, 6, 0.1);
    const auto capacities = random_capacities(random, 6, 8);
    PlanOptions options;
    options.capacities = &capacities;
    options.iterations = 5000;
    const auto a = plan(cluster, small_model(8), options);
    const auto b = plan(cluster, small_model(8), options);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->placement.layers, b->placement.layers);
    EXPECT_EQ(a->node_flow, b->node_flow);
}

TEST(Planner, StopEndsTheSearchEarlyWithThePlanSoFar) {
    base::Random random(5);
    const auto cluster = random_cluster(random, 12, 0);
    const auto capacities = random_capacities(random, 12, 8);
    PlanOptions options;
    options.capacities = &capacities;
    options.iterations = std::numeric_limits<std::int64_t>::max() / 4;
    int asked = 0;
    options.stop = [&] { return ++asked > 200; };
    const auto report = plan(cluster, small_model(32), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_GT(asked, 200);
    EXPECT_LT(asked, 300);  // every phase ends as soon as it is told
    EXPECT_GT(report->max_flow_tokens_per_s, 0);
}

// Two machines that both rules and program can use.
CapacityTable two_halves() {
    CapacityTable capacities;
    for (int i = 0; i < 2; ++i) {
        NodeCapacity node;
        for (auto& row : node.max_layers) row = {2, 2};
        node.tokens_per_s = {0, 90, 45};
        node.kv_tokens = {0, 1, 1};
        capacities.nodes.push_back(node);
    }
    return capacities;
}

TEST(Planner, TheProgramsPlanIsTheSolversOwnOrNone) {
    const auto cluster = cluster_of({machine("a", 2, 1e-3), machine("b", 2, 1e-3)});
    const CapacityTable capacities = two_halves();
    PlanOptions options;
    options.method = Method::milp;
    options.capacities = &capacities;
    options.milp.stop.asked = [] { return true; };  // before it could find anything
    options.milp_start = MilpStart::none;
    const auto nothing = plan(cluster, small_model(4), options);
    ASSERT_FALSE(nothing.ok()) << "a rule's plan was handed out as " << nothing->method;
    EXPECT_EQ(nothing.error().code, base::Errc::unavailable);
    EXPECT_THAT(nothing.error().message, HasSubstr("cbc found nothing that carries a token"));
    EXPECT_THAT(nothing.error().message, HasSubstr("start: none"));

    options.milp_start = MilpStart::rules;
    const auto started = plan(cluster, small_model(4), options);
    ASSERT_TRUE(started.ok()) << started.error().message;
    ASSERT_TRUE(started->milp.has_value());
    EXPECT_TRUE(started->milp->start_used);
    EXPECT_FALSE(started->milp->improved());
    EXPECT_EQ(started->method, started->milp->start_method) << "who found it";
    EXPECT_NE(started->method, "milp");

    options.milp.stop = {};
    options.milp.stop.near_bound = 0;  // to the proof
    options.milp.stop.good_enough = 0;
    options.milp_start = MilpStart::none;
    const auto solved = plan(cluster, small_model(4), options);
    ASSERT_TRUE(solved.ok()) << solved.error().message;
    EXPECT_EQ(solved->method, "milp");
    EXPECT_TRUE(solved->milp->proven());
    EXPECT_TRUE(solved->milp->agrees());
    EXPECT_NEAR(solved->milp->objective, 45, 1e-6);
    EXPECT_NEAR(solved->max_flow_tokens_per_s, 45, 1e-6);
}

TEST(Planner, TheProgramMayStartFromOurOwnPlanAndItsBound) {
    const auto cluster = cluster_of({machine("a", 2, 1e-3), machine("b", 2, 1e-3)});
    const CapacityTable capacities = two_halves();
    PlanOptions options;
    options.method = Method::milp;
    options.capacities = &capacities;
    options.milp_start = MilpStart::search;
    const auto solved = plan(cluster, small_model(4), options);
    ASSERT_TRUE(solved.ok()) << solved.error().message;
    EXPECT_TRUE(solved->milp->start_used) << solved->milp->start_note;
    EXPECT_NEAR(solved->milp->start_flow, 45, 1e-6);
    EXPECT_EQ(solved->method, solved->milp->start_method);
    EXPECT_NEAR(solved->upper_bound_tokens_per_s, 45, 1e-3);
    EXPECT_TRUE(solved->proven_optimal);
}

// The best flow of all placements, by trying them all.
double exhaustive_flow(const Evaluator& evaluator, const CapacityTable& capacities,
                       std::int32_t n_layers) {
    spec::Placement placement{std::vector<LayerRange>(capacities.nodes.size())};
    double best = 0;
    const std::function<void(std::size_t)> place = [&](std::size_t i) {
        if (i == capacities.nodes.size()) {
            best = std::max(best, evaluator.flow(placement.layers));
            return;
        }
        placement.layers[i] = {};
        place(i + 1);
        for (std::int32_t s = 0; s < n_layers; ++s) {
            for (std::int32_t e = s + 1; e <= n_layers; ++e) {
                if (!capacities.nodes[i].fits({s, e}, n_layers)) continue;
                placement.layers[i] = {s, e};
                place(i + 1);
            }
        }
    };
    place(0);
    return best;
}

TEST(Planner, SearchFindsTheExhaustiveOptimumOfTinyClusters) {
    int compared = 0;
    for (std::uint64_t seed = 0; seed < (kSanitized ? 15 : 60); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n_layers = static_cast<std::int32_t>(random.between(2, 4));
        const auto cluster = random_cluster(random, 3, 0.1);
        const auto capacities = random_capacities(random, 3, n_layers);
        const auto model = small_model(n_layers);
        PlanOptions options;
        options.capacities = &capacities;
        options.flow.partial = random.chance(0.5);
        options.flow_tolerance = 0;
        options.iterations = 12'000;
        const double best = exhaustive_flow(Evaluator({cluster, model, capacities}, options.flow),
                                            capacities, n_layers);
        EXPECT_LE(best, flow_bounds({cluster, model, capacities}).best * (1 + 1e-9));
        const auto report = plan(cluster, model, options);
        ASSERT_EQ(report.ok(), best > 0);
        if (!report.ok()) continue;
        ++compared;
        EXPECT_NEAR(report->max_flow_tokens_per_s, best, 1e-4);
    }
    EXPECT_GT(compared, kSanitized ? 5 : 20);
}

TEST(Planner, NeverWorseThanTheBestHeuristicAndAlwaysValidOnRandomClusters) {
    int planned = 0;
    for (std::uint64_t seed = 0; seed < sweep(250U); ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(1, 8));
        const auto n_layers = static_cast<std::int32_t>(random.between(1, 12));
        const auto cluster = random_cluster(random, n, random.chance(0.5) ? 0 : 0.15);
        const auto capacities = random_capacities(random, n, n_layers);
        const auto model = small_model(n_layers);
        PlanOptions options;
        options.capacities = &capacities;
        options.flow.partial = random.chance(0.7);
        options.iterations = 400;
        options.tight_bound = seed % 8 == 0;
        double best = 0;
        for (const Method method :
             {Method::even, Method::replicated, Method::petals, Method::swarm}) {
            options.method = method;
            const auto heuristic = plan(cluster, model, options);
            if (heuristic.ok()) best = std::max(best, heuristic->max_flow_tokens_per_s);
        }
        options.method = Method::automatic;
        for (const double tolerance : {0.0, 0.02}) {
            options.flow_tolerance = tolerance;
            const auto report = plan(cluster, model, options);
            ASSERT_TRUE(report.ok() || best == 0) << report.error().message;
            if (!report.ok()) continue;
            ++planned;
            ASSERT_GE(report->max_flow_tokens_per_s, best * (1 - tolerance) - 1e-9);
            ASSERT_LE(report->max_flow_tokens_per_s, report->upper_bound_tokens_per_s * (1 + 1e-6));
            const auto fits = check_placement({cluster, model, capacities}, report->placement);
            ASSERT_TRUE(fits.ok()) << fits.error().message;
            expect_every_path_is_a_pipeline(*report, n_layers);
            for (std::size_t i = 0; i < report->node_flow.size(); ++i) {
                ASSERT_EQ(report->node_flow[i] > 0, !report->placement.layers[i].empty());
                ASSERT_LE(report->node_flow[i], report->node_tokens_per_s[i] * (1 + 1e-9));
            }
        }
    }
    EXPECT_GT(planned, sweep(150));
}

TEST(Capacity, MemoryRulesAtTheirEdges) {
    const auto model =
        small_model(8);  // 1 MB a layer, KV 100 B a token, context 1024: 102,400 B a layer
    auto cluster = cluster_of({machine("a", 1, 1e-3)});
    const auto most = [&](std::int64_t bytes, const MemoryRule& rule) {
        cluster.nodes[0].memory_bytes = bytes;
        return capacity_from_costs(cluster, model, spec::MeasuredNode(), {}, rule).nodes[0].most();
    };
    // One full-context sequence needs less than 20 %: 2 layers and their KV.
    EXPECT_EQ(most(2 * 1'102'400, {}), 2);
    EXPECT_EQ(most(2 * 1'102'400 - 1, {}), 1);
    // Half of the memory: exactly half is allowed.
    EXPECT_EQ(most(4'000'000, {.half_of_memory = true}), 2);
    EXPECT_EQ(most(3'999'999, {.half_of_memory = true}), 1);
    // No more than the model has.
    EXPECT_EQ(most(1'000'000'000, {}), 8);
}

TEST(Capacity, ThroughputIsTheMixOfPrefillAndDecode) {
    auto cluster = cluster_of({machine("a", 100, 1e-3)});
    cluster.nodes[0].decode_s_per_layer = 2e-3;
    cluster.nodes[0].decode_batch_s_per_layer = 4e-3;
    cluster.nodes[0].prefill_s_per_token_layer = 1e-4;
    const auto table = capacity_from_costs(cluster, small_model(8), spec::MeasuredNode(), {}, {});
    const double seconds = (763 * 1e-4 + 232 * (4e-3 / 8)) / 995;
    EXPECT_NEAR(table.nodes[0].tokens_per_s[4], 1 / (4 * seconds), 1e-9);
}

}  // namespace
}  // namespace helix::plan::planner_test

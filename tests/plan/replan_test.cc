#include "plan/change/replan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paper_data.h"
#include "plan/change/cluster_change.h"
#include "plan/flow/evaluator.h"
#include "plan/plan_fixtures.h"
#include "plan/planner.h"
#include "plan/problem/problem.h"
#include "plan/problem/typical_throughput.h"
#include "spec/cluster_file.h"
#include "spec/measured_node.h"

namespace helix::plan::replan_test {
namespace {

using spec::LayerRange;
using testing::HasSubstr;

CapacityTable capacities_of(const spec::ClusterSpec& cluster, const spec::ModelSpec& model) {
    return capacity_from_costs(cluster, model, spec::MeasuredNode(), Workload{}, MemoryRule{});
}

TEST(PlacementDiff, CountsWhatIsLoadedAndDropped) {
    spec::ModelSpec model = small_model(10);
    model.embedding_bytes = 500'000;
    model.head_bytes = 300'000;
    EXPECT_EQ(bytes_to_load(model, {0, 4}, {2, 6}), 2'000'000);
    EXPECT_EQ(bytes_to_load(model, {4, 8}, {0, 10}), 6'800'000);
    EXPECT_EQ(bytes_to_load(model, {}, {8, 10}), 2'300'000);
    EXPECT_EQ(bytes_to_load(model, {0, 4}, {}), 0);
    EXPECT_EQ(bytes_to_load(model, {0, 4}, {1, 3}), 0);
    spec::ModelSpec with_tables = model;
    with_tables.common_bytes = 7'000'000;
    EXPECT_EQ(bytes_to_load(with_tables, {}, {4, 6}), 9'000'000);
    EXPECT_EQ(bytes_to_load(with_tables, {4, 8}, {0, 10}), 6'800'000);
    EXPECT_EQ(bytes_to_load(with_tables, {1, 2}, {4, 6}), 2'000'000);
    EXPECT_EQ(bytes_to_load(with_tables, {1, 2}, {}), 0);

    spec::ClusterSpec cluster = cluster_of({machine("a", 8, 1e-3), machine("b", 8, 1e-3)}, 1e6);
    cluster.nodes[1].nic_in_bytes_per_s = 0.5e6;
    const spec::Placement before{{{0, 5}, {5, 10}}};
    const spec::Placement after{{{0, 5}, {3, 10}}};
    const PlacementDiff diff = placement_diff(cluster, model, before, after, 0);
    ASSERT_EQ(diff.moves.size(), 1U);
    EXPECT_EQ(diff.moves[0].node, 1);
    EXPECT_EQ(diff.moves[0].loaded, 2);
    EXPECT_EQ(diff.moves[0].dropped, 0);
    EXPECT_DOUBLE_EQ(diff.seconds, 4);  // 2 MB through the NIC
    EXPECT_DOUBLE_EQ(placement_diff(cluster, model, before, after, 2e6).seconds, 1);  // disk
    const PlacementDiff back = placement_diff(cluster, model, after, before, 0);
    EXPECT_EQ(back.bytes, 0);
    EXPECT_EQ(back.kv_layers, 2);
    EXPECT_THAT(describe_diff(cluster, diff),
                HasSubstr("b  layers 5-9 -> layers 3-9  loads 2 (2 MB, 4 s)"));
    EXPECT_THAT(describe_diff(cluster, back), HasSubstr("drops 2"));
    EXPECT_EQ(describe_diff(cluster, placement_diff(cluster, model, before, before, 0)),
              "nothing moves\n");
}

TEST(Replan, StaysWhenMovingIsTooDearAndMovesWhenItIsCheap) {
    // Two fast machines do everything; a third, slow one is spare.
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 8, 1e-3), machine("b", 8, 1e-3), machine("c", 8, 1e-3)});
    const CapacityTable capacities = capacities_of(cluster, model);
    const spec::Placement current{{{0, 4}, {4, 8}, {}}};
    ReplanOptions options{.price_per_byte = 1, .iterations = 20'000};
    const auto stays = replan({cluster, model, capacities}, current, options);
    ASSERT_TRUE(stays.ok()) << stays.error().message;
    EXPECT_EQ(stays->placement.layers, current.layers);
    EXPECT_EQ(stays->flow, stays->flow_before);
    EXPECT_TRUE(stays->diff.moves.empty());
    options.price_per_byte = 1e-9;
    const auto moves = replan({cluster, model, capacities}, current, options);
    ASSERT_TRUE(moves.ok()) << moves.error().message;
    EXPECT_GT(moves->flow, 1.3 * moves->flow_before);
    EXPECT_GT(moves->diff.bytes, 0);
    EXPECT_NEAR(moves->value, moves->flow - 1e-9 * static_cast<double>(moves->diff.bytes), 1e-6);
}

TEST(Replan, ALostLayerIsTakenOverByWhoIsNear) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 6, 1e-3), machine("b", 6, 1e-3), machine("c", 6, 1e-3)});
    const CapacityTable capacities = capacities_of(cluster, model);
    const spec::Placement broken{{{0, 3}, {6, 8}, {}}};  // layers 3 to 5 are lost
    const auto whole = replan({cluster, model, capacities}, broken,
                              {.price_per_byte = 5e-5, .iterations = 20'000});
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    EXPECT_EQ(whole->flow_before, 0);
    EXPECT_GT(whole->flow, 0);
    EXPECT_EQ(whole->placement.layers[2], (LayerRange{3, 6}));
    EXPECT_EQ(whole->diff.bytes, 3 * model.layer_bytes);
}

TEST(Replan, TheObjectiveChoosesAmongPlacementsOfMuchFlow) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster =
        cluster_of({machine("a", 8, 1e-3), machine("b", 8, 1e-3), machine("c", 8, 1e-3)});
    const CapacityTable capacities = capacities_of(cluster, model);
    const spec::Placement current{{{0, 4}, {4, 8}, {}}};
    // Likes only what is there already.
    const auto same = replan({cluster, model, capacities}, current,
                             {.objective =
                                  [&](const spec::Placement& placement) {
                                      return placement.layers == current.layers ? 1e6 : 1.0;
                                  },
                              .iterations = 5'000});
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(same->placement.layers, current.layers);
    EXPECT_EQ(same->value, 1e6);
}

TEST(Replan, JoinedLayersStayTogether) {
    auto model = small_model(12);
    model.joined_layers = 6;
    const auto cluster = cluster_of({machine("a", 13, 1e-3), machine("b", 8, 1e-3),
                                     machine("c", 9, 1e-4), machine("d", 5, 1e-4)});
    const CapacityTable capacities = capacities_of(cluster, model);
    const Problem problem{cluster, model, capacities};
    ReplanOptions options;
    options.price_per_byte = 1e-12;
    options.iterations = 4000;
    const auto result = replan(problem, {{{0, 12}, {}, {}, {}}}, options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GT(result->flow, result->flow_before) << "the others were put to use";
    for (const LayerRange range : result->placement.layers)
        EXPECT_TRUE(spec::may_hold(model, range)) << range.begin << "-" << range.end;
    EXPECT_FALSE(replan(problem, {{{0, 7}, {7, 12}, {}, {}}}, options).ok());
}

TEST(Replan, WhatCannotServeIsAnError) {
    const spec::ModelSpec model = small_model(8);
    const spec::ClusterSpec cluster = cluster_of({machine("a", 3, 1e-3), machine("b", 3, 1e-3)});
    const CapacityTable capacities = capacities_of(cluster, model);
    const auto result =
        replan({cluster, model, capacities}, {{{0, 2}, {2, 4}}}, {.iterations = 2'000});
    EXPECT_EQ(result.error().code, base::Errc::unavailable);
    EXPECT_THAT(replan({cluster, model, capacities}, {{{0, 2}}}, {}).error().message,
                HasSubstr("has 1 nodes"));
    EXPECT_THAT(replan({cluster, model, capacities}, {{{0, 8}, {}}}, {}).error().message,
                HasSubstr("can hold at most"));
}

// Whatever is lost, what remains is found to serve, validly, as its flow says, and worth no less
// than staying; twice the same.
TEST(Replan, AfterAnyLossOnRandomClusters) {
    const spec::ModelSpec model = small_model(12);
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        const auto n = static_cast<std::int32_t>(random.between(3, 8));
        spec::ClusterSpec cluster = random_cluster(random, n, 0.05);
        const CapacityTable capacities = random_capacities(random, n, 8);
        const spec::Placement current = random_placement(random, capacities, model.n_layers);
        ReplanOptions options{.flow = {.partial = random.chance(0.5)},
                              .price_per_byte = random.uniform() * 1e-5,
                              .price_per_kv_layer = random.uniform(),
                              .seed = seed,
                              .iterations = 3'000};
        const Evaluator evaluator({cluster, model, capacities}, options.flow);
        const double before = evaluator.flow(current.layers);
        const auto result = replan({cluster, model, capacities}, current, options);
        if (!result.ok()) {
            EXPECT_EQ(before, 0);
            continue;
        }
        EXPECT_DOUBLE_EQ(result->flow_before, before);
        EXPECT_TRUE(check_placement({cluster, model, capacities}, result->placement).ok());
        EXPECT_NEAR(result->flow, evaluator.flow(result->placement.layers), 1e-6);
        const double price =
            options.price_per_byte * static_cast<double>(result->diff.bytes) +
            options.price_per_kv_layer * static_cast<double>(result->diff.kv_layers);
        EXPECT_NEAR(result->value, result->flow - price, 1e-6);
        if (before > 0) {
            EXPECT_GE(result->value, before - 1e-6);
        }
        const auto again = replan({cluster, model, capacities}, current, options);
        EXPECT_EQ(again->placement.layers, result->placement.layers);
    }
}

// Ten regions of a hundred machines; each region has pipelines of its own.
TEST(Replan, OneRegionOfAThousandMachines) {
    const spec::ModelSpec model = small_model(20);
    spec::ClusterSpec cluster;
    spec::Placement current;
    for (std::int32_t i = 0; i < 1000; ++i) {
        cluster.nodes.push_back(machine("m" + std::to_string(i), 6, 1e-3));
        cluster.nodes.back().region = "r" + std::to_string(i / 100);
        const std::int32_t begin = i % 5 * 4;
        current.layers.push_back({begin, begin + 4});
    }
    for (std::int32_t from = spec::kCoordinator; from < 1000; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < 1000; ++to) {
            const bool near = from < 0 || to < 0 || from / 100 == to / 100;
            if (from != to) cluster.links.push_back({from, to, near ? 1.25e9 : 1e5, 1e-3});
        }
    }
    const CapacityTable capacities = capacities_of(cluster, model);
    current.layers[307] = {};  // as if it had just come back, or another had gone
    const auto result = replan_regions({cluster, model, capacities}, current, {"r3"},
                                       {.price_per_byte = 1e-6, .iterations = 20'000});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GT(result->flow, result->flow_before);
    EXPECT_FALSE(result->diff.moves.empty());
    for (const NodeMove& move : result->diff.moves) EXPECT_EQ(move.node / 100, 3);
    for (std::size_t i = 0; i < 1000; ++i) {
        if (i / 100 != 3) {
            ASSERT_EQ(result->placement.layers[i], current.layers[i]);
        }
    }
    EXPECT_THAT(replan_regions({cluster, model, capacities}, current, {"moon"}, {}).error().message,
                HasSubstr("moon"));
}

TEST(Replan, PublishedClusterAfterTheLossOfAMachine) {
    const std::string data = kPaperData;
    const auto cluster = spec::read_cluster_file(data + "/clusters/single24.json");
    const auto tables = spec::ProfileTables::read(data + "/profiles", "llama2-70b");
    ASSERT_TRUE(cluster.ok() && tables.ok());
    const auto speeds = [&](const spec::ClusterSpec& c) {
        return *capacity_from_tables(c, *tables,
                                     *typical_throughput(*tables, machine_counts(*cluster)));
    };
    const CapacityTable capacities = speeds(*cluster);
    PlanOptions plan_options;
    plan_options.capacities = &capacities;
    plan_options.flow.partial = false;
    plan_options.iterations = 20'000;
    const auto whole = plan(*cluster, tables->model(), plan_options);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    for (const std::size_t lost : {0UL, 10UL, 15UL}) {  // an L4, an A100 and a T4
        SCOPED_TRACE(cluster->nodes[lost].type);
        const auto left = apply_change(*cluster, RemoveMachine{cluster->nodes[lost].name});
        ASSERT_TRUE(left.ok());
        const auto again =
            replan({left->cluster, tables->model(), speeds(left->cluster)},
                   carry_over(whole->placement, left->origin),
                   {.flow = {.partial = false},
                    .price_per_byte = move_price(whole->max_flow_tokens_per_s, 1e9, 1000),
                    .iterations = 100'000});
        ASSERT_TRUE(again.ok()) << again.error().message;
        EXPECT_GT(again->flow, 0.6 * whole->max_flow_tokens_per_s);
        EXPECT_LT(again->diff.bytes, 60e9);  // of 122 GB
    }
}

}  // namespace
}  // namespace helix::plan::replan_test

// The planner's bound on how long an answer stands still when a machine dies
// (plan/losses/stall_bound.h), against what clients of the simulated cluster see.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/random.h"
#include "plan/losses/stall_bound.h"
#include "sim/client_gaps.h"
#include "sim/faults/faulty_cluster.h"
#include "sim/flat_cost.h"

namespace helix::sim::stall_test {
namespace {

constexpr std::int32_t kLayers = 8;
constexpr double kLoadSeconds = 0.5;
constexpr double kTickSeconds = 0.1;

struct Measured {
    double longest_s = 0;
    double bound_s = 0;
};

// Workers with these layers; the last of them that has any dies while they all serve. With spare,
// another one then gets its layers.
Measured lose_one(std::uint64_t seed, const std::vector<spec::LayerRange>& layers, bool spare) {
    const FlatCost cost(0.001, 0.1, 0.25);
    base::Random random(seed);
    spec::ClusterSpec cluster;
    const auto n = static_cast<std::int32_t>(layers.size());
    for (std::int32_t i = 0; i < n; ++i) {
        spec::NodeSpec node;
        node.name = "w" + std::to_string(i);
        node.memory_bytes = 2'000'000'000;
        cluster.nodes.push_back(node);
        for (std::int32_t j = spec::kCoordinator; j < n; ++j) {
            if (j == i) continue;
            cluster.links.push_back({i, j, 1e10, 0.001});
            if (j == spec::kCoordinator) cluster.links.push_back({j, i, 1e10, 0.001});
        }
    }
    spec::ModelSpec model;
    model.n_layers = kLayers;
    model.layer_bytes = 100'000'000;
    model.token_bytes = 4;
    model.activation_bytes_per_token = 8192;
    model.kv_bytes_per_token_layer = 1000;
    model.context_length = 1000;
    FaultyClusterConfig how;
    how.coordinator.n_layers = how.worker.n_layers = kLayers;
    how.coordinator.context_length = model.context_length;
    how.load_s = kLoadSeconds;
    how.silent_limit_s = 2;
    how.check_invariants = false;  // the other tests do
    FaultyCluster world(
        how,
        [&](const core::PlanCluster& request) -> core::CoordinatorEvent {
            core::Planned planned;
            planned.plan = request.plan;
            // What the one that is gone had the spare one gets.
            const bool all = request.workers.size() == layers.size();
            for (const core::WorkerId id : request.workers) {
                const bool takes = !all && spare && layers[id.value].empty();
                planned.placement.layers.push_back(takes ? layers[layers.size() - 2]
                                                         : layers[id.value]);
            }
            const auto& held = planned.placement.layers;
            for (std::size_t i = 0; i < held.size(); ++i) {
                const auto from = static_cast<std::int32_t>(i);
                if (held[i].empty()) continue;
                if (held[i].begin == 0) planned.flows.push_back({spec::kCoordinator, from, 10});
                if (held[i].end == kLayers) planned.flows.push_back({from, spec::kCoordinator, 10});
                for (std::size_t j = 0; j < held.size(); ++j) {
                    if (held[j].empty() || held[j].begin != held[i].end) continue;
                    planned.flows.push_back({from, static_cast<std::int32_t>(j), 10});
                }
            }
            return planned;
        },
        cost);
    ClientGaps gaps;
    world.set_watch(&gaps);
    for (const spec::NodeSpec& node : cluster.nodes) world.add_worker(node, 20000);
    world.run_for(3);
    plan::StallRule rule;
    rule.requests = static_cast<double>(random.between(1, 4));
    rule.context_tokens = 0;
    for (int i = 0; i < static_cast<int>(rule.requests); ++i) {
        core::Request request;
        request.prompt.assign(static_cast<std::size_t>(random.between(1, 700)), 5);
        request.max_tokens = static_cast<std::int32_t>(random.between(100, 200));
        request.sampling.seed = random.next();
        rule.context_tokens =
            std::max(rule.context_tokens, static_cast<double>(request.prompt.size()) +
                                              static_cast<double>(request.max_tokens));
        world.submit(request);
    }
    world.run_for(0.5 + 3 * random.uniform());
    // Nobody tells: it falls silent.
    world.kill({static_cast<std::uint32_t>(layers.size() - (spare ? 2 : 1))}, 1000);
    EXPECT_TRUE(world.run_until_idle(200)) << "seed " << seed;
    EXPECT_EQ(gaps.failed, 0) << "seed " << seed;
    rule.detection_s = how.silent_limit_s + kTickSeconds;
    rule.settle_s = how.coordinator.settle.seconds() + kTickSeconds;
    rule.plan_s = 0.01;
    rule.load_bytes_per_s = kLayers * static_cast<double>(model.layer_bytes) / kLoadSeconds;
    const plan::CapacityTable capacities =
        plan::capacity_from_costs(cluster, model, cost, {}, plan::MemoryRule{});
    const std::vector<plan::Stall> stalls =
        plan::stalls_after_losses({cluster, model, capacities}, {layers}, {}, rule);
    Measured measured;
    measured.longest_s = gaps.longest_s;
    for (const plan::Stall& stall : stalls) {
        measured.bound_s = std::max(measured.bound_s, stall.bound_s());
        EXPECT_EQ(stall.whole, !spare);
    }
    return measured;
}

void expect_bounded(const std::vector<spec::LayerRange>& layers, bool spare) {
    double longest = 0;
    double closest = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Measured measured = lose_one(seed, layers, spare);
        EXPECT_LE(measured.longest_s, measured.bound_s) << "seed " << seed;
        longest = std::max(longest, measured.longest_s);
        closest = std::max(closest, measured.longest_s / measured.bound_s);
    }
    std::printf("longest pause %.2f s, at most %.0f %% of its bound\n", longest, closest * 100);
    EXPECT_GT(longest, 2) << "the machine that died served nobody";
}

TEST(StallBound, HoldsWhereTheOthersServeAtOnce) {
    expect_bounded({{0, kLayers}, {0, kLayers}, {0, kLayers}}, false);
}

TEST(StallBound, HoldsWhereAnotherLoadsItsLayersFirst) {
    expect_bounded({{0, 4}, {4, kLayers}, {}}, true);
}

}  // namespace
}  // namespace helix::sim::stall_test

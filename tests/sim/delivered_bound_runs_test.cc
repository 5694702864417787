// The planner's bound on what is delivered against runs of all placements of small clusters.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/bounds/delivered_bound.h"
#include "plan/flow/flow_graph.h"
#include "sim/throughput/helix_run.h"

namespace helix::sim::delivered_bound_runs_test {
namespace {

// Machines of type "slow" take three times as long. Prompts and decodes of a batch add up.
class TwoSpeeds final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec& node, std::int32_t decodes,
                   std::int32_t rows) const override {
        const double fast_s =
            (decodes > 0 ? 0.004 + decodes * 2e-4 : 0) + (rows > 0 ? 0.001 + rows * 2e-5 : 0);
        return node.type == "slow" ? 3 * fast_s : fast_s;
    }
};

struct Machines {
    spec::ClusterSpec cluster{.name = "machines", .nodes = {}, .links = {}};
    plan::CapacityTable capacities;

    // A machine for up to `layers` layers; what it does not need for weights is KV memory.
    void add(const char* type, std::int32_t layers, double token_layers) {
        spec::NodeSpec node;
        node.name = type + std::to_string(cluster.nodes.size());
        node.type = type;
        cluster.nodes.push_back(node);
        plan::NodeCapacity capacity;
        for (auto& row : capacity.max_layers) row = {layers, layers};
        capacity.tokens_per_s.push_back(0);
        capacity.kv_tokens.push_back(0);
        for (std::int32_t j = 1; j <= layers; ++j) {
            capacity.tokens_per_s.push_back(1000.0 / j);
            capacity.kv_tokens.push_back(token_layers * (1 - 0.1 * (j - 1)) / j);
        }
        capacities.nodes.push_back(capacity);
    }
    void link(double latency_s) {
        const auto n = static_cast<std::int32_t>(cluster.nodes.size());
        for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
            for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
                if (from != to) cluster.links.push_back({from, to, 1e10, latency_s});
            }
        }
    }
};

// Decode tokens/s; 0 where the placement does not serve.
double simulate(const Machines& machines, const spec::ModelSpec& model, const TwoSpeeds& costs,
                const spec::Placement& placement) {
    const plan::Problem problem{machines.cluster, model, machines.capacities};
    HelixSetup setup;
    setup.cluster = &machines.cluster;
    setup.costs = &costs;
    setup.model = model;
    setup.placement = placement;
    setup.flows =
        plan::plan_flow(machines.cluster, plan::build_flow_graph(problem, placement, {})).links;
    if (setup.flows.empty()) return 0;
    for (std::size_t n = 0; n < placement.layers.size(); ++n) {
        const auto j = static_cast<std::size_t>(placement.layers[n].size());
        setup.kv_tokens.push_back(machines.capacities.nodes[n].kv_tokens[j]);
    }
    setup.lengths = LengthSource({{60, 41}}, LengthOrder::recorded);
    setup.offline.initial = 40;
    setup.overheads.lone_decode_doubles = false;
    setup.coordinator.policy.kv_high_water = 1;
    setup.warmup_s = 5;
    setup.duration_s = 20;
    const auto report = run_helix(setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

// The most that any placement delivers.
double best_run(const Machines& machines, const spec::ModelSpec& model, const TwoSpeeds& costs) {
    const std::size_t n = machines.cluster.nodes.size();
    std::vector<spec::LayerRange> ranges = {{}};
    for (std::int32_t begin = 0; begin < model.n_layers; ++begin) {
        for (std::int32_t end = begin + 1; end <= model.n_layers; ++end) {
            ranges.push_back({begin, end});
        }
    }
    std::vector<std::size_t> pick(n, 0);
    double best = 0;
    for (std::size_t i = 0; i < n;) {
        spec::Placement placement;
        bool fits = true;
        for (std::size_t node = 0; node < n; ++node) {
            placement.layers.push_back(ranges[pick[node]]);
            fits &= placement.layers.back().size() <= machines.capacities.nodes[node].most();
        }
        if (fits) best = std::max(best, simulate(machines, model, costs, placement));
        for (i = 0; i < n && ++pick[i] == ranges.size(); ++i) pick[i] = 0;
    }
    return best;
}

TEST(DeliveredBoundRuns, NoPlacementDeliversMore) {
    spec::ModelSpec model;
    model.name = "small";
    model.n_layers = 3;
    model.layer_bytes = 1'000'000;
    model.activation_bytes_per_token = 1000;
    model.token_bytes = 4;
    model.kv_bytes_per_token_layer = 100;
    model.context_length = 512;
    const TwoSpeeds costs;
    struct Case {
        double memory;
        double latency_s;
    };
    for (const auto& [memory, latency_s] :
         {Case{2'000, 1e-5}, Case{8'000, 1e-5}, Case{100'000, 1e-5}, Case{2'000, 0.02},
          Case{8'000, 0.1}}) {
        Machines machines;
        machines.add("fast", 3, memory);
        machines.add("slow", 2, memory / 2);
        machines.link(latency_s);
        const double served = best_run(machines, model, costs);
        ASSERT_GT(served, 0) << memory;
        const plan::DeliveredBound bound =
            plan::delivered_bound({machines.cluster, model, machines.capacities}, costs,
                                  {.lengths = plan::fixed_lengths(60, 41)});
        EXPECT_LE(served, bound.tokens_per_s) << memory;
        EXPECT_GT(served, 0.3 * bound.tokens_per_s) << memory;  // it says something
    }
}

}  // namespace
}  // namespace helix::sim::delivered_bound_runs_test

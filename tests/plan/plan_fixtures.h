#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/flow/flow_graph.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

// Clusters and models that the planner's tests share.

namespace helix::plan {

constexpr double kGigabit = 1.25e8;  // bytes/s

inline spec::ModelSpec small_model(std::int32_t n_layers) {
    return {.name = "small",
            .n_layers = n_layers,
            .layer_bytes = 1'000'000,
            .activation_bytes_per_token = 1000,
            .token_bytes = 4,
            .kv_bytes_per_token_layer = 100,
            .flops_per_token_layer = 1e6,
            .context_length = 1024};
}

// A machine for `layers` layers of small_model (about) that computes one layer of one token in
// seconds.
inline spec::NodeSpec machine(const std::string& name, double layers, double seconds) {
    return {.name = name,
            .type = "cpu",
            .region = "",
            .host = "",
            .memory_bytes = static_cast<std::int64_t>(layers * 1.25e6),
            .decode_s_per_layer = seconds,
            .decode_batch_s_per_layer = seconds * 8,
            .prefill_s_per_token_layer = seconds};
}

// Links both ways between all nodes and the coordinator.
inline void link_all(spec::ClusterSpec& cluster, double bytes_per_s, double latency_s) {
    const auto n = static_cast<std::int32_t>(cluster.nodes.size());
    for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
            if (from != to) cluster.links.push_back({from, to, bytes_per_s, latency_s});
        }
    }
}

inline spec::ClusterSpec cluster_of(std::vector<spec::NodeSpec> nodes,
                                    double bytes_per_s = 10 * kGigabit) {
    spec::ClusterSpec cluster{.name = "test", .nodes = std::move(nodes), .links = {}};
    link_all(cluster, bytes_per_s, 0.001);
    return cluster;
}

// n nodes of random T(j), falling in j; each holds up to 1..most layers.
inline CapacityTable random_capacities(base::Random& random, std::int32_t n, std::int32_t most) {
    CapacityTable table;
    for (std::int32_t i = 0; i < n; ++i) {
        NodeCapacity node;
        const auto layers = static_cast<std::int32_t>(random.between(1, most));
        for (auto& row : node.max_layers) row = {layers, layers};
        const double speed = 100 * std::pow(10.0, random.uniform());
        node.tokens_per_s.push_back(0);
        node.kv_tokens.push_back(0);
        for (std::int32_t j = 1; j <= layers; ++j) {
            node.tokens_per_s.push_back(speed / j * (0.9 + 0.1 * random.uniform()));
            node.kv_tokens.push_back(1000.0 * (most + 1 - j));
        }
        table.nodes.push_back(std::move(node));
    }
    return table;
}

// n unmeasured nodes; each link is missing with probability missing and of random width else.
inline spec::ClusterSpec random_cluster(base::Random& random, std::int32_t n, double missing) {
    spec::ClusterSpec cluster{.name = "random", .nodes = {}, .links = {}};
    for (std::int32_t i = 0; i < n; ++i) {
        spec::NodeSpec node;
        node.name = "n" + std::to_string(i);
        cluster.nodes.push_back(node);
    }
    for (std::int32_t from = spec::kCoordinator; from < n; ++from) {
        for (std::int32_t to = spec::kCoordinator; to < n; ++to) {
            if (from == to || random.chance(missing)) continue;
            const bool outside = from == spec::kCoordinator || to == spec::kCoordinator;
            const double tokens_per_s = 20 * std::pow(100.0, random.uniform());
            cluster.links.push_back(
                {from, to, tokens_per_s * (outside ? 4 : 1000), 0.001 * (1 + random.uniform())});
        }
    }
    return cluster;
}

inline spec::Placement random_placement(base::Random& random, const CapacityTable& capacities,
                                        std::int32_t n_layers) {
    spec::Placement placement;
    for (const NodeCapacity& node : capacities.nodes) {
        const auto size =
            static_cast<std::int32_t>(random.between(0, std::min(node.most(), n_layers)));
        const auto begin = static_cast<std::int32_t>(random.between(0, n_layers - size));
        placement.layers.push_back(size == 0 ? spec::LayerRange{}
                                             : spec::LayerRange{begin, begin + size});
    }
    return placement;
}

}  // namespace helix::plan

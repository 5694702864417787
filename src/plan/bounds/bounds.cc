#include "plan/bounds/bounds.h"

#include <algorithm>
#include <limits>

namespace helix::plan {
namespace {

// What node i can carry with j layers, its network included.
double node_limit(const spec::NodeSpec& node, const spec::ModelSpec& model, double tokens_per_s) {
    for (const double nic : {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s}) {
        if (nic > 0) {
            tokens_per_s =
                std::min(tokens_per_s, nic / static_cast<double>(model.activation_bytes_per_token));
        }
    }
    return tokens_per_s;
}

// sum_i max_j j min(T_i(j), flow): token-layers per second that can serve a flow of `flow`.
double token_layers(const Problem& problem, double flow) {
    double sum = 0;
    for (std::size_t i = 0; i < problem.cluster.nodes.size(); ++i) {
        double most = 0;
        const std::vector<double>& throughput = problem.capacities.nodes[i].tokens_per_s;
        for (std::size_t j = 1; j < throughput.size(); ++j) {
            const double carried =
                std::min(node_limit(problem.cluster.nodes[i], problem.model, throughput[j]), flow);
            most = std::max(most, static_cast<double>(j) * carried);
        }
        sum += most;
    }
    return sum;
}

double coordinator_limit(const spec::ClusterSpec& cluster, const spec::ModelSpec& model) {
    double out = 0;
    double in = 0;
    for (const spec::LinkSpec& link : cluster.links) {
        if (link.from == spec::kCoordinator) out += link.bandwidth_bytes_per_s;
        if (link.to == spec::kCoordinator) in += link.bandwidth_bytes_per_s;
    }
    return std::min(out, in) / static_cast<double>(model.token_bytes);
}

}  // namespace

Bounds flow_bounds(const Problem& problem) {
    const double layers = static_cast<double>(problem.model.n_layers);
    Bounds bounds;
    bounds.paper = token_layers(problem, std::numeric_limits<double>::infinity()) / layers;
    // token_layers(F) / F falls with F, so the feasible F are an interval from 0.
    double low = 0;
    double high = bounds.paper;
    for (int step = 0; step < 60 && low < high; ++step) {
        const double middle = (low + high) / 2;
        // The slack keeps rounding from refusing a flow that fits exactly: a bound may only be too
        // high.
        const bool feasible = token_layers(problem, middle) >= middle * layers * (1 - 1e-12);
        (feasible ? low : high) = middle;
    }
    bounds.capped = high;
    bounds.best = std::min(bounds.capped, coordinator_limit(problem.cluster, problem.model));
    return bounds;
}

}  // namespace helix::plan

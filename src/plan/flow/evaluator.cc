#include "plan/flow/evaluator.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

using base::at;

double fastest(const NodeCapacity& node) {
    return *std::max_element(node.tokens_per_s.begin(), node.tokens_per_s.end());
}

// Could some placement's flow be limited by a link (or by one that is missing)?
bool links_can_bind(const Problem& problem, const FlowOptions& options) {
    if (options.only_links || options.convention != Convention::paper) return true;
    const std::size_t n = problem.cluster.nodes.size();
    std::size_t wide = 0;
    for (const spec::LinkSpec& link : problem.cluster.links) {
        if (link.from == kCoordinator && link.to == kCoordinator) continue;
        const bool outside = link.from == kCoordinator || link.to == kCoordinator;
        const double bytes = static_cast<double>(
            outside ? problem.model.token_bytes : problem.model.activation_bytes_per_token);
        double ends = std::numeric_limits<double>::infinity();
        if (link.from != kCoordinator)
            ends = std::min(ends, fastest(problem.capacities.nodes[at(link.from)]));
        if (link.to != kCoordinator)
            ends = std::min(ends, fastest(problem.capacities.nodes[at(link.to)]));
        if (link.bandwidth_bytes_per_s / bytes < ends) return true;
        ++wide;
    }
    return wide < n * (n - 1) + 2 * n;
}

}  // namespace

Evaluator::Evaluator(const Problem& problem, const FlowOptions& options)
    : problem_(problem),
      options_(options),
      partial_(options.partial),
      links_bind_(links_can_bind(problem, options)) {
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
    for (const spec::NodeSpec& node : problem.cluster.nodes) {
        double limit = std::numeric_limits<double>::infinity();
        for (const double nic : {node.nic_in_bytes_per_s, node.nic_out_bytes_per_s}) {
            if (nic > 0)
                limit = std::min(
                    limit, nic / static_cast<double>(problem.model.activation_bytes_per_token));
        }
        nic_limit_.push_back(limit);
    }
}

// 0 where nobody may hold these layers alone.
double Evaluator::node_limit(std::size_t i, LayerRange range) const {
    if (!spec::may_hold(problem_.model, range)) return 0;
    return std::min(problem_.capacities.nodes[i].throughput(range), nic_limit_[i]);
}

void Evaluator::coverage(std::span<const LayerRange> layers, std::vector<double>& per_layer) const {
    per_layer.assign(at(problem_.model.n_layers), 0.0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].empty()) continue;
        const double tokens_per_s = node_limit(i, layers[i]);
        for (std::int32_t l = layers[i].begin; l < layers[i].end; ++l)
            per_layer[at(l)] += tokens_per_s;
    }
}

double Evaluator::flow(std::span<const LayerRange> layers) const {
    if (flow_is_least_coverage()) {
        std::vector<double> per_layer;
        coverage(layers, per_layer);
        return *std::min_element(per_layer.begin(), per_layer.end());
    }
    if (!links_bind_) return boundary_flow(layers);
    const spec::Placement placement{{layers.begin(), layers.end()}};
    return max_flow_value(build_flow_graph(problem_, placement, options_).network);
}

double Evaluator::boundary_flow(std::span<const LayerRange> layers) const {
    FlowNetwork network{.n_vertices = problem_.model.n_layers + 1,
                        .source = 0,
                        .sink = problem_.model.n_layers,
                        .edges = {}};
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].empty()) continue;
        network.edges.push_back({layers[i].begin, layers[i].end, node_limit(i, layers[i])});
    }
    return max_flow_value(network);
}

double Evaluator::depth_estimate(std::span<const LayerRange> layers) const {
    std::vector<double> weight(at(problem_.model.n_layers), 0.0);
    std::vector<double> stages(at(problem_.model.n_layers), 0.0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].empty()) continue;
        const double tokens_per_s = node_limit(i, layers[i]);
        for (std::int32_t l = layers[i].begin; l < layers[i].end; ++l) {
            weight[at(l)] += tokens_per_s;
            stages[at(l)] += tokens_per_s / static_cast<double>(layers[i].size());
        }
    }
    double depth = 0;
    for (std::size_t l = 0; l < weight.size(); ++l)
        depth += weight[l] > 0 ? stages[l] / weight[l] : 1.0;
    return depth;
}

double Evaluator::least_kv_tokens(std::span<const LayerRange> layers) const {
    std::vector<double> tokens(at(problem_.model.n_layers), 0.0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const double held =
            layers[i].empty() ? 0 : problem_.capacities.kv_tokens(i, problem_.model, layers[i]);
        for (std::int32_t l = layers[i].begin; l < layers[i].end; ++l) {
            tokens[at(l)] += held;
        }
    }
    return *std::min_element(tokens.begin(), tokens.end());
}

}  // namespace helix::plan

#include "plan/search/scale.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "plan/flow/evaluator.h"
#include "plan/pack/block_pack.h"
#include "plan/problem/cluster_part.h"
#include "plan/problem/node_types.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::LayerRange;
using spec::Placement;

constexpr double kPackTolerance = 0.003;
constexpr std::int32_t kMostToAnneal = 200;  // nodes: beyond, a move takes too long to judge
constexpr double kDealHot = 0.3;  // temperatures of the exchanges, in the fastest node's tokens/s
constexpr double kDealCold = 0.003;

using base::at;

double fastest(const CapacityTable& capacities) {
    double most = 0;
    for (const NodeCapacity& node : capacities.nodes) {
        for (const double tokens : node.tokens_per_s) most = std::max(most, tokens);
    }
    return most;
}

// Bounds::capped for some types of nodes: the largest F with sum max_j j min(T(j), F) >= F L.
double capped_bound(const std::vector<NodeType>& types, std::int32_t n_layers) {
    const auto enough = [&](double flow) {
        double token_layers = 0;
        for (const NodeType& type : types) {
            double most = 0;
            for (std::int32_t j = 1; j <= type.most(); ++j)
                most = std::max(most, j * std::min(type.throughput(j), flow));
            token_layers += type.count() * most;
        }
        return token_layers >= flow * n_layers;
    };
    double low = 0;
    double high = 1;
    while (enough(high)) high *= 2;
    for (int step = 0; step < 60; ++step) {
        const double middle = (low + high) / 2;
        (enough(middle) ? low : high) = middle;
    }
    return high;
}

// The nodes of one group without one of them; -1: with all.
ClusterPart part_of_group(const ClusterSpec& cluster, const std::vector<std::int32_t>& group,
                          std::int32_t which, std::int32_t without) {
    std::vector<bool> keep(group.size());
    for (std::int32_t i = 0; at(i) < group.size(); ++i)
        keep[at(i)] = group[at(i)] == which && i != without;
    return part_of(cluster, keep);
}

// Deals the nodes of each type to the slots (ranges) that the type has in a plan.
class Dealer {
  public:
    Dealer(const std::vector<NodeType>& types, const std::vector<std::int32_t>& group,
           std::int32_t n_groups, std::int32_t n_layers, Placement& placement)
        : types_(types),
          group_(group),
          layers_(placement.layers),
          width_(at(n_layers) + 1),
          imbalance_(at(n_groups) * width_, 0.0) {
        for (const NodeType& type : types) {
            for (const std::int32_t i : type.nodes) {
                scale_ = std::max(scale_, type.throughput(1));
                shift(type, group_[at(i)], layers_[at(i)], 1);
            }
        }
    }

    // Anneals the sum over boundaries and groups of | what arrives - what can go on |.
    void deal(std::int64_t exchanges, std::uint64_t seed, const std::function<bool()>& stop) {
        base::Random random(seed);
        std::vector<std::int32_t> owner;  // types by the number of their nodes
        for (std::size_t t = 0; t < types_.size(); ++t)
            owner.insert(owner.end(), types_[t].nodes.size(), static_cast<std::int32_t>(t));
        if (owner.empty()) return;
        for (std::int64_t k = 0; k < exchanges; ++k) {
            if (stop && k % 1024 == 0 && stop()) return;
            const double share = static_cast<double>(k) / static_cast<double>(exchanges);
            const double temperature = scale_ * kDealHot * std::pow(kDealCold / kDealHot, share);
            const NodeType& type = types_[at(owner[random.below(owner.size())])];
            const std::int32_t a = type.nodes[random.below(type.nodes.size())];
            const std::int32_t b = type.nodes[random.below(type.nodes.size())];
            if (group_[at(a)] == group_[at(b)] || layers_[at(a)] == layers_[at(b)]) continue;
            const double change = exchange(type, a, b);
            if (change > 0 && random.uniform() >= std::exp(-change / temperature))
                exchange(type, a, b);
        }
    }

  private:
    // Returns the change of the sum.
    double shift(const NodeType& type, std::int32_t group, LayerRange range, int sign) {
        if (range.empty()) return 0;
        const double tokens = sign * type.throughput(range.size());
        double change = 0;
        for (const bool end : {false, true}) {
            const std::int32_t boundary = end ? range.end : range.begin;
            if (boundary == 0 || at(boundary) + 1 == width_) continue;  // the coordinator's
            double& value = imbalance_[at(group) * width_ + at(boundary)];
            change -= std::abs(value);
            value += end ? tokens : -tokens;
            change += std::abs(value);
        }
        return change;
    }

    double exchange(const NodeType& type, std::int32_t a, std::int32_t b) {
        double change = shift(type, group_[at(a)], layers_[at(a)], -1);
        change += shift(type, group_[at(b)], layers_[at(b)], -1);
        std::swap(layers_[at(a)], layers_[at(b)]);
        change += shift(type, group_[at(a)], layers_[at(a)], 1);
        change += shift(type, group_[at(b)], layers_[at(b)], 1);
        return change;
    }

    const std::vector<NodeType>& types_;
    const std::vector<std::int32_t>& group_;
    std::vector<LayerRange>& layers_;
    std::size_t width_;
    std::vector<double> imbalance_;  // [group][boundary], tokens/s
    double scale_ = 0;
};

// A block plan of `types` alone; nothing where they cannot hold the model.
std::optional<Placement> pack(const std::vector<NodeType>& types, std::int32_t n_nodes,
                              std::int32_t n_layers, double upper, const ScaleOptions& options) {
    if (types.empty()) return std::nullopt;
    BlockOptions block;
    block.relative_tolerance = kPackTolerance;
    block.seed = options.seed;
    block.stop = options.stop;
    BlockPacker packer(types, n_nodes, n_layers);
    auto plan = packer.best(upper, block);
    if (!plan) return std::nullopt;
    return std::move(plan->placement);
}

}  // namespace

SearchResult search_large(const Problem& problem, const FlowOptions& flow,
                          const ScaleOptions& options) {
    const auto n = static_cast<std::int32_t>(problem.cluster.nodes.size());
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size() && n > 0);
    const std::vector<std::int32_t> group =
        link_groups(problem.cluster, problem.model, fastest(problem.capacities));
    const std::int32_t n_groups = 1 + *std::max_element(group.begin(), group.end());
    // Jobs: all nodes together, then each cell.
    const std::vector<NodeType> all = node_types(problem, {});
    std::vector<std::vector<NodeType>> types(at(n_groups) + 1);
    types[0] = all;
    for (NodeType& type : node_types(problem, group))
        types[at(type.group) + 1].push_back(std::move(type));
    std::vector<std::optional<Placement>> found(types.size());
    const auto job = [&](int k) {
        const auto j = static_cast<std::size_t>(k);
        double upper = capped_bound(types[j], problem.model.n_layers);
        if (j == 0 && options.upper_bound > 0) upper = std::min(upper, options.upper_bound);
        found[j] = pack(types[j], n, problem.model.n_layers, upper, options);
        if (j == 0 && found[j] && n_groups > 1) {
            Dealer(all, group, n_groups, problem.model.n_layers, *found[j])
                .deal(options.exchanges, options.seed, options.stop);
        }
    };
    const auto jobs = static_cast<int>(n_groups > 1 ? types.size() : 1);
    run_jobs(options.executor, jobs, job);
    Placement cells{std::vector<LayerRange>(problem.cluster.nodes.size())};
    for (std::size_t j = 1; j < found.size(); ++j) {
        for (std::size_t i = 0; found[j] && i < cells.layers.size(); ++i) {
            if (!found[j]->layers[i].empty()) cells.layers[i] = found[j]->layers[i];
        }
    }
    const Evaluator evaluator(problem, flow);
    std::vector<Placement> starts{std::move(cells)};
    if (found[0]) starts.push_back(std::move(*found[0]));
    SearchOptions search;
    search.seed = options.seed;
    search.iterations = n <= kMostToAnneal ? options.iterations : 0;
    search.stop = options.stop;
    search.flow_tolerance = 0;
    search.upper_bound = options.upper_bound;
    search.executor = options.executor;
    search.exhaustive_steps = 0;
    return search_placement(evaluator, starts, search);
}

SearchResult repair_large(const Problem& problem, const FlowOptions& flow,
                          const Placement& placement, std::int32_t lost,
                          const ScaleOptions& options) {
    CHECK(placement.layers.size() == problem.cluster.nodes.size());
    CHECK(lost >= 0 && at(lost) < problem.cluster.nodes.size());
    std::vector<std::int32_t> group =
        link_groups(problem.cluster, problem.model, fastest(problem.capacities));
    const auto flow_of_cell = [&] {
        const ClusterPart cell = part_of_group(problem.cluster, group, group[at(lost)], -1);
        const CapacityTable capacities = capacities_of_part(problem.capacities, cell);
        return Evaluator({cell.cluster, problem.model, capacities}, flow)
            .flow(placement_of_part(placement, cell).layers);
    };
    if (flow_of_cell() <= 0) std::fill(group.begin(), group.end(), 0);
    const ClusterPart part = part_of_group(problem.cluster, group, group[at(lost)], lost);
    SearchResult result;
    result.most_flow = placement;
    result.most_flow.layers[at(lost)] = {};
    if (!part.origin.empty()) {
        const CapacityTable capacities = capacities_of_part(problem.capacities, part);
        const Problem own{part.cluster, problem.model, capacities};
        SearchOptions search;
        search.seed = options.seed;
        search.iterations = options.iterations;
        search.stop = options.stop;
        search.executor = options.executor;
        search.flow_tolerance = 0;
        search.upper_bound = capped_bound(node_types(own, {}), problem.model.n_layers);
        const SearchResult found =
            search_placement(Evaluator(own, flow), {placement_of_part(placement, part)}, search);
        result.iterations = found.iterations;
        put_placement(part, found.most_flow, result.most_flow);
    }
    result.flow = Evaluator(problem, flow).flow(result.most_flow.layers);
    return result;
}

}  // namespace helix::plan

#include "plan/flow/split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/index.h"

namespace helix::plan {
namespace {

using spec::kCoordinator;
using spec::LayerRange;

constexpr int kRounds = 10;
constexpr double kStep = 0.7;
constexpr double kBalanced = 1.02;    // good enough: so much above the least possible load
constexpr double kLinkDislike = 3.0;  // e-folds for a link as slow as a mean stage
constexpr double kMostDislike = 12.0;
constexpr double kHopDust = 1e-4;  // of a sender's share: such hops are left out

using base::at;

}  // namespace

Splitter::Splitter(const Problem& problem, const FlowOptions& options, double prompt_tokens)
    : capacities_(problem.capacities),
      n_layers_(problem.model.n_layers),
      partial_(options.partial),
      link_index_((problem.cluster.nodes.size() + 1) * (problem.cluster.nodes.size() + 1), -1) {
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
    // A stage's time for a prompt, roughly: tokens at the speed of a node that is half full.
    double stage_s = 0;
    double counted = 0;
    for (const NodeCapacity& node : problem.capacities.nodes) {
        if (node.most() == 0) continue;
        stage_s += prompt_tokens / node.tokens_per_s[at((node.most() + 1) / 2)];
        counted += 1;
    }
    stage_s = counted > 0 ? stage_s / counted : 1;
    std::set<std::pair<std::int32_t, std::int32_t>> only;
    if (options.only_links) only.insert(options.only_links->begin(), options.only_links->end());
    const std::size_t n = problem.cluster.nodes.size();
    for (std::size_t l = 0; l < problem.cluster.links.size(); ++l) {
        const spec::LinkSpec& link = problem.cluster.links[l];
        const bool outside = link.from == kCoordinator || link.to == kCoordinator;
        const double bytes = static_cast<double>(
            outside ? problem.model.token_bytes : problem.model.activation_bytes_per_token);
        link_tokens_per_s_.push_back(link.bandwidth_bytes_per_s / bytes);
        const double seconds = link.latency_s + prompt_tokens / link_tokens_per_s_.back();
        link_weight_.push_back(std::exp(-std::min(kMostDislike, kLinkDislike * seconds / stage_s)));
        if (options.only_links && !only.contains({link.from, link.to})) continue;
        if (link.from == kCoordinator && link.to == kCoordinator) continue;
        link_index_[at(link.from + 1) * (n + 1) + at(link.to + 1)] = static_cast<std::int32_t>(l);
    }
}

double Splitter::node_tokens_per_s(std::int32_t node, LayerRange range) const {
    return capacities_.nodes[at(node)].throughput(range);
}

// The hops that pipelines of this placement may take; false when nothing enters or leaves.
bool Splitter::find_edges(std::span<const LayerRange> layers, Scratch& scratch) const {
    const auto n = static_cast<std::int32_t>(layers.size());
    scratch.order.clear();
    for (std::int32_t i = 0; i < n; ++i) {
        if (!layers[at(i)].empty()) scratch.order.push_back(i);
    }
    std::sort(scratch.order.begin(), scratch.order.end(), [&](std::int32_t a, std::int32_t b) {
        const LayerRange x = layers[at(a)];
        const LayerRange y = layers[at(b)];
        return x.end != y.end ? x.end < y.end : a < b;
    });
    scratch.edges.clear();
    scratch.first_edge.clear();
    const auto used = static_cast<std::int32_t>(scratch.order.size());
    std::int32_t longest = 0;
    for (const std::int32_t i : scratch.order) longest = std::max(longest, layers[at(i)].size());
    bool leaves = false;
    for (std::int32_t f = -1; f < used; ++f) {
        scratch.first_edge.push_back(scratch.edges.size());
        const std::int32_t from = f < 0 ? kCoordinator : scratch.order[at(f)];
        const std::int32_t end = f < 0 ? 0 : layers[at(from)].end;
        const std::int32_t* row = &link_index_[at(from + 1) * (layers.size() + 1)];
        const auto add = [&](std::int32_t to, std::int32_t link) {
            scratch.edges.push_back(
                {.from = f, .to = to, .link = link, .weight = link_weight_[at(link)]});
        };
        if (end == n_layers_) {
            if (row[0] >= 0) add(-1, row[0]);
            leaves = leaves || row[0] >= 0;
            continue;
        }
        for (std::int32_t t = f + 1; t < used; ++t) {
            const LayerRange to = layers[at(scratch.order[at(t)])];
            if (to.end > end + longest) break;  // none from here on begins early enough
            if (to.end <= end || to.begin > end || (to.begin < end && !partial_)) continue;
            if (f < 0 && to.begin != 0) continue;
            const std::int32_t link = row[scratch.order[at(t)] + 1];
            if (link >= 0) add(t, link);
        }
    }
    scratch.first_edge.push_back(scratch.edges.size());
    return leaves;
}

// The load per token of the busiest node that no split can avoid: 1 / least coverage. Sets each
// node's weight, its natural share: its part of the speed of all who hold its layers.
double Splitter::least_load(std::span<const LayerRange> layers, Scratch& scratch) const {
    scratch.coverage.assign(at(n_layers_), 0.0);
    for (const std::int32_t i : scratch.order) {
        const double tokens_per_s = node_tokens_per_s(i, layers[at(i)]);
        for (std::int32_t l = layers[at(i)].begin; l < layers[at(i)].end; ++l)
            scratch.coverage[at(l)] += tokens_per_s;
    }
    const double least = *std::min_element(scratch.coverage.begin(), scratch.coverage.end());
    scratch.weight.clear();
    for (const std::int32_t i : scratch.order) {
        const LayerRange range = layers[at(i)];
        double sum = 0;
        for (std::int32_t l = range.begin; l < range.end; ++l) sum += scratch.coverage[at(l)];
        scratch.weight.push_back(node_tokens_per_s(i, range) * range.size() / sum);
    }
    return least > 0 ? 1 / least : std::numeric_limits<double>::infinity();
}

// Shares of nodes and links from the weights and prices.
void Splitter::spread(Scratch& scratch) {
    const std::size_t n = scratch.order.size();
    scratch.ways.assign(n, 0.0);
    for (std::size_t k = n + 1; k-- > 0;) {  // k - 1 is the sender's position
        double sum = 0;
        for (std::size_t e = scratch.first_edge[k]; e < scratch.first_edge[k + 1]; ++e) {
            Scratch::Edge& edge = scratch.edges[e];
            edge.share = edge.weight;
            if (edge.price > 0) edge.share *= std::exp(-edge.price);
            if (edge.to >= 0) edge.share *= scratch.ways[at(edge.to)];
            sum += edge.share;
        }
        for (std::size_t e = scratch.first_edge[k]; e < scratch.first_edge[k + 1]; ++e)
            scratch.edges[e].share = sum > 0 ? scratch.edges[e].share / sum : 0;
        if (k == 0) break;
        scratch.ways[k - 1] = sum * scratch.weight[k - 1];
        if (scratch.price[k - 1] > 0) scratch.ways[k - 1] *= std::exp(-scratch.price[k - 1]);
    }
    scratch.share.assign(n, 0.0);
    for (Scratch::Edge& edge : scratch.edges) {
        edge.share *= edge.from < 0 ? 1.0 : scratch.share[at(edge.from)];
        if (edge.to >= 0) scratch.share[at(edge.to)] += edge.share;
    }
}

double Splitter::split(std::span<const LayerRange> layers, Scratch& scratch,
                       std::vector<spec::LinkFlow>& flows) const {
    CHECK(layers.size() == capacities_.nodes.size());
    flows.clear();
    if (!find_edges(layers, scratch)) return 0;
    const double target = least_load(layers, scratch);
    if (!std::isfinite(target)) return 0;
    scratch.price.assign(scratch.order.size(), 0.0);
    double worst = 0;
    for (int round = 0; round < kRounds; ++round) {
        spread(scratch);
        worst = 0;
        const auto reprice = [&](double load, double& price) {
            worst = std::max(worst, load);
            if (load > 0) price = std::max(0.0, price + kStep * std::log(load / target));
        };
        for (std::size_t k = 0; k < scratch.order.size(); ++k) {
            const std::int32_t i = scratch.order[k];
            reprice(scratch.share[k] / node_tokens_per_s(i, layers[at(i)]), scratch.price[k]);
        }
        for (Scratch::Edge& edge : scratch.edges)
            reprice(edge.share / link_tokens_per_s_[at(edge.link)], edge.price);
        if (worst <= kBalanced * target) break;
    }
    if (worst <= 0) return 0;
    for (const Scratch::Edge& edge : scratch.edges) {
        const double sender = edge.from < 0 ? 1.0 : scratch.share[at(edge.from)];
        if (edge.share <= kHopDust * sender) continue;
        flows.push_back({edge.from < 0 ? kCoordinator : scratch.order[at(edge.from)],
                         edge.to < 0 ? kCoordinator : scratch.order[at(edge.to)],
                         edge.share / worst});
    }
    return 1 / worst;
}

double improve_split(const SplitScore& score, std::int32_t max_scores,
                     std::vector<spec::LinkFlow>& flows) {
    constexpr double kFactors[] = {0.0, 0.4, 0.8, 1.3, 2.5};
    constexpr double kWorthwhile = 1 + 1e-4;
    double best = score(flows);
    std::int32_t left = max_scores;
    bool better = true;
    while (better && left > 0) {
        better = false;
        for (std::size_t f = 0; f < flows.size() && left > 0; ++f) {
            const auto same_sender = [&](const spec::LinkFlow& other) {
                return other.from == flows[f].from && other.tokens_per_s > 0;
            };
            if (std::count_if(flows.begin(), flows.end(), same_sender) < 2) continue;
            for (const double factor : kFactors) {
                const double before = flows[f].tokens_per_s;
                if (before <= 0 || left-- <= 0) break;
                flows[f].tokens_per_s = before * factor;
                const double changed = score(flows);
                if (changed > best * kWorthwhile) {
                    best = changed;
                    better = true;
                } else {
                    flows[f].tokens_per_s = before;
                }
            }
        }
    }
    std::erase_if(flows, [](const spec::LinkFlow& flow) { return flow.tokens_per_s <= 0; });
    return best;
}

double scale_to_capacity(const TrafficBuilder& builder, const Problem& problem,
                         std::span<const LayerRange> layers, std::vector<spec::LinkFlow>& flows) {
    Traffic traffic;
    if (!builder.build(layers, problem.model.n_layers, flows, 0, traffic)) {
        flows.clear();
        return 0;
    }
    double most = std::numeric_limits<double>::infinity();
    for (const Traffic::Stage& stage : traffic.stages) {
        if (stage.share <= 0) continue;
        most = std::min(
            most, problem.capacities.nodes[at(stage.node)].throughput(layers[at(stage.node)]) /
                      stage.share);
    }
    flows.clear();
    for (const Traffic::Hop& hop : traffic.hops) {
        if (hop.share <= 0) continue;
        const spec::LinkSpec& link = problem.cluster.links[at(hop.link)];
        const bool outside = hop.from < 0 || hop.to < 0;
        const auto bytes = static_cast<double>(outside ? problem.model.token_bytes
                                                       : problem.model.activation_bytes_per_token);
        most = std::min(most, link.bandwidth_bytes_per_s / bytes / hop.share);
        flows.push_back({link.from, link.to, hop.share});
    }
    for (spec::LinkFlow& flow : flows) flow.tokens_per_s *= most;
    std::sort(flows.begin(), flows.end(), [](const spec::LinkFlow& a, const spec::LinkFlow& b) {
        return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
    return most;
}

}  // namespace helix::plan

#include "plan/search/role_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/index.h"

namespace helix::plan {
namespace {

using base::at;
using spec::NodeRole;

// Of the batches that speeds are compared by.
constexpr std::int32_t kPromptRows = 512;
constexpr std::int32_t kDecodeRows = 16;

// Machines that requests pass between, with whole requests a second of each kind of work.
struct Pipeline {
    std::vector<std::size_t> nodes;
    double prompts_per_s = 0;
    double answers_per_s = 0;
};

// The first node of those that flows connect with this one.
std::size_t first_of(std::vector<std::size_t>& joined, std::size_t node) {
    while (joined[node] != node) node = joined[node] = joined[joined[node]];
    return node;
}

std::vector<Pipeline> pipelines_apart(const Problem& problem, const spec::CostModel& costs,
                                      const LengthMoments& lengths,
                                      const ThroughputCandidate& candidate) {
    const std::vector<spec::LayerRange>& layers = candidate.placement.layers;
    std::vector<std::size_t> joined(layers.size());
    std::iota(joined.begin(), joined.end(), std::size_t{0});
    for (const spec::LinkFlow& flow : candidate.flows) {
        if (flow.from == spec::kCoordinator || flow.to == spec::kCoordinator) continue;
        const std::size_t a = first_of(joined, at(flow.from));
        const std::size_t b = first_of(joined, at(flow.to));
        joined[std::max(a, b)] = std::min(a, b);
    }
    std::vector<Pipeline> pipelines;
    std::vector<std::size_t> pipeline_of(layers.size());
    const double n_layers = problem.model.n_layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].empty()) continue;
        const std::size_t first = first_of(joined, i);
        if (first == i) {
            pipeline_of[i] = pipelines.size();
            pipelines.emplace_back();
        }
        const spec::NodeSpec& node = problem.cluster.nodes[i];
        Pipeline& pipeline = pipelines[pipeline_of[first]];
        pipeline.nodes.push_back(i);
        pipeline.prompts_per_s +=
            kPromptRows / (costs.layer_s(node, 0, kPromptRows) * n_layers * lengths.prompt);
        pipeline.answers_per_s +=
            kDecodeRows / (costs.layer_s(node, kDecodeRows, 0) * n_layers * lengths.output);
    }
    return pipelines;
}

// How many of the first are to compute prompts, so that neither group waits for the other.
std::size_t balanced_split(const std::vector<Pipeline>& pipelines) {
    double answers_per_s = 0;
    for (const Pipeline& one : pipelines) answers_per_s += one.answers_per_s;
    double prompts_per_s = 0;
    double least = 0;
    std::size_t best = 0;
    for (std::size_t k = 0; k + 1 < pipelines.size(); ++k) {
        prompts_per_s += pipelines[k].prompts_per_s;
        answers_per_s -= pipelines[k].answers_per_s;
        const double served = std::min(prompts_per_s, answers_per_s);
        if (served <= least) continue;
        least = served;
        best = k + 1;
    }
    return best;
}

std::vector<NodeRole> divided(std::size_t n_nodes, const std::vector<Pipeline>& pipelines,
                              std::size_t for_prompts, NodeRole others) {
    std::vector<NodeRole> roles(n_nodes, NodeRole::both);
    for (std::size_t k = 0; k < pipelines.size(); ++k) {
        for (const std::size_t node : pipelines[k].nodes)
            roles[node] = k < for_prompts ? NodeRole::prefill : others;
    }
    return roles;
}

}  // namespace

std::vector<std::vector<NodeRole>> role_choices(const Problem& problem,
                                                const spec::CostModel& costs,
                                                const LengthMoments& lengths,
                                                const ThroughputCandidate& candidate) {
    std::vector<Pipeline> pipelines = pipelines_apart(problem, costs, lengths, candidate);
    std::vector<std::vector<NodeRole>> choices;
    if (pipelines.size() < 2) return choices;
    std::stable_sort(pipelines.begin(), pipelines.end(), [](const Pipeline& a, const Pipeline& b) {
        return a.prompts_per_s * b.answers_per_s > b.prompts_per_s * a.answers_per_s;
    });
    const std::size_t n_nodes = candidate.placement.layers.size();
    const std::size_t best = balanced_split(pipelines);
    for (const std::size_t split : {best, best + 1, best - 1}) {
        if (split == 0 || split >= pipelines.size()) continue;
        choices.push_back(divided(n_nodes, pipelines, split, NodeRole::both));
        if (split == best) choices.push_back(divided(n_nodes, pipelines, split, NodeRole::decode));
    }
    return choices;
}

}  // namespace helix::plan

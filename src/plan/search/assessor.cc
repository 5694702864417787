#include "plan/search/assessor.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "plan/flow/flow_graph.h"
#include "plan/losses/robustness.h"

namespace helix::plan {
namespace {

constexpr std::int32_t kSplitTries = 300;
constexpr double kBrokenLimit = 6.0;  // e-folds of score for missing a limit altogether

}  // namespace

using base::at;

Scored Assessor::operator()(const Layers& layers) {
    if (splitter_.split(layers, scratch_, flows_) <= 0) return {};
    return score(layers, flows_);
}

Scored Assessor::score(const Layers& layers, std::span<const spec::LinkFlow> flows) {
    Scored result;
    double sum = 0;
    double over = 0;
    estimates_.clear();
    for (const PerformanceModel* model : options_.models) {
        const Estimate estimate = model->estimate(layers, flows, performance_);
        if (estimate.decode_tokens_per_s <= 0) return {.within = false};
        estimates_.push_back(estimate);
        result.scarce_layer = estimate.scarce_layer;
        sum += std::log(merit(estimate, model->options().lengths));
        if (options_.tpot_slo_s > 0)
            over += std::max(0.0, estimate.tpot_s / options_.tpot_slo_s - 1);
    }
    if (options_.max_depth > 0)
        over += std::max(0.0, estimates_.back().depth / options_.max_depth - 1);
    if (options_.survive > 0) over += std::max(0.0, options_.survive - survival(layers));
    result.within = over <= 1e-9;
    result.score = std::exp(sum / static_cast<double>(options_.models.size()) -
                            kBrokenLimit * std::min(over, 1.0));
    return result;
}

std::optional<ThroughputCandidate> Assessor::finish(const Layers& layers, SplitBy split,
                                                    const TrafficBuilder& builder) {
    ThroughputCandidate candidate;
    candidate.split = split;
    candidate.placement.layers = layers;
    if (split == SplitBy::most_flow) {
        const FlowPlan most = plan_flow(
            problem_.cluster, build_flow_graph(problem_, candidate.placement, options_.flow));
        if (most.tokens_per_s <= 0) return std::nullopt;
        candidate.flows = most.links;
        return settle(std::move(candidate), builder);
    }
    if (splitter_.split(layers, scratch_, candidate.flows) <= 0) return std::nullopt;
    improve_split([&](std::span<const spec::LinkFlow> flows) { return score(layers, flows).score; },
                  kSplitTries, candidate.flows);
    return settle(std::move(candidate), builder);
}

std::optional<ThroughputCandidate> Assessor::settle(ThroughputCandidate candidate,
                                                    const TrafficBuilder& builder) {
    Layers& layers = candidate.placement.layers;
    candidate.flow_tokens_per_s = scale_to_capacity(builder, problem_, layers, candidate.flows);
    if (candidate.flow_tokens_per_s <= 0) return std::nullopt;
    std::vector<bool> used(layers.size());
    for (const spec::LinkFlow& flow : candidate.flows) {
        if (flow.to != spec::kCoordinator) used[at(flow.to)] = true;
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (!used[i]) layers[i] = {};
    }
    const Scored scored = score(layers, candidate.flows);
    if (!scored.within) return std::nullopt;
    if (options_.survive > 0) {
        const Robustness exact = single_losses(problem_, candidate.placement, options_.flow);
        if (exact.worst_share() < options_.survive * (1 - 1e-9)) return std::nullopt;
    }
    candidate.score = scored.score;
    candidate.estimates = estimates_;
    return candidate;
}

double Assessor::merit(const Estimate& estimate, const LengthMoments& lengths) const {
    const double answer_s = estimate.alone_ttft_s + lengths.output * estimate.alone_tpot_s;
    switch (options_.objective) {
        case ThroughputObjective::throughput:
            return estimate.decode_tokens_per_s;
        case ThroughputObjective::latency:
            return 1 / answer_s;
        case ThroughputObjective::balanced:
            return std::sqrt(estimate.decode_tokens_per_s / answer_s);
    }
    return 0;
}

double Assessor::survival(const Layers& layers) {
    const double all = splitter_.split(layers, scratch_, rest_flows_);
    if (all <= 0) return 0;
    double least = 1;
    rest_ = layers;
    for (std::size_t i = 0; i < layers.size() && least > 0; ++i) {
        if (layers[i].empty()) continue;
        const std::string& host = problem_.cluster.nodes[i].host;
        for (std::size_t k = 0; k < layers.size(); ++k) {
            if (k == i || (!host.empty() && problem_.cluster.nodes[k].host == host)) rest_[k] = {};
        }
        least = std::min(least, splitter_.split(rest_, scratch_, rest_flows_) / all);
        rest_ = layers;
    }
    return least;
}

}  // namespace helix::plan

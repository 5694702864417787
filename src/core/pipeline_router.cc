#include "core/pipeline_router.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace helix::core {
namespace {

constexpr double kMinFlow = 1e-9;
constexpr double kTie = 1e-6;

}  // namespace

PipelineRouter::PipelineRouter(std::int32_t n_layers, std::vector<Node> nodes,
                               const std::vector<spec::LinkFlow>& flows)
    : n_layers_(n_layers), nodes_(std::move(nodes)), from_node_(nodes_.size()) {
    last_first_.resize(nodes_.size());
    std::iota(last_first_.begin(), last_first_.end(), 0);
    std::stable_sort(last_first_.begin(), last_first_.end(), [&](std::int32_t a, std::int32_t b) {
        return position_after(a) > position_after(b);
    });
    const auto count = static_cast<std::int32_t>(nodes_.size());
    for (const spec::LinkFlow& flow : flows) {
        if (flow.tokens_per_s <= kMinFlow) continue;
        CHECK(flow.from >= spec::kCoordinator && flow.from < count);
        CHECK(flow.to >= spec::kCoordinator && flow.to < count);
        const std::int32_t position = position_after(flow.from);
        if (flow.to == spec::kCoordinator) {
            if (flow.from == spec::kCoordinator || position != n_layers_) continue;
            from_node_[static_cast<std::size_t>(flow.from)].push_back({kEnd, flow.tokens_per_s, 0});
            continue;
        }
        const LayerRange next = nodes_[static_cast<std::size_t>(flow.to)].layers;
        if (next.empty() || next.begin > position || next.end <= position) continue;
        if (flow.from == spec::kCoordinator && next.begin != 0) continue;
        edges_from(flow.from).push_back({flow.to, flow.tokens_per_s, 0});
    }
}

std::vector<PipelineRouter::Edge>& PipelineRouter::edges_from(std::int32_t node) {
    return node == spec::kCoordinator ? from_coordinator_
                                      : from_node_[static_cast<std::size_t>(node)];
}

const std::vector<PipelineRouter::Edge>& PipelineRouter::edges_from(std::int32_t node) const {
    return node == spec::kCoordinator ? from_coordinator_
                                      : from_node_[static_cast<std::size_t>(node)];
}

std::int32_t PipelineRouter::position_after(std::int32_t node) const {
    return node == spec::kCoordinator ? 0 : nodes_[static_cast<std::size_t>(node)].layers.end;
}

bool PipelineRouter::may_enter(std::int32_t from, const Edge& edge, const StageFits& fits,
                               const std::vector<bool>& reach) const {
    if (edge.to == kEnd) return true;
    const Node& next = nodes_[static_cast<std::size_t>(edge.to)];
    return reach[static_cast<std::size_t>(edge.to)] &&
           fits(next.worker, {position_after(from), next.layers.end});
}

std::vector<bool> PipelineRouter::reachability(const StageFits& fits) const {
    std::vector<bool> reach(nodes_.size(), false);
    for (const std::int32_t node : last_first_) {
        const auto& edges = edges_from(node);
        reach[static_cast<std::size_t>(node)] =
            std::any_of(edges.begin(), edges.end(),
                        [&](const Edge& edge) { return may_enter(node, edge, fits, reach); });
    }
    return reach;
}

bool PipelineRouter::reachable(const StageFits& fits) const {
    const std::vector<bool> reach = reachability(fits);
    return std::any_of(from_coordinator_.begin(), from_coordinator_.end(), [&](const Edge& edge) {
        return may_enter(spec::kCoordinator, edge, fits, reach);
    });
}

Pipeline PipelineRouter::route(double weight, const StageFits& fits) {
    CHECK(weight > 0);
    const std::vector<bool> reach = reachability(fits);
    Pipeline pipeline;
    std::int32_t at = spec::kCoordinator;
    while (true) {
        Edge* best = nullptr;
        double best_cost = 0;
        for (Edge& edge : edges_from(at)) {
            if (!may_enter(at, edge, fits, reach)) continue;
            // Ties, up to rounding, go to the first edge: no bursts, equal on every machine.
            const double cost = edge.load + weight / edge.flow;
            if (best == nullptr || cost < best_cost - kTie * weight / edge.flow) {
                best = &edge;
                best_cost = cost;
            }
        }
        if (best == nullptr) {
            CHECK(at == spec::kCoordinator);  // look-ahead: no dead end is entered
            return {};
        }
        best->load += weight / best->flow;
        if (best->to == kEnd) break;
        const Node& next = nodes_[static_cast<std::size_t>(best->to)];
        pipeline.push_back({next.worker, {position_after(at), next.layers.end}});
        at = best->to;
    }
    CHECK(pipeline.back().layers.end == n_layers_);
    return pipeline;
}

void PipelineRouter::add_load(const Pipeline& pipeline, double weight) {
    std::int32_t at = spec::kCoordinator;
    for (std::size_t i = 0; i <= pipeline.size(); ++i) {
        std::int32_t next = kEnd;
        if (i < pipeline.size()) {
            const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) {
                return n.worker == pipeline[i].worker;
            });
            if (found == nodes_.end()) return;  // a pipeline of an older placement
            next = static_cast<std::int32_t>(found - nodes_.begin());
        }
        for (Edge& edge : edges_from(at)) {
            if (edge.to == next) edge.load += weight / edge.flow;
        }
        at = next;
    }
}

std::int32_t PipelineRouter::min_depth() const {
    constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> depth(nodes_.size(), kNone);  // stages after this node
    const auto after = [&](const std::vector<Edge>& edges) {
        std::int32_t best = kNone;
        for (const Edge& edge : edges) {
            const std::int32_t rest =
                edge.to == kEnd ? 0 : depth[static_cast<std::size_t>(edge.to)];
            if (rest != kNone) best = std::min(best, edge.to == kEnd ? 0 : rest + 1);
        }
        return best;
    };
    for (const std::int32_t node : last_first_) {
        depth[static_cast<std::size_t>(node)] = after(edges_from(node));
    }
    const std::int32_t best = after(from_coordinator_);
    return best == kNone ? 0 : best;
}

}  // namespace helix::core

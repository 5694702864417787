#include "core/routing/pipeline_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace helix::core {
PipelineGraph::PipelineGraph(std::int32_t n_layers, std::vector<PipelineNode> nodes,
                             const std::vector<PipelineEdge>& edges)
    : n_layers_(n_layers), nodes_(std::move(nodes)), out_(nodes_.size() + 1) {
    last_first_.resize(nodes_.size());
    std::iota(last_first_.begin(), last_first_.end(), 0);
    std::stable_sort(last_first_.begin(), last_first_.end(), [&](std::int32_t a, std::int32_t b) {
        return position_after(a) > position_after(b);
    });
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        const std::size_t worker = nodes_[n].worker.value;
        if (worker >= node_of_worker_.size()) node_of_worker_.resize(worker + 1, -1);
        node_of_worker_[worker] = static_cast<std::int32_t>(n);
    }
    const auto count = static_cast<std::int32_t>(nodes_.size());
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known;
    for (const PipelineEdge& edge : edges) {
        CHECK(edge.from >= spec::kCoordinator && edge.from < count);
        CHECK(edge.to >= spec::kCoordinator && edge.to < count);
        if (!possible(edge)) continue;
        const auto e = static_cast<std::int32_t>(edges_.size());
        const auto [same, is_new] = known.emplace(std::pair(edge.from, edge.to), e);
        if (!is_new) {
            edges_[static_cast<std::size_t>(same->second)].flow_tokens_per_s +=
                edge.flow_tokens_per_s;
            continue;
        }
        out_[static_cast<std::size_t>(edge.from + 1)].push_back(e);
        edges_.push_back(edge);
    }
}

PipelineGraph PipelineGraph::planned() const {
    std::vector<PipelineEdge> used;
    for (const PipelineEdge& edge : edges_) {
        if (edge.flow_tokens_per_s > kMinFlow) used.push_back(edge);
    }
    return {n_layers_, nodes_, used};
}

std::int32_t PipelineGraph::position_after(std::int32_t node) const {
    return node == spec::kCoordinator ? 0 : nodes_[static_cast<std::size_t>(node)].layers.end;
}

bool PipelineGraph::possible(const PipelineEdge& edge) const {
    if (edge.from == edge.to) return false;
    const std::int32_t position = position_after(edge.from);
    if (edge.to == spec::kCoordinator) return position == n_layers_;
    const LayerRange next = nodes_[static_cast<std::size_t>(edge.to)].layers;
    if (next.empty() || next.begin > position || next.end <= position) return false;
    return edge.from != spec::kCoordinator || next.begin == 0;
}

std::int32_t PipelineGraph::node_of(WorkerId worker) const {
    return worker.value < node_of_worker_.size() ? node_of_worker_[worker.value] : -1;
}

Stage PipelineGraph::stage(const PipelineEdge& edge) const {
    const PipelineNode& node = nodes_[static_cast<std::size_t>(edge.to)];
    return {node.worker, {position_after(edge.from), node.layers.end}};
}

bool PipelineGraph::is_path(const Path& path) const {
    std::int32_t at = spec::kCoordinator;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (path[i] < 0 || static_cast<std::size_t>(path[i]) >= edges_.size()) return false;
        if (edge(path[i]).from != at) return false;
        at = edge(path[i]).to;
        if (at == spec::kCoordinator) return i + 1 == path.size();
    }
    return false;
}

Pipeline PipelineGraph::pipeline(const Path& path) const {
    CHECK(is_path(path));
    Pipeline pipeline;
    pipeline.reserve(path.size() - 1);
    for (std::size_t i = 0; i + 1 < path.size(); ++i) pipeline.push_back(stage(edge(path[i])));
    CHECK(pipeline.front().layers.begin == 0 && pipeline.back().layers.end == n_layers_);
    return pipeline;
}

Path PipelineGraph::path(const Pipeline& pipeline) const {
    Path path;
    std::int32_t at = spec::kCoordinator;
    for (std::size_t i = 0; i <= pipeline.size(); ++i) {
        const std::int32_t next =
            i < pipeline.size() ? node_of(pipeline[i].worker) : spec::kCoordinator;
        if (i < pipeline.size() && next < 0) return {};
        const auto found = std::find_if(out(at).begin(), out(at).end(),
                                        [&](std::int32_t e) { return edge(e).to == next; });
        if (found == out(at).end()) return {};
        if (i < pipeline.size() && stage(edge(*found)) != pipeline[i]) return {};
        path.push_back(*found);
        at = next;
    }
    return path;
}

std::int32_t PipelineGraph::min_depth() const {
    constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> depth(nodes_.size(), kNone);  // stages after this node
    const auto after = [&](std::int32_t node) {
        std::int32_t best = kNone;
        for (const std::int32_t e : out(node)) {
            const std::int32_t to = edge(e).to;
            if (to == spec::kCoordinator) return 0;
            const std::int32_t rest = depth[static_cast<std::size_t>(to)];
            if (rest != kNone) best = std::min(best, rest + 1);
        }
        return best;
    };
    for (const std::int32_t node : last_first_) depth[static_cast<std::size_t>(node)] = after(node);
    const std::int32_t best = after(spec::kCoordinator);
    return best == kNone ? 0 : best;
}

bool PipelineGraph::reachable(const StageFits& fits) const {
    LookAhead look(*this, fits);
    const auto& first = out(spec::kCoordinator);
    return std::any_of(first.begin(), first.end(), [&](std::int32_t e) { return look.open(e); });
}

LookAhead::LookAhead(const PipelineGraph& graph, const StageFits& fits)
    : graph_(graph), fits_(fits), reach_(graph.nodes().size(), Reach::unknown) {}

bool LookAhead::open(std::int32_t e) {
    const PipelineEdge& edge = graph_.edge(e);
    if (edge.to == spec::kCoordinator) return true;
    const Stage stage = graph_.stage(edge);
    return fits_(stage.worker, stage.layers) && leads_to_end(edge.to);
}

// The recursion is as deep as the longest pipeline, which has at most as many stages as layers.
bool LookAhead::leads_to_end(std::int32_t node) {
    Reach& reach = reach_[static_cast<std::size_t>(node)];
    if (reach == Reach::unknown) {
        const auto& next = graph_.out(node);
        const bool leads =
            std::any_of(next.begin(), next.end(), [&](std::int32_t e) { return open(e); });
        reach = leads ? Reach::yes : Reach::no;
    }
    return reach == Reach::yes;
}

}  // namespace helix::core

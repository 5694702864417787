#include "plan/flow/flow_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/index.h"
#include "plan/problem/roles.h"

namespace helix::plan {
namespace {

using spec::ClusterSpec;
using spec::kCoordinator;
using spec::LayerRange;
using spec::LinkSpec;
using spec::NodeSpec;
using spec::Placement;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double nic_or_unlimited(double bytes_per_s) {
    return bytes_per_s > 0 ? bytes_per_s : kUnlimited;
}

using base::at;

// Builds the graph edge by edge. Vertices: 0 the source, 1 the sink, then those of the nodes.
class GraphBuilder {
  public:
    GraphBuilder(const Problem& problem, const Placement& placement, const FlowOptions& options)
        : problem_(problem),
          placement_(placement),
          options_(options),
          token_bytes_(static_cast<double>(problem.model.token_bytes)),
          hop_bytes_(static_cast<double>(problem.model.activation_bytes_per_token)) {
        if (options.convention == Convention::reference) hop_bytes_ += token_bytes_;
        if (options.only_links)
            only_.insert(options.only_links->begin(), options.only_links->end());
        apart_ = keeps_roles(problem.cluster, problem.model, placement);
    }

    FlowGraph build() {
        graph_.token_bytes = token_bytes_;
        graph_.hop_bytes = hop_bytes_;
        graph_.network.source = 0;
        graph_.network.sink = 1;
        graph_.network.n_vertices = 2;
        used_links_ = find_used_links();
        entry_ = graph_.network.source;
        exit_ = graph_.network.sink;
        if (options_.convention == Convention::reference) add_coordinator();
        in_.assign(problem_.cluster.nodes.size(), -1);
        out_.assign(problem_.cluster.nodes.size(), -1);
        for (std::int32_t i = 0; at(i) < problem_.cluster.nodes.size(); ++i) {
            if (!range(i).empty()) add_node(i);
        }
        for (const std::int32_t link : used_links_) add_link(link);
        return std::move(graph_);
    }

  private:
    // Empty, too, where nobody may hold these layers alone.
    LayerRange range(std::int32_t node) const {
        const LayerRange held = placement_.layers[at(node)];
        return spec::may_hold(problem_.model, held) ? held : LayerRange{};
    }

    bool usable(const LinkSpec& link) const {
        if (options_.only_links && !only_.contains({link.from, link.to})) return false;
        if (link.from == kCoordinator && link.to == kCoordinator) return false;
        if (link.from == kCoordinator) return !range(link.to).empty() && range(link.to).begin == 0;
        if (link.to == kCoordinator)
            return !range(link.from).empty() && range(link.from).end == problem_.model.n_layers;
        if (apart_ && prefills(link.from) != prefills(link.to)) return false;
        return valid_hop(range(link.from), range(link.to), options_.partial);
    }
    bool prefills(std::int32_t node) const {
        return problem_.cluster.nodes[at(node)].role == spec::NodeRole::prefill;
    }

    std::vector<std::int32_t> find_used_links() const {
        std::vector<std::int32_t> used;
        for (std::int32_t l = 0; at(l) < problem_.cluster.links.size(); ++l) {
            if (usable(problem_.cluster.links[at(l)])) used.push_back(l);
        }
        return used;
    }

    std::int32_t new_vertex() { return graph_.network.n_vertices++; }

    void add_edge(std::int32_t from, std::int32_t to, double capacity, FlowGraph::Kind kind,
                  std::int32_t index) {
        graph_.network.edges.push_back({from, to, capacity});
        graph_.meaning.push_back({kind, index});
    }

    void add_coordinator() {
        entry_ = new_vertex();
        exit_ = new_vertex();
        add_edge(graph_.network.source, entry_,
                 nic_or_unlimited(problem_.cluster.coordinator_nic_out_bytes_per_s) / token_bytes_,
                 FlowGraph::Kind::coordinator_out, kCoordinator);
        add_edge(exit_, graph_.network.sink,
                 nic_or_unlimited(problem_.cluster.coordinator_nic_in_bytes_per_s) / token_bytes_,
                 FlowGraph::Kind::coordinator_in, kCoordinator);
    }

    // Is the coordinator the only neighbour on this side?
    bool only_coordinator(std::int32_t node, bool incoming) const {
        bool any = false;
        for (const std::int32_t l : used_links_) {
            const LinkSpec& link = problem_.cluster.links[at(l)];
            if ((incoming ? link.to : link.from) != node) continue;
            if ((incoming ? link.from : link.to) != kCoordinator) return false;
            any = true;
        }
        return any;
    }

    void add_node(std::int32_t i) {
        const NodeSpec& node = problem_.cluster.nodes[at(i)];
        const double nic_in = nic_or_unlimited(node.nic_in_bytes_per_s);
        const double nic_out = nic_or_unlimited(node.nic_out_bytes_per_s);
        double compute = problem_.capacities.nodes[at(i)].throughput(range(i));
        in_[at(i)] = new_vertex();
        out_[at(i)] = new_vertex();
        if (options_.convention == Convention::paper) {
            compute = std::min(compute, std::min(nic_in, nic_out) / hop_bytes_);
            add_edge(in_[at(i)], out_[at(i)], compute, FlowGraph::Kind::compute, i);
            return;
        }
        const std::int32_t start = new_vertex();
        const std::int32_t end = new_vertex();
        const double in_bytes = only_coordinator(i, true) ? token_bytes_ : hop_bytes_;
        const double out_bytes = only_coordinator(i, false) ? token_bytes_ : hop_bytes_;
        add_edge(in_[at(i)], start, nic_in / in_bytes, FlowGraph::Kind::nic_in, i);
        add_edge(start, end, compute, FlowGraph::Kind::compute, i);
        add_edge(end, out_[at(i)], nic_out / out_bytes, FlowGraph::Kind::nic_out, i);
    }

    void add_link(std::int32_t l) {
        const LinkSpec& link = problem_.cluster.links[at(l)];
        const bool outside = link.from == kCoordinator || link.to == kCoordinator;
        add_edge(link.from == kCoordinator ? entry_ : out_[at(link.from)],
                 link.to == kCoordinator ? exit_ : in_[at(link.to)],
                 link.bandwidth_bytes_per_s / (outside ? token_bytes_ : hop_bytes_),
                 FlowGraph::Kind::link, l);
    }

    Problem problem_;
    const Placement& placement_;
    const FlowOptions& options_;
    double token_bytes_;
    double hop_bytes_;
    std::set<std::pair<std::int32_t, std::int32_t>> only_;
    bool apart_ = false;  // prefill machines and the others
    std::vector<std::int32_t> used_links_;
    std::int32_t entry_ = 0;
    std::int32_t exit_ = 0;
    std::vector<std::int32_t> in_;
    std::vector<std::int32_t> out_;
    FlowGraph graph_;
};

}  // namespace

FlowGraph build_flow_graph(const Problem& problem, const Placement& placement,
                           const FlowOptions& options) {
    CHECK(placement.layers.size() == problem.cluster.nodes.size());
    CHECK(problem.capacities.nodes.size() == problem.cluster.nodes.size());
    CHECK(problem.model.token_bytes > 0 && problem.model.activation_bytes_per_token > 0);
    return GraphBuilder(problem, placement, options).build();
}

std::string describe_cut(const ClusterSpec& cluster, const Placement& placement,
                         const FlowPlan& flow) {
    if (flow.tokens_per_s <= 0) return "no links lead through all layers";
    std::vector<std::string> parts;
    for (const FlowGraph::Meaning& edge : flow.cut) {
        switch (edge.kind) {
            case FlowGraph::Kind::compute: {
                const LayerRange range = placement.layers[at(edge.index)];
                parts.push_back(fmt::format("{} (layers {}-{})",
                                            spec::end_name(cluster, edge.index), range.begin,
                                            range.end - 1));
                break;
            }
            case FlowGraph::Kind::link: {
                const LinkSpec& link = cluster.links[at(edge.index)];
                parts.push_back(fmt::format("the link {} -> {}", spec::end_name(cluster, link.from),
                                            spec::end_name(cluster, link.to)));
                break;
            }
            case FlowGraph::Kind::trunk: {
                const spec::TrunkSpec& trunk = cluster.trunks[at(edge.index)];
                parts.push_back(fmt::format("the trunk from region {} to {}", trunk.from_region,
                                            trunk.to_region));
                break;
            }
            case FlowGraph::Kind::nic_in:
            case FlowGraph::Kind::coordinator_in:
                parts.push_back("the inbound network of " + spec::end_name(cluster, edge.index));
                break;
            case FlowGraph::Kind::nic_out:
            case FlowGraph::Kind::coordinator_out:
                parts.push_back("the outbound network of " + spec::end_name(cluster, edge.index));
                break;
        }
    }
    constexpr std::size_t kShown = 4;
    std::string text;
    for (std::size_t p = 0; p < std::min(parts.size(), kShown); ++p) {
        if (p > 0) text += p + 1 == parts.size() ? " and " : ", ";
        text += parts[p];
    }
    if (parts.size() > kShown) text += fmt::format(" and {} more", parts.size() - kShown);
    return text;
}

}  // namespace helix::plan

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/flow/flow_network.h"
#include "plan/problem/problem.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

namespace helix::plan {

// How bandwidths become tokens/s. The two publications of one system differ:
// * paper: a link carries bandwidth / bytes of what crosses it; a node carries min(T(j), its slower
// NIC
//   direction / activation bytes).
// * reference: the published scheduler's graph, by which published layouts were evaluated:
// coordinator links and
//   NICs bandwidth / token bytes, the others bandwidth / (token + activation bytes), and each NIC
//   direction an edge of its own (token bytes only where the coordinator is the sole neighbour).
enum class Convention { paper, reference };

struct FlowOptions {
    // Partial inference: a stage may run only the tail of its node's layers, where the stage before
    // has already run the others (valid_hop).
    bool partial = true;
    Convention convention = Convention::paper;
    // Only these directed links may carry flow, as (from, to); without it every link may.
    std::optional<std::vector<std::pair<std::int32_t, std::int32_t>>> only_links = std::nullopt;
};

// May a token that has left `from` go on in `to`? Ends grow along every hop, so the graph has no
// cycle.
constexpr bool valid_hop(spec::LayerRange from, spec::LayerRange to, bool partial) {
    if (from.empty() || to.empty()) return false;
    if (!partial) return from.end == to.begin;
    return to.begin <= from.end && from.end < to.end;
}

// The paper's graph of a placement: each node is an arc that carries what the node computes, the
// source and the sink are the coordinator, and there is an arc for each link over which a token may
// go on. Each path from source to sink is a valid pipeline: its stages, each run from where the one
// before ended, concatenate to [0, L).
struct FlowGraph {
    enum class Kind { compute, nic_in, nic_out, coordinator_out, coordinator_in, link, trunk };
    struct Meaning {
        Kind kind = Kind::link;
        std::int32_t index = 0;  // a node, or an index into ClusterSpec::links or trunks
    };

    FlowNetwork network;
    std::vector<Meaning> meaning;  // parallel to network.edges
    // What a token weighs on a link of the coordinator's and on one between nodes.
    double token_bytes = 0;
    double hop_bytes = 0;
};

// The placement must pass check_placement; but a node that divides joined layers counts as empty.
FlowGraph build_flow_graph(const Problem& problem, const spec::Placement& placement,
                           const FlowOptions& options);

// One pipeline of a flow: the nodes in order, and its share. Node k runs [layers[k-1].end,
// layers[k].end).
struct FlowPath {
    std::vector<std::int32_t> nodes;
    double tokens_per_s = 0;
};

// Everything a maximum flow says about a placement.
struct FlowPlan {
    double tokens_per_s = 0;
    std::vector<spec::LinkFlow> links;  // positive ones, by (from, to)
    std::vector<double> node_flow;      // tokens/s through each node
    std::vector<FlowPath> paths;        // largest first; they sum to links
    double mean_depth = 0;              // stages a token passes, averaged over the flow
    std::vector<FlowGraph::Meaning> cut;
};

// Among all maximum flows the one with the least latency, spread over equal nodes: links cost their
// latency, nodes the time of a token times a factor that grows with their load. Paths below a
// millionth of the flow are dropped. Deterministic. Trunks bind all links between two regions
// together, which no edge can say: where the flow asks more of one than it carries, all of it is
// scaled down, so that it is possible but perhaps not the most possible.
FlowPlan plan_flow(const spec::ClusterSpec& cluster, const FlowGraph& graph);

// "L4-1 (layers 3-5) and the link a -> b": what to improve first. Names at most four.
std::string describe_cut(const spec::ClusterSpec& cluster, const spec::Placement& placement,
                         const FlowPlan& flow);

}  // namespace helix::plan

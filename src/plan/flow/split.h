#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/flow/traffic.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

namespace helix::plan {

// Spreads requests over a placement so that no machine or link is much busier than need be and slow
// links are used only where they must. A quick approximation of a maximum flow, smooth in the
// placement and equal for equal machines; a network solver's flow is an arbitrary one of many.
//
// A hop to node j is taken with the weight g_j e_ij Z_j, where Z_j sums the weights of all ways on
// from j: the paths' weights are the products of their nodes' and links'. A node's weight starts at
// its speed and falls while it has more than its part of the load.
class Splitter {
  public:
    // The references must outlive this object. Latencies and bandwidths count against the time that
    // a prompt of so many tokens takes on the nodes.
    Splitter(const Problem& problem, const FlowOptions& options, double prompt_tokens);

    struct Scratch {
        struct Edge {
            std::int32_t from = 0;  // position in order; -1 the coordinator
            std::int32_t to = 0;
            std::int32_t link = 0;
            double weight = 0;
            double price = 0;
            double share = 0;
        };
        std::vector<std::int32_t> order;  // used nodes by falling end
        std::vector<Edge> edges;          // by from
        std::vector<std::size_t> first_edge;
        std::vector<double> weight;  // of nodes, before prices
        std::vector<double> ways;    // Z times the node's own weight
        std::vector<double> price;   // log of how much a node's weight is lowered
        std::vector<double> share;
        std::vector<double> coverage;
    };

    // Writes into flows what each link carries, in tokens/s, as much as the machines and links bear
    // with these shares. Returns that flow; 0 when no pipeline is complete.
    double split(std::span<const spec::LayerRange> layers, Scratch& scratch,
                 std::vector<spec::LinkFlow>& flows) const;

  private:
    bool find_edges(std::span<const spec::LayerRange> layers, Scratch& scratch) const;
    double least_load(std::span<const spec::LayerRange> layers, Scratch& scratch) const;
    static void spread(Scratch& scratch);
    double node_tokens_per_s(std::int32_t node, spec::LayerRange range) const;

    const CapacityTable& capacities_;
    std::int32_t n_layers_;
    bool partial_;
    std::vector<std::int32_t> link_index_;  // [from + 1][to + 1], -1 = none or not to be used
    std::vector<double> link_tokens_per_s_;
    std::vector<double> link_weight_;
};

// How good a placement is with these flows; more is better.
using SplitScore = std::function<double(std::span<const spec::LinkFlow>)>;

// Changes the weights of single links while the score rises, at most max_scores tries; links that
// end up without flow are dropped. Deterministic. Returns the score of the flows it leaves.
double improve_split(const SplitScore& score, std::int32_t max_scores,
                     std::vector<spec::LinkFlow>& flows);

// The flows scaled to what machines and links bear with these shares, which is returned; 0 and no
// flows when they are broken.
double scale_to_capacity(const TrafficBuilder& builder, const Problem& problem,
                         std::span<const spec::LayerRange> layers,
                         std::vector<spec::LinkFlow>& flows);

}  // namespace helix::plan

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/flow/flow_graph.h"
#include "plan/mip/program.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

// Placement for the largest flow as a mixed-integer program, the paper's formulation. Columns: s_i
// is the first layer of node i; b_ik says that it holds k layers; f_uv is the flow over a link;
// d_uv says that the link is valid; with partial inference there are also c1_uv (s_v <= e_u) and
// c2_uv (e_u < e_v) of links between nodes. e_i = s_i + sum k b_ik. Rows: a node has one size, it
// ends within L, what flows in flows out, no node carries more than the throughput of its size,
// flow runs only over valid links, and what makes a link valid.

namespace helix::plan {

struct MilpFormulation {
    bool partial = false;
    // Leave out the rows that force d to 1 where a link is valid: no maximum needs them.
    bool remove_redundant = true;
    // As the paper has it; else a node may hold nothing.
    bool every_node_holds = true;
    // A link's capacity is cut to what its ends compute. Changes no solution, but coordinator links
    // of 10^8 tokens/s make the relaxation useless and an indicator of 10^-6 worth a pipeline.
    bool cap_links = true;

    // Beyond the paper, both without effect on the optimum:
    // A known upper bound on any placement's flow; 0 = none. Capacities are cut to it, and one row
    // says that the work of all layers must be done: L F <= sum k min(T_i(k), bound) b_ik.
    double flow_bound = 0;
    // Nodes that are alike in speed, room and links start in the order of their indices.
    bool order_equals = false;
};

class MilpProgram {
  public:
    // `links`: (from, to) as in FlowOptions::only_links; each must be a link of the cluster. The
    // other referenced objects must outlive this one.
    MilpProgram(const Problem& problem,
                const std::vector<std::pair<std::int32_t, std::int32_t>>& links,
                const MilpFormulation& formulation);

    const mip::Program& program() const { return program_; }

    // All columns for a placement that passes check_placement, with its maximum flow over the
    // links. If every node must hold something, nodes left out get one layer; with order_equals
    // equal nodes may exchange their layers.
    std::vector<double> start(const spec::Placement& placement) const;
    spec::Placement placement(const std::vector<double>& values) const;
    // The maximum flow of a placement over these links.
    double flow(const spec::Placement& placement) const;

  private:
    struct Edge {
        std::int32_t from = 0;
        std::int32_t to = 0;
        double capacity = 0;  // tokens/s, not cut
        std::int32_t f = 0;   // columns
        std::int32_t d = 0;
        std::int32_t c1 = -1;
        std::int32_t c2 = -1;
    };
    using Terms = std::vector<mip::Program::Term>;

    // Branching settles valid links first, then sizes, then places: measured to be the quickest.
    enum Priority : std::int32_t { kContinuous = 0, kLink = 1, kSize = 2, kPlace = 3, kHelper = 4 };

    std::int32_t add_column(std::string name, double upper, Priority priority);
    void add_row(std::string name, double lower, Terms terms, double upper);
    void add_columns();
    void add_edges(const std::vector<std::pair<std::int32_t, std::int32_t>>& links);
    void add_node_rows();
    void add_end_limits(std::int32_t node);
    void add_validity_rows();
    void add_work_row();
    void find_equals();
    void add_order_rows();
    void add_hop_rows(const Edge& edge);
    void append_end(Terms& terms, std::int32_t node, double factor) const;  // of e_i
    double fastest(std::int32_t node) const;
    FlowGraph flow_graph(const spec::Placement& placement) const;
    spec::Placement filled(const spec::Placement& placement) const;
    spec::Placement ordered(const spec::Placement& placement) const;

    Problem problem_;
    MilpFormulation formulation_;
    std::int32_t n_layers_;
    mip::Program program_;
    std::vector<std::int32_t> s_;                  // column by node
    std::vector<std::int32_t> b_;                  // column of b_i1 by node; b_ik follow it
    std::vector<std::vector<double>> throughput_;  // [node][layers], NICs counted
    std::vector<Edge> edges_;
    std::vector<std::vector<std::int32_t>> equals_;  // groups of two or more, by index
    // Indicators "holds layer 0" and "holds layer L-1", only where embedding or head cost layers.
    std::vector<std::pair<std::int32_t, std::int32_t>> end_columns_;
};

}  // namespace helix::plan

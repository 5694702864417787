#pragma once

#include <cstdint>
#include <vector>

#include "plan/mip/program.h"
#include "plan/pack/block_shape.h"
#include "plan/problem/node_types.h"

namespace helix::plan {

// The part of the packing program that lets blocks of several groups of nodes follow each other
// where links between groups are narrower than the target. Every group is visited at most once; at
// each change of group p nodes at the end of one block meet q nodes at the start of the next, and
// each of the p q links carries no more than `link`. A block may end there if its last nodes, each
// limited to q links, carry the target together; likewise one may begin there. Which node has
// which link is not looked at.
class Crossings {
  public:
    // link[a][b]: tokens/s of one link from group a to group b. At most kMostGroups groups.
    Crossings(std::vector<std::vector<double>> link, double target);
    static constexpr std::int32_t kMostGroups = 6;

    // Adds rows and columns for blocks that stand in `program` as its first columns.
    void extend(mip::Program& program, const std::vector<const Block*>& blocks,
                const std::vector<NodeType>& types);
    // The chosen blocks (indices into `blocks`, each as often as it is used) in an order that the
    // solution allows; empty if one block would have to be at both ends of its group.
    std::vector<std::int32_t> order(const std::vector<double>& values,
                                    const std::vector<const Block*>& blocks,
                                    const std::vector<NodeType>& types) const;

  private:
    struct Change {  // of group
        std::int32_t from = 0;
        std::int32_t to = 0;
        std::int32_t last_nodes = 0;   // p
        std::int32_t first_nodes = 0;  // q
        std::int32_t column = 0;
    };

    bool may_end(const Block& block, const Change& change,
                 const std::vector<NodeType>& types) const;
    bool may_begin(const Block& block, const Change& change,
                   const std::vector<NodeType>& types) const;
    void add_changes(mip::Program& program);
    void add_path_rows(mip::Program& program, const std::vector<const Block*>& blocks) const;
    void add_edge_rows(mip::Program& program, const std::vector<const Block*>& blocks,
                       const std::vector<NodeType>& types) const;

    std::int32_t n_groups_;
    std::vector<std::vector<double>> link_;
    double target_;
    std::vector<Change> changes_;
};

}  // namespace helix::plan

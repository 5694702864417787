#pragma once

#include <string>
#include <vector>

#include "text/grammar/automaton.h"

namespace helix::text::grammar {

// The graphs of a grammar's rules, before and after what cannot be completed is taken out.
struct RuleGraphs {
    struct RuleGraph {
        std::string name;
        NodeIndex start = 0;
        NodeIndex end = 0;
    };
    struct Call {
        std::size_t rule = 0;
        NodeIndex return_to = 0;
    };
    struct Node {
        std::vector<Automaton::ByteEdge> bytes;
        std::vector<NodeIndex> empty;
        std::vector<Call> calls;
        Automaton::StandIn stand_in;
    };
    std::vector<Node> nodes;
    std::vector<RuleGraph> rules;  // the grammar's first, in order
};

// Error invalid: too many nodes.
base::Result<RuleGraphs> build_graphs(const Grammar& grammar);

// Takes out edges that lead to no end of their rule. Error invalid: no text can complete rule root.
base::Status remove_dead_ends(RuleGraphs& graphs, std::size_t root);

struct CallOrder {
    // Ranks 0, 1, 2 ... by rule. What a rule calls before it has read anything has a higher rank.
    std::vector<std::uint32_t> rank;
    std::vector<bool> may_be_empty;  // by rule: it may read nothing
};

// Error invalid: a rule begins with itself, perhaps by way of others. It names them.
base::Result<CallOrder> call_order(const RuleGraphs& graphs);

// Whether, per node, nothing but its rule's end can follow.
std::vector<bool> only_end_follows(const RuleGraphs& graphs);

}  // namespace helix::text::grammar

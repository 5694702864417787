#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/protocol/types.h"

// This says in which order workers take up a new placement, so that the others serve meanwhile.

namespace helix::core {

struct TransitionNode {
    // The layers that it serves; empty: none (yet).
    LayerRange now;
    LayerRange next;       // the layers of the new placement
    bool changes = false;  // it still has to load them
};

struct TransitionStep {
    std::vector<std::int32_t> nodes;  // the nodes that change now; empty: none is left
    // Nodes that do not change now hold a complete pipeline meanwhile.
    bool serves = false;
};

// Returns what changes next. A node that changes holds nothing until it has loaded. If there is an
// order in which some complete pipeline is there at all times, the result is a step of such an
// order (found for sure where few nodes change, else within a bounded search); together with a node
// go those that are of no use while it is away. Without such an order, first those go that nobody
// would miss, then all others at once. The ends of links are node indices or kCoordinator.
TransitionStep next_transition_step(
    std::int32_t n_layers, const std::vector<TransitionNode>& nodes,
    const std::vector<std::pair<std::int32_t, std::int32_t>>& links);

}  // namespace helix::core

#pragma once

#include <cstdint>
#include <functional>

#include "plan/flow/evaluator.h"
#include "spec/placement.h"

namespace helix::plan {

struct ExhaustiveOptions {
    std::int64_t most_steps = -1;  // nodes of the search tree; -1 = all there are
    std::function<bool()> stop;    // asked now and then; true ends it
};

struct Exhaustive {
    spec::Placement placement;
    double flow = 0;
    bool complete = false;  // no placement has more flow
    std::int64_t steps = 0;
};

// Tries all placements of a handful of nodes and layers, node by node. A branch is left when the
// layers' shortfall against the best flow so far is more than the nodes not yet placed can make up
// (each at most max_j j min(T(j), F) token-layers; as in Bounds::capped, with some nodes placed).
// `start` is the first best; its flow should be high.
Exhaustive exhaustive_placement(const Evaluator& evaluator, const spec::Placement& start,
                                const ExhaustiveOptions& options);

}  // namespace helix::plan

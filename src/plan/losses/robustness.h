#pragma once

#include <cstdint>
#include <string>

#include "plan/flow/flow_graph.h"
#include "plan/problem/problem.h"
#include "spec/placement.h"

namespace helix::plan {

// What the loss of one part leaves of a placement's maximum flow; the others keep their layers.
struct Loss {
    double tokens_per_s = 0;  // that remain
    double share = 1;         // of the flow before
    std::string part;         // "L4-3", "link a - b"; "" where there is nothing to lose
};

struct Robustness {
    double tokens_per_s = 0;  // with everything there
    Loss machine;             // the worst one; nodes with one host fail together
    Loss link;  // the worst one, both directions at once; links of the coordinator count as well
    double worst_share() const { return machine.share < link.share ? machine.share : link.share; }
};

// The figures are exact: a maximum flow is solved for each part that carries some (others cannot
// matter). The placement must pass check_placement.
Robustness single_losses(const Problem& problem, const spec::Placement& placement,
                         const FlowOptions& options);

}  // namespace helix::plan

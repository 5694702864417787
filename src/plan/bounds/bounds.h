#pragma once

#include "plan/problem/problem.h"

namespace helix::plan {

// Upper bounds on the flow of any placement, with or without partial inference. A flow of F
// tokens/s needs F L token-layers a second. A node with j layers computes at most j T(j) of them,
// which gives `paper`; and as no node carries more than the whole flow, at most j min(T(j), F),
// which gives `capped`.
struct Bounds {
    double paper = 0;   // sum_i max_j j T_i(j) / L
    double capped = 0;  // the largest F with sum_i max_j j min(T_i(j), F) >= F L; at most `paper`
    // Further limited by what the coordinator's links can feed and collect.
    double best = 0;
};

Bounds flow_bounds(const Problem& problem);

}  // namespace helix::plan

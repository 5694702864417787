#pragma once

#include "plan/problem/problem.h"

namespace helix::plan {

// Upper bounds on the flow of any placement, with or without partial inference (OPTIMISER.md
// section 4).
struct Bounds {
    double paper = 0;   // B1: sum_i max_j j T_i(j) / L
    double capped = 0;  // B2: the largest F with sum_i max_j j min(T_i(j), F) >= F L; at most B1
    // Further limited by what the coordinator's links can feed and collect.
    double best = 0;
};

Bounds flow_bounds(const Problem& problem);

}  // namespace helix::plan

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/options.h"
#include "plan/problem/problem.h"

namespace helix::plan {

// A placement that a method found.
struct Candidate {
    spec::Placement placement;
    std::string method;
    // Only these links may carry flow; empty = all.
    std::vector<std::pair<std::int32_t, std::int32_t>> only_links = {};
    std::vector<std::string> notes = {};
    double flow = 0;
    double depth = 0;
    double kv_tokens = 0;
};

// What the rules (all methods but search, milp and manual) make of the problem; only the one that
// options.method names, or all. Errors: the one that was named finds no place for all layers.
base::Result<std::vector<Candidate>> rule_candidates(const Problem& problem,
                                                     const PlanOptions& options);

}  // namespace helix::plan

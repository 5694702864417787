#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/flow/flow_graph.h"
#include "plan/milp/milp.h"
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

// Sets the candidate's flow and depth; nodes that get nothing of its maximum flow are left out.
void judge_flow(const Problem& problem, const FlowOptions& options, Candidate& candidate);

// The candidate of most flow becomes what the program starts from; where no flow leads through any
// of them, milp stays as it is.
void start_from_most_flow(const std::vector<Candidate>& candidates, MilpOptions& milp);

}  // namespace helix::plan

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/flow/evaluator.h"
#include "plan/problem/executor.h"
#include "spec/placement.h"

namespace helix::plan {

struct SearchOptions {
    std::uint64_t seed = 1;
    std::int64_t iterations = 200'000;  // moves tried in all
    std::function<bool()> stop;         // asked every few moves, by any thread of the executor;
                                        // true ends the search at once
    double flow_tolerance = 0.02;  // how much flow the second phase may give up for fewer stages
    double upper_bound = 0;        // no flow is sought beyond it; 0 = unknown
    Executor executor = {};        // without one the jobs run one after the other
    // Called by the caller's thread whenever a round of the search has found more flow.
    std::function<void(double flow)> progress = {};
    // Placements of tiny problems are enumerated if that takes at most so many steps; 0 = never.
    std::int64_t exhaustive_steps = 200'000;
};

struct SearchResult {
    spec::Placement most_flow;
    double flow = 0;
    bool proven = false;  // by enumeration or by upper_bound: no placement has more flow
    // Placements within the tolerance with ever fewer stages (by Evaluator::depth_estimate), best
    // last.
    std::vector<spec::Placement> shallower;
    std::int64_t iterations = 0;
};

// Simulated annealing from `starts` (at least one), never worse than the best of them. Rounds of
// growing length, in each of which two searches run apart: one from the best placement so far, one
// from elsewhere, each towards a flow between the best so far and the bound (TargetFlow's cost is a
// slope where the flow itself is flat). A quarter of each round then goes towards fewer stages at
// nearly the best flow. The same seed and iterations give the same result, whatever the executor.
SearchResult search_placement(const Evaluator& evaluator,
                              const std::vector<spec::Placement>& starts,
                              const SearchOptions& options);

}  // namespace helix::plan

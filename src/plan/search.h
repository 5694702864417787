#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/evaluator.h"
#include "spec/placement.h"

namespace helix::plan {

struct SearchOptions {
    std::uint64_t seed = 1;
    std::int64_t iterations = 200'000;  // moves tried in all
    std::function<bool()> stop;         // asked every few moves; true ends the search at once
    double flow_tolerance = 0.02;  // how much flow the second phase may give up for fewer stages
    double upper_bound = 0;        // no flow is sought beyond it; 0 = unknown
};

struct SearchResult {
    spec::Placement most_flow;
    double flow = 0;
    // Placements within the tolerance with ever fewer stages (by Evaluator::depth_estimate), best
    // last.
    std::vector<spec::Placement> shallower;
    std::int64_t iterations = 0;
};

// Simulated annealing from the best of `starts`, never worse than it, in cycles of growing length.
// Each goes first towards a flow a little above the best so far (the layers' shortfall against that
// target is a slope where the flow itself is flat), then towards fewer stages at nearly that flow.
// The same seed and iteration count give the same result.
SearchResult search_placement(const Evaluator& evaluator,
                              const std::vector<spec::Placement>& starts,
                              const SearchOptions& options);

}  // namespace helix::plan

#pragma once

#include <vector>

#include "plan/problem/lengths.h"
#include "plan/problem/problem.h"
#include "plan/search/throughput_search.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"

namespace helix::plan {

// Where a plan's pipelines share no machines, some of them may compute the prompts of all requests,
// and the others what follows (prefill/decode disaggregation, core/coordinator/roles.h): these are
// ways to divide them that may pay, each parallel to the placement; none where there is one
// pipeline only. Prompts go to those that are fastest with them beside how fast they decode, to as
// many that prompts and answers of mean length keep both groups busy, by what the machines would
// compute if they were never idle; and to one pipeline more or fewer. The others decode, and take
// prompts, too, when the first are full, or they only decode.
std::vector<std::vector<spec::NodeRole>> role_choices(const Problem& problem,
                                                      const spec::CostModel& costs,
                                                      const LengthMoments& lengths,
                                                      const ThroughputCandidate& candidate);

}  // namespace helix::plan

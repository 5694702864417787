#pragma once

#include <string>

#include "base/result.h"
#include "lab/problem/problem.h"
#include "spec/placement_file.h"

namespace helix::cli {

// A placement for a cluster that is simulated without one: what `helix plan` finds within budget,
// judged by its prediction of our own policy. Says on standard error what it is.
base::Result<spec::PlacementFile> plan_for_simulation(const lab::ProblemSource& source,
                                                      const lab::Problem& problem,
                                                      const std::string& budget);

}  // namespace helix::cli

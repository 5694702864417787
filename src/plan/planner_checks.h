#pragma once

#include "base/result.h"
#include "plan/problem/problem.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::plan {

// Figures without which nothing can be planned.
base::Status check_input(const spec::ClusterSpec& cluster, const spec::ModelSpec& model);

// The nodes together hold all layers, and one of them those that are joined; else says which layers
// have no place and about how much memory is missing.
base::Status check_holdable(const Problem& problem);

}  // namespace helix::plan

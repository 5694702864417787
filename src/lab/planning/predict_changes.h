#pragma once

#include <functional>

#include "base/result.h"
#include "lab/problem/problem.h"
#include "plan/change/what_if.h"

namespace helix::lab {

// What a machine is taken to read from its copy of the model when layers move.
inline constexpr double kDiskBytesPerS = 1e9;

// Makes a problem of a cluster that was changed.
using MakeProblem = std::function<base::Result<Problem>(const spec::ClusterSpec& cluster)>;

// Decode tokens/s that users would see of a placement, for any cluster that make can make a problem
// of; 0 where it cannot, or the placement serves nothing. partial: FlowOptions::partial.
plan::PredictFunction predict_changes(MakeProblem make, bool partial);

// The speeds of such clusters' machines.
plan::CapacityFunction capacities_by(MakeProblem make);

}  // namespace helix::lab

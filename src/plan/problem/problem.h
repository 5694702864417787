#pragma once

#include "base/result.h"
#include "plan/problem/capacity.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::plan {

// What every placement method is asked: where the layers of a model shall go in a cluster of which
// it is known what each node can do with how many of them. Refers to three objects of the caller,
// who keeps them for as long as the problem or anything made from it is used; cheap to copy.
struct Problem {
    const spec::ClusterSpec& cluster;
    const spec::ModelSpec& model;
    const CapacityTable& capacities;  // parallel to cluster.nodes
};

// Ranges lie in [0, L), leave joined layers together and fit each node's memory; says which node
// does not and why.
base::Status check_placement(const Problem& problem, const spec::Placement& placement);

}  // namespace helix::plan

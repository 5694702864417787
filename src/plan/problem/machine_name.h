#pragma once

#include <cstddef>
#include <string>

#include "spec/cluster_spec.h"

namespace helix::plan {

// What to call the machine that this node is on, which is lost as a whole: by the names of its
// nodes, since the name of a host may be nothing but a number. "den", "a and b", "a, b and 3 more".
// Nodes are of one machine when this is equal; names are unique in a cluster.
std::string machine_name(const spec::ClusterSpec& cluster, std::size_t node);

}  // namespace helix::plan

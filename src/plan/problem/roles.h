#pragma once

#include <string>
#include <vector>

#include "plan/problem/cluster_part.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

// Machines with roles (prefill/decode disaggregation): those that only compute prompts are planned
// as one cluster, all others as another, and both placements are in force side by side.

namespace helix::plan {

// Two parts, that of the prefill machines first; none when there is nothing to keep apart: no
// machine only prefills, or all do.
std::vector<ClusterPart> role_parts(const spec::ClusterSpec& cluster);

// Do the prefill machines hold all layers, and the others, too? Then no token passes from one
// group to the other.
bool keeps_roles(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const spec::Placement& placement);

// What the roles ask for and nothing can give: every machine prefills, or none may.
std::vector<std::string> role_warnings(const spec::ClusterSpec& cluster);

}  // namespace helix::plan

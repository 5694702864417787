#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/planner.h"

// Machines with roles (prefill/decode disaggregation): those that only compute prompts are planned
// as one cluster, all others as another, and both placements are in force side by side.

namespace helix::plan {

// A part of a cluster: some of its nodes, the links and lines among them and to the coordinator.
struct RolePart {
    spec::ClusterSpec cluster;
    std::vector<std::int32_t> origin;  // [node of the part]: its index in the whole
};

// Two parts, that of the prefill machines first; none when there is nothing to keep apart: no
// machine only prefills, or all do.
std::vector<RolePart> role_parts(const spec::ClusterSpec& cluster);

// Do the prefill machines hold all layers, and the others, too? Then no token passes from one
// group to the other.
bool keeps_roles(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                 const spec::Placement& placement);

// What the roles ask for and nothing can give: every machine prefills, or none may.
std::vector<std::string> role_warnings(const spec::ClusterSpec& cluster);

// plan_part plans one part. Where one cannot hold the model, plan_whole plans all machines as if
// they had no roles, and the report's warnings say so.
using PlanPart = std::function<base::Result<PlanReport>(const RolePart& part, int which)>;
struct RolePlans {
    std::vector<PlanReport> reports;    // parallel to the parts; empty: roles cannot be kept
    std::vector<std::string> warnings;  // then why
};
RolePlans plan_parts(const std::vector<RolePart>& parts, const PlanPart& plan_part);

// Placements and flows of the parts, on the whole cluster.
spec::Placement join_placements(const std::vector<RolePart>& parts,
                                const std::vector<PlanReport>& reports, std::size_t n_nodes);
std::vector<spec::LinkFlow> join_flows(const std::vector<RolePart>& parts,
                                       const std::vector<PlanReport>& reports);

}  // namespace helix::plan

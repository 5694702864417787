#pragma once

#include "base/result.h"
#include "plan/options.h"
#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

// "The paper" is, in all of this room, "Helix: Serving Large Language Models over Heterogeneous
// GPUs and Network via Max-Flow" (ASPLOS 2025); "published" is what its artifact contains: layouts,
// measured tables, a scheduler and a simulator.

namespace helix::plan {

// Which layers go on which machine, and what flows where. Every path over `flows` from the
// coordinator back to it is a valid pipeline. Errors: a cluster that cannot hold the model (says
// what is missing), speeds that are unknown, a manual placement that does not fit or does not
// connect, limits that no plan keeps, a program whose solver finds nothing. Machines with roles
// (plan/problem/roles.h) are planned in two groups, where both can hold the model.
base::Result<PlanReport> plan(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                              const PlanOptions& options);

}  // namespace helix::plan

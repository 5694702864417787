#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/options.h"
#include "plan/predict/performance.h"
#include "plan/problem/cluster_part.h"
#include "plan/problem/problem.h"
#include "plan/problem/roles.h"
#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::plan {

// plan() of planner.h, which hands itself in.
using PlanCluster = std::function<base::Result<PlanReport>(
    const spec::ClusterSpec& cluster, const spec::ModelSpec& model, const PlanOptions& options)>;

// The plan of a cluster whose machines have roles (problem/roles.h): prefill machines and the
// others, each group planned by itself. Empty where there is nothing to keep apart or a group
// cannot hold the model; then `warnings` says so. Costs: for the prediction; may be null.
std::optional<PlanReport> plan_apart(const Problem& problem, const spec::CostModel* costs,
                                     const PlanOptions& options, const PlanCluster& plan_cluster,
                                     std::vector<std::string>& warnings);

// Plans each part with plan_part. Where one part has no plan that serves, there are no reports, and
// the warnings say why.
using PlanPart = std::function<base::Result<PlanReport>(const ClusterPart& part, int which)>;
struct RolePlans {
    std::vector<PlanReport> reports;  // parallel to the parts; empty: roles cannot be kept
    std::vector<std::string> warnings;
};
RolePlans plan_parts(const std::vector<ClusterPart>& parts, const PlanPart& plan_part);

// Plans of the parts as one of the whole cluster, served by the policy that all of them have. The
// predictor may be null: then nothing is predicted.
base::Result<PlanReport> join_reports(const Problem& problem, const std::vector<ClusterPart>& parts,
                                      const std::vector<PlanReport>& reports,
                                      const FlowOptions& flow, const PerformanceModel* predictor);

// Placements and flows of the parts, on the whole cluster.
spec::Placement join_placements(const std::vector<ClusterPart>& parts,
                                const std::vector<PlanReport>& reports, std::size_t n_nodes);
std::vector<spec::LinkFlow> join_flows(const std::vector<ClusterPart>& parts,
                                       const std::vector<PlanReport>& reports);

}  // namespace helix::plan

#pragma once

#include <vector>

#include "base/result.h"
#include "plan/flow/flow_graph.h"
#include "plan/predict/performance.h"
#include "plan/problem/problem.h"
#include "plan/report/plan_report.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

namespace helix::plan {

// Two flows that differ by less than this share are one.
inline constexpr double kSameFlow = 1e-6;

// The report's bound and what follows from it.
void set_bound(PlanReport& report, double bound_tokens_per_s);

// What plan() says of a placement as it stands (Method::manual with nothing left out), without a
// prediction.
base::Result<PlanReport> evaluate_placement(const Problem& problem,
                                            const spec::Placement& placement,
                                            const FlowOptions& options);

// evaluate_placement with a prediction, if there is a model for it. flows: how requests spread;
// empty = the maximum flow of least latency. policy: the plan is served by it.
base::Result<PlanReport> evaluate_with(const Problem& problem, const spec::Placement& placement,
                                       const FlowOptions& options,
                                       const PerformanceModel* predictor,
                                       const std::vector<spec::LinkFlow>& flows,
                                       const spec::ServingPolicy& policy = {});

}  // namespace helix::plan

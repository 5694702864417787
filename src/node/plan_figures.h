#pragma once

#include <vector>

#include "api/plan_figures.h"
#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"

namespace helix::node {

// What the report says, with workers[i] for node i of the cluster that it was made for. The epoch
// is left open.
api::PlanFigures plan_figures_of(const plan::PlanReport& report, const spec::ClusterSpec& cluster,
                                 const std::vector<core::WorkerId>& workers);

}  // namespace helix::node

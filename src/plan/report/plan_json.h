#pragma once

#include <string>

#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::plan {

// The report as one JSON object (docs/planning.md lists the fields). `layers` maps a node's index
// in the cluster file, as a string, to [begin, end) or null. seconds: how long planning took.
std::string plan_to_json(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                         const PlanReport& report, double seconds);

}  // namespace helix::plan

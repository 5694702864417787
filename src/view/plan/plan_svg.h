#pragma once

#include <string>

#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::view {

// The plan as one SVG picture without scripts or outside references: layers run from left to
// right, a bar per machine (grouped by region, coloured by type, filled by load), a curve per link
// as wide as its flow. Readable on light and dark pages.
std::string draw_plan_svg(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                          const plan::PlanReport& report);

}  // namespace helix::view

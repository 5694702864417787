#pragma once

#include <string>

#include "plan/report/plan_report.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"

namespace helix::view {

struct PictureOptions {
    bool colours = false;  // ANSI
    bool flows = true;     // list the tokens/s of each link used
};

// Tokens per second, as pictures of a plan write it: three digits, or all before the point.
std::string rate_text(double tokens_per_s);

// The plan for people: a line per machine with a strip of the layers it holds, its memory and
// speed; the flow of each link; flow, bound, gap and what limits it. UTF-8, at most 100 columns,
// ends with a newline.
std::string draw_plan(const spec::ClusterSpec& cluster, const spec::ModelSpec& model,
                      const plan::PlanReport& report, const PictureOptions& options);

}  // namespace helix::view

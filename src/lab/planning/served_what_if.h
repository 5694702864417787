#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/problem/problem.h"
#include "plan/change/cluster_change.h"
#include "plan/change/placement_diff.h"
#include "plan/change/what_if.h"
#include "plan/report/plan_report.h"
#include "sim/report/latency_stats.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"
#include "spec/serving_policy.h"

// What changes would do to a cluster that serves: today beside what would be, both planned as the
// coordinator plans, both under the same load in the simulator.

namespace helix::lab {

// The cluster as its machines measured themselves, what each of them holds, and the policy that
// serves it, which stays when the cluster changes.
struct ServedPlan {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    spec::Placement placement;
    spec::ServingPolicy policy = {};
};

struct ServedQuestion {
    std::vector<plan::Change> changes;  // none: what planning anew would bring
    bool suggest = false;               // say, too, which machines and links would help most
    double budget_s = 10;               // for the searches; what is simulated comes on top
};

// How far an answer is; from one thread.
struct ServedProgress {
    const char* phase = "";  // "today", "planned anew", "what if", "simulation", "suggestions"
    double share_done = 0;   // of all
};
struct ServedWatch {
    std::function<double()> elapsed_s;  // any thread, as the next
    std::function<bool()> stopped;      // nobody wants the answer any more
    std::function<void(const ServedProgress&)> progress;
};

// Of one side in the simulator, under the policy that serves.
struct SimulatedSide {
    double saturated_tokens_per_s = 0;  // decode tokens/s while requests always wait
    // At the load that both sides get, prompt and output tokens alike.
    double offered_tokens_per_s = 0;
    double served_tokens_per_s = 0;
    sim::LatencySummary ttft;
    sim::LatencySummary tpot;
};

// One cluster and its plan; alone is filled in.
struct ServedSide {
    Problem problem;
    plan::PlanReport report;
    std::optional<SimulatedSide> simulated;
    std::string not_simulated;  // why not
};

struct ServedAnswer {
    ServedSide today;  // the placement in force
    // Today's machines, planned anew with the same care as what would be; absent without changes,
    // where what_if is that.
    std::optional<ServedSide> planned_anew;
    ServedSide what_if;
    std::vector<std::int32_t> origin;  // [node of what_if]: today's, or -1
    plan::PlacementDiff moves;         // from today's placement, by nodes of what_if
    std::optional<plan::AdviceReport> suggestions;
    double mean_prompt_tokens = 0;  // of the simulated load
    double mean_output_tokens = 0;
};

// Errors: changes that name what is not there; no placement serves the changed cluster; cancelled
// when nobody wants the answer any more.
base::Result<ServedAnswer> answer_served_what_if(const ServedPlan& served,
                                                 const ServedQuestion& question,
                                                 const ServedWatch& watch);

// One JSON object, as docs/api.md has it, without a line end.
std::string served_what_if_json(const ServedQuestion& question, const ServedAnswer& answer,
                                double elapsed_s);

}  // namespace helix::lab

#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "lab/problem/problem.h"
#include "plan/planner.h"
#include "spec/placement.h"
#include "spec/placement_file.h"

// Plans with a clock: the planner of the room plan, given time, threads and the simulator as judge.

namespace helix::lab {

// How plans are made, whatever the problem. Without changes: as `helix plan` without options does.
struct PlanSettings {
    PlanSettings();

    // What depends on a problem (capacities, costs, a manual placement) or on a run (clocks,
    // threads, judge) is filled in by options_for() and by PlanSession.
    plan::PlanOptions options;
    std::string placement;  // file of the placement that Method::manual judges
    std::string lengths;    // table of prompt_tokens, output_tokens; "": the Azure conversations
    bool judge = true;      // the best candidates run in the simulator, unless flow is all
    // Where plans are judged under our own policy, what of it depends on the plan is chosen, too.
    bool choose_policy = true;
    int threads = 0;  // of the search; 0: as many as the machine has
};

// All methods, in the order of the documentation.
std::span<const plan::Method> plan_methods();

// Everything but the clock, the threads and the judge. The problem must outlive the options.
base::Result<plan::PlanOptions> options_for(const PlanSettings& settings, const Problem& problem);

// What `helix plan` and its questions about changes share.
struct PlanSession {
    const ProblemSource& source;
    const PlanSettings& settings;
    std::function<double()> elapsed_s;
    std::function<bool()> interrupted;
    std::function<void(const plan::PlanProgress&)> progress;
    double budget_s = 0;

    // Plans the problem; the time ends at `until_s` of the session. Where the policy is chosen,
    // too, begin_with is the first one (PlanOptions::begin_with).
    base::Result<plan::PlanReport> plan(
        const Problem& problem, double until_s, const spec::Placement* start,
        std::optional<spec::ServingPolicy> begin_with = std::nullopt) const;
};

// A placement for a cluster that is simulated without one.
struct PlanToSimulate {
    spec::PlacementFile layout;
    std::string told;  // what it is and what it warns of, in lines
};
// What is found within the session's budget.
base::Result<PlanToSimulate> plan_to_simulate(const PlanSession& session, const Problem& problem);

// A plan as a placement file says it: the links that carry flow, and whose nodes these are.
spec::PlacementFile placement_file(const Problem& problem, const plan::PlanReport& report);

}  // namespace helix::lab

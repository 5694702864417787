#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"
#include "plan/planner.h"
#include "sim/load/load.h"

namespace helix::lab {

// Decode tokens/s of a plan in the simulator, offline: 120 s after 60 s to warm up, the last look
// 360 s, a glance the first 30 s; where memory still fills, prompts count as well. Under the
// policies that the settings' batchings stand for, our own for helix and the published one for
// reference; with both, plans are ranked by a geometric mean of the two in which our own counts
// half as much again. Without measured tables always our own. Empty where the settings want no
// judge. The problem must outlive the judge; it may be called by several threads at once. stop:
// asked now and then; true gives the run up.
base::Result<plan::Judge> simulation_judge(const PlanSettings& settings, const Problem& problem,
                                           std::function<bool()> stop = {});

// Does that judge run plans under our own policy?
bool judges_own_policy(const PlanSettings& settings, const Problem& problem);

// What one user alone gets of a plan, in the simulator under our own policy; nothing where the
// settings want no judge, or the plan does not run. lengths: of the requests.
base::Result<std::optional<plan::PlanReport::Alone>> simulate_alone(
    const PlanSettings& settings, const Problem& problem, const plan::LengthMoments& lengths,
    const plan::PlanReport& report);

// The same for requests of these lengths, which the plan must have been predicted for; whatever the
// settings want.
base::Result<std::optional<plan::PlanReport::Alone>> simulate_alone(
    const Problem& problem, sim::LengthSource lengths, const plan::LengthMoments& moments,
    const plan::PlanReport& report);

// Runs task(0) .. task(n - 1) on so many threads; 0 = as many as the machine has.
plan::Executor threads_executor(int threads);

}  // namespace helix::lab

#include "cli/simulate_plan.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/interrupt.h"
#include "cli/plan_progress.h"
#include "lab/planning/plan_session.h"
#include "spec/units.h"

namespace helix::cli {

base::Result<spec::PlacementFile> plan_for_simulation(const lab::ProblemSource& source,
                                                      const lab::Problem& problem,
                                                      const std::string& budget) {
    using Clock = std::chrono::steady_clock;
    TRY(const double budget_s, spec::parse_duration("--plan-budget", budget));
    lab::PlanSettings settings;
    settings.options.batchings = {plan::Batching::helix};
    settings.judge = false;
    const auto began = Clock::now();
    std::atomic<bool> interrupted{false};
    const Interrupt interrupt([&] { interrupted = true; });
    PlanProgressLine line;
    const lab::PlanSession session{
        .source = source,
        .settings = settings,
        .elapsed_s = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); },
        .interrupted = [&] { return interrupted.load(); },
        .progress = [&](const plan::PlanProgress& progress) { line.update(progress); },
        .budget_s = budget_s};
    TRY(lab::PlanToSimulate planned, lab::plan_to_simulate(session, problem));
    std::fputs(planned.told.c_str(), stderr);
    return std::move(planned.layout);
}

}  // namespace helix::cli

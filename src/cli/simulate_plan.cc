#include "cli/simulate_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>

#include "cli/interrupt.h"
#include "cli/plan_progress.h"
#include "lab/planning/plan_session.h"
#include "spec/units.h"

namespace helix::cli {

base::Result<spec::PlacementFile> plan_for_simulation(const lab::ProblemSource& source,
                                                      const lab::Problem& problem,
                                                      const std::string& budget) {
    using Clock = std::chrono::steady_clock;
    const auto budget_s = spec::parse_duration(budget);
    if (!budget_s.ok()) return base::invalid("--plan-budget: " + budget_s.error().message);
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
        .budget_s = *budget_s};
    TRY(const plan::PlanReport report, session.plan(problem, *budget_s, nullptr));
    const auto& layers = report.placement.layers;
    const auto used = std::count_if(layers.begin(), layers.end(),
                                    [](const spec::LayerRange& range) { return !range.empty(); });
    std::fputs(fmt::format("no --placement: planned for {}: {} of {} machines hold layers, {:.1f} "
                           "stages a request, flow {:.0f} tokens/s ('helix plan --output FILE' "
                           "takes more time and finds better ones)\n",
                           spec::format_duration(session.elapsed_s()), used, layers.size(),
                           report.mean_depth, report.max_flow_tokens_per_s)
                   .c_str(),
               stderr);
    for (const std::string& text : report.warnings) {
        std::fputs(("warning: " + text + "\n").c_str(), stderr);
    }
    spec::PlacementFile file = lab::placement_file(problem, report);
    file.placement.layers.resize(problem.cluster.nodes.size());
    file.links.clear();  // a scheduler that follows no plan may take every link
    return file;
}

}  // namespace helix::cli

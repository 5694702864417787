// helix plan CLUSTER --model MODEL

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/kv_option.h"
#include "cli/plan_arguments.h"
#include "cli/plan_changes.h"
#include "cli/plan_output.h"
#include "cli/plan_progress.h"
#include "lab/planning/plan_kv_types.h"
#include "lab/planning/plan_session.h"
#include "lab/problem/problem.h"
#include "lab/simulation/simulation_setup.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

// The types that KV may be kept in; none where nobody asks for one. A placement that is judged or
// in force has its own, which the problem is loaded with.
base::Result<std::vector<spec::KvType>> kv_types_of(const PlanArguments& a) {
    TRY(std::vector<spec::KvType> types, parse_kv_list("--kv-types", a.kv_types));
    if (types.size() > 1 && (a.advise != 0 || !a.current.empty() || !a.changes.empty())) {
        return base::invalid(
            "--kv-types: one type only, with --current, --advise and questions about changes");
    }
    if (types.size() > 1 && a.method == "manual") {
        return base::invalid("--kv-types: one type only, with --method manual");
    }
    const std::string& placed = a.method == "manual" ? a.placement : a.current;
    if (types.empty() && !placed.empty()) {
        TRY(const std::optional<spec::KvType> planned, lab::layout_kv_type(placed));
        if (planned) types.push_back(*planned);
    }
    return types;
}

base::Status run_plan(const PlanArguments& a) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    const std::string usual = a.objective == "flow" ? "10s" : "45s";
    TRY(const double budget_s,
        spec::parse_duration("--budget", a.budget.empty() ? usual : a.budget));
    std::atomic<bool> interrupted{false};
    const Interrupt interrupt([&] { interrupted = true; });
    PlanProgressLine line;
    TRY(lab::PlanSettings settings, plan_settings(a));
    // Of many plans the time is for other things.
    settings.options.delivered_bound = a.advise == 0 && a.current.empty() && a.changes.empty();
    TRY(const std::vector<spec::KvType> kv_types, kv_types_of(a));
    lab::ProblemSource source = a.problem;
    if (kv_types.size() == 1) source.kv_type = kv_types.front();
    const lab::PlanSession session{
        .source = source,
        .settings = settings,
        .elapsed_s = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); },
        .interrupted = [&] { return interrupted.load(); },
        .progress = [&](const plan::PlanProgress& progress) { line.update(progress); },
        .budget_s = budget_s};
    if (a.advise != 0) return run_advise(a, session, line);
    if (!a.current.empty()) return run_replan(a, session, line);
    if (!a.changes.empty()) return run_what_if(a, session, line);
    if (kv_types.size() > 1) {
        TRY(const lab::KvPlan planned, lab::plan_kv_types(session, kv_types));
        line.interrupt();
        return show_plan(a, planned.problem, planned.report, session.elapsed_s());
    }
    TRY(const lab::Problem problem, lab::load_problem(source));
    TRY(const plan::PlanReport report, session.plan(problem, budget_s, nullptr));
    line.interrupt();
    return show_plan(a, problem, report, session.elapsed_s());
}

}  // namespace

void add_plan(App& app) {
    CLI::App* plan =
        app.parser.add_subcommand("plan", "Which layers go on which machine, and what it gives");
    auto a = std::make_shared<PlanArguments>();
    a->add_to(*plan);
    plan->footer(
        "Examples:\n"
        "  helix plan office.toml --model llama3-8b --weights q8_0\n"
        "  helix plan office.toml --model llama.gguf --output plan.json --svg plan.svg\n"
        "  helix plan office.toml --model llama3-70b --weights q4_k --tpot-slo-ms 200 --survive 1\n"
        "  helix plan single24.json --model llama2-70b --profiles profiles --objective flow\n"
        "  helix plan office.toml --model llama3-8b --add 2xL4@west --remove den\n"
        "  helix plan office.toml --model llama3-8b --current plan.json --remove den\n"
        "  helix plan office.toml --model llama3-8b --advise 3\n"
        "  helix plan office.toml --model llama3-8b --kv-types f16,q8 --output plan.json\n"
        "\nInterrupt it (Ctrl-C) and it shows the best plan so far.");
    plan->callback([&app, a] {
        app.models = {&a->problem.model};
        app.action = [a] { return run_plan(*a); };
    });
}

}  // namespace helix::cli

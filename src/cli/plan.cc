// helix plan CLUSTER --model MODEL

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/plan_arguments.h"
#include "cli/plan_judge.h"
#include "cli/plan_progress.h"
#include "cli/problem_option.h"
#include "plan/picture.h"
#include "plan/plan_json.h"
#include "plan/plan_svg.h"
#include "plan/planner.h"
#include "spec/placement_file.h"
#include "spec/text_file.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Of the budget, what the search for flow gets before throughput has its turn.
constexpr double kFlowShare = 0.15;
constexpr std::int64_t kUntilStopped = 1'000'000'000'000;

base::Status write_output(const PlanArguments& a, const Problem& problem,
                          const plan::PlanReport& report) {
    spec::PlacementFile file{.cluster = problem.cluster.name,
                             .model = problem.model.name,
                             .method = report.method,
                             .n_layers = problem.model.n_layers,
                             .placement = report.placement,
                             .node_types = {},
                             .node_names = {},
                             .links = {},
                             .flows = report.flows,
                             .max_flow_tokens_per_s = report.max_flow_tokens_per_s};
    for (const spec::NodeSpec& node : problem.cluster.nodes) {
        file.node_types.push_back(node.type);
        file.node_names.push_back(node.name);
    }
    for (const spec::LinkFlow& flow : report.flows) file.links.emplace_back(flow.from, flow.to);
    return spec::write_placement_file(a.output, file);
}

base::Status show(const PlanArguments& a, const Problem& problem, const plan::PlanReport& report,
                  double seconds) {
    if (!a.output.empty()) TRY_VOID(write_output(a, problem, report));
    if (!a.svg.empty()) {
        TRY_VOID(spec::write_text_file(
            a.svg, plan::draw_plan_svg(problem.cluster, problem.model, report)));
    }
    const std::string shown =
        a.json ? plan::plan_to_json(problem.cluster, problem.model, report, seconds) + "\n"
               : plan::draw_plan(problem.cluster, problem.model, report,
                                 {.colours = isatty(STDOUT_FILENO) != 0, .flows = true});
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

base::Status run_plan(const PlanArguments& a) {
    const auto began = Clock::now();
    const bool flow_only = a.objective == "flow";
    TRY(const double budget_s, spec::parse_duration(!a.budget.empty() ? a.budget
                                                    : flow_only       ? "10s"
                                                                      : "45s"));
    TRY(const Problem problem, load_problem(a.problem));
    TRY(plan::PlanOptions options, plan_options(a, problem));
    std::atomic<bool> interrupted{false};
    const Interrupt interrupt([&] { interrupted = true; });
    const auto elapsed_s = [&] {
        return std::chrono::duration<double>(Clock::now() - began).count();
    };
    options.stop = [&] { return interrupted || elapsed_s() >= budget_s; };
    options.flow_stop = [&] { return interrupted || elapsed_s() >= budget_s * kFlowShare; };
    options.milp.stop.now_s = elapsed_s;
    options.iterations = kUntilStopped;
    options.throughput_iterations = kUntilStopped;
    options.executor = threads_executor(a.threads);
    if (!flow_only) {
        TRY(options.judge, simulation_judge(a, problem, options.flow));
    }
    PlanProgressLine line;
    options.progress = [&](const plan::PlanProgress& progress) { line.update(progress); };
    TRY(const plan::PlanReport report, plan::plan(problem.cluster, problem.model, options));
    return show(a, problem, report, elapsed_s());
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
        "\nInterrupt it (Ctrl-C) and it shows the best plan so far.");
    plan->callback([&app, a] { app.action = [a] { return run_plan(*a); }; });
}

}  // namespace helix::cli

// helix plan CLUSTER --model MODEL

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
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

struct PlanArguments {
    ProblemArguments problem;
    std::string method = "auto";
    std::string placement;
    std::string convention = "reference";
    bool no_partial = false;
    std::string budget = "10s";
    std::uint64_t seed = 1;
    bool json = false;
    std::string output;
    std::string svg;
};

base::Result<plan::Method> parse_method(const std::string& word) {
    using plan::Method;
    for (const Method method : {Method::automatic, Method::search, Method::even, Method::replicated,
                                Method::petals, Method::swarm, Method::manual}) {
        if (word == plan::to_string(method)) return method;
    }
    return base::invalid("--method: '" + word +
                         "' is none of auto, search, even, replicated, petals, swarm, manual");
}

base::Status read_manual(const PlanArguments& a, const Problem& problem,
                         plan::PlanOptions& options) {
    if (a.placement.empty()) {
        return base::invalid("--method manual: needs --placement FILE, the placement to judge");
    }
    TRY(spec::PlacementFile file, spec::read_placement_file(a.placement));
    if (file.n_layers != problem.model.n_layers) {
        return base::invalid(a.placement + ": is for " + std::to_string(file.n_layers) +
                             " layers, but " + problem.model.name + " has " +
                             std::to_string(problem.model.n_layers));
    }
    if (file.placement.layers.size() > problem.cluster.nodes.size()) {
        return base::invalid(a.placement + ": names node " +
                             std::to_string(file.placement.layers.size() - 1) + ", but " +
                             a.problem.cluster + " has nodes 0 to " +
                             std::to_string(problem.cluster.nodes.size() - 1));
    }
    file.placement.layers.resize(problem.cluster.nodes.size());
    options.manual = std::move(file.placement);
    if (!file.links.empty()) options.flow.only_links = std::move(file.links);
    return base::Ok{};
}

base::Result<plan::PlanOptions> plan_options(const PlanArguments& a, const Problem& problem) {
    plan::PlanOptions options;
    options.capacities = &problem.capacities;
    options.flow.partial = !a.no_partial;
    if (a.convention != "paper" && a.convention != "reference") {
        return base::invalid("--convention: '" + a.convention + "' is neither paper nor reference");
    }
    options.flow.convention =
        a.convention == "paper" ? plan::Convention::paper : plan::Convention::reference;
    TRY(options.method, parse_method(a.method));
    options.seed = a.seed;
    if (options.method == plan::Method::manual) TRY_VOID(read_manual(a, problem, options));
    return options;
}

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

base::Status run_plan(const PlanArguments& a) {
    const auto began = Clock::now();
    TRY(const double budget_s, spec::parse_duration(a.budget));
    TRY(const Problem problem, load_problem(a.problem));
    TRY(plan::PlanOptions options, plan_options(a, problem));
    std::atomic<bool> interrupted{false};
    const Interrupt interrupt([&] { interrupted = true; });
    const auto until = began + std::chrono::duration<double>(budget_s);
    options.stop = [&] { return interrupted || Clock::now() >= until; };
    PlanProgressLine line;
    options.progress = [&](const plan::PlanProgress& progress) { line.update(progress); };
    TRY(const plan::PlanReport report, plan::plan(problem.cluster, problem.model, options));
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
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

}  // namespace

void add_plan(App& app) {
    CLI::App* plan = app.parser.add_subcommand("plan", "Which layers go on which machine");
    auto a = std::make_shared<PlanArguments>();
    a->problem.add_to(*plan);
    plan->add_option("--method", a->method,
                     "auto, search, even, replicated, petals, swarm, or manual")
        ->capture_default_str();
    plan->add_option("--placement", a->placement, "the placement that --method manual judges");
    plan->add_flag("--no-partial,!--partial", a->no_partial,
                   "a machine runs all its layers for every token it gets, or not");
    plan->add_option("--convention", a->convention,
                     "how bandwidth becomes tokens/s: as the paper says or as its reference does")
        ->capture_default_str();
    plan->add_option("--budget", a->budget, "the longest that planning may take")
        ->capture_default_str();
    plan->add_option("--seed", a->seed, "of the search")->capture_default_str();
    plan->add_flag("--json", a->json, "one JSON object instead of a picture");
    plan->add_option("--output", a->output, "write the placement to this file");
    plan->add_option("--svg", a->svg, "draw the plan into this file");
    plan->callback([&app, a] { app.action = [a] { return run_plan(*a); }; });
}

}  // namespace helix::cli

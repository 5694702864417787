// helix experiment NAME

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/command.h"
#include "cli/size_option.h"
#include "lab/experiments/experiment_data.h"
#include "lab/experiments/experiments.h"

namespace helix::cli {
namespace {

struct ExperimentArguments {
    std::string name;
    std::string data;
    std::string output;
    std::string plan_budget = "10s";
    std::string solver_budget = "60s";
    int threads = 0;
    bool quick = false;
    bool json = false;
};

constexpr double kQuickShare = 0.1;
constexpr double kQuickBudget_s = 1;

void list_experiments() {
    for (const lab::Experiment& experiment : lab::all_experiments()) {
        std::fputs(fmt::format("{:<20} {}\n", experiment.name, experiment.shows).c_str(), stdout);
    }
}

std::string command_of(const ExperimentArguments& a) {
    const bool made_up = a.data == lab::ExperimentData::kMadeUp;
    const char* const data = a.data.empty() ? "" : made_up ? " --data made-up" : " --data DATA";
    return fmt::format("helix experiment {}{}{}{}{}", a.name, data, a.quick ? " --quick" : "",
                       a.plan_budget == "10s" ? "" : " --plan-budget " + a.plan_budget,
                       a.solver_budget == "60s" ? "" : " --solver-budget " + a.solver_budget);
}

base::Result<std::string> data_folder(const ExperimentArguments& a) {
    if (a.data == lab::ExperimentData::kMadeUp && a.output.empty()) {
        return base::invalid("experiment: --data made-up needs --output DIR for its inputs");
    }
    if (!a.data.empty()) return a.data;
    const std::optional<std::string> own = lab::ExperimentData::project_folder();
    if (own) return *own;
    return base::invalid(
        "experiment: the project's data/paper is not above this program; give its folder as "
        "--data DIR, or --data made-up for the same machines by datasheet");
}

base::Status no_such_experiment(const std::string& name) {
    std::string known;
    for (const lab::Experiment& experiment : lab::all_experiments()) {
        known += std::string(experiment.name) + ", ";
    }
    return base::invalid(
        fmt::format("experiment: '{}' is none of {}all, published, live, list", name, known));
}

base::Result<lab::ExperimentOptions> experiment_options(const ExperimentArguments& a) {
    lab::ExperimentOptions options;
    TRY(options.plan_budget_s, parse_seconds("--plan-budget", a.plan_budget));
    TRY(options.solver_budget_s, parse_seconds("--solver-budget", a.solver_budget));
    options.threads = a.threads;
    if (a.quick) {
        options.solver_budget_s = std::min(options.solver_budget_s, kQuickBudget_s);
        options.time_share = kQuickShare;
        options.plan_budget_s = std::min(options.plan_budget_s, kQuickBudget_s);
    }
    options.say = [](const std::string& line) {
        std::fputs(("helix: " + line + "\n").c_str(), stderr);
    };
    return options;
}

base::Status run_experiment(const ExperimentArguments& a) {
    if (a.name == "list") {
        list_experiments();
        return base::Ok{};
    }
    lab::ExperimentRun run;
    run.experiments = lab::find_experiments(a.name);
    if (run.experiments.empty()) return no_such_experiment(a.name);
    if (a.output.empty() && !a.json) {
        return base::invalid("experiment: needs --output DIR, where its pages go, or --json");
    }
    TRY(run.options, experiment_options(a));
    const bool published = std::any_of(
        run.experiments.begin(), run.experiments.end(), [](const lab::Experiment* experiment) {
            return experiment->topic == lab::ExperimentTopic::published;
        });
    if (published) {  // the others need no data
        TRY(const std::string folder, data_folder(a));
        const std::string output = a.output.empty() ? "." : a.output;
        TRY(run.data, lab::ExperimentData::open(folder, output + "/inputs"));
    }
    run.name = a.name;
    run.command = command_of(a);
    run.output = a.output;
    run.quick = a.quick;
    TRY(const std::string json, lab::run_experiments(std::move(run)));
    if (a.json) std::fputs((json + "\n").c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_experiment(App& app) {
    CLI::App* experiment = app.parser.add_subcommand(
        "experiment",
        "In virtual time, with tables and pictures: the published evaluation again, requests that "
        "move, and machines for prompts");
    auto a = std::make_shared<ExperimentArguments>();
    experiment
        ->add_option("NAME", a->name,
                     "an experiment, all, published (the paper's), live (requests that move), or "
                     "list")
        ->required();
    experiment->add_option(
        "--data", a->data,
        "folder of published inputs: clusters, profiles, layouts, replay, traces [the project's "
        "data/paper]; made-up: the same machines by datasheet, written to OUTPUT/inputs");
    experiment->add_option("--output", a->output, "folder for the pages and img/");
    experiment
        ->add_option("--plan-budget", a->plan_budget,
                     "the longest that each placement by our planner may take")
        ->capture_default_str();
    experiment
        ->add_option("--solver-budget", a->solver_budget,
                     "the longest that each run of the paper's program may take")
        ->capture_default_str();
    experiment->add_option("--threads", a->threads, "at once [as many as this machine has]");
    experiment->add_flag("--quick", a->quick, "a tenth of every window: to try things out");
    experiment->add_flag("--json", a->json, "tables and runs as one JSON object");
    experiment->footer(
        "Examples:\n"
        "  helix experiment list\n"
        "  helix experiment single-cluster --output results\n"
        "  helix experiment all --output docs\n"
        "  helix experiment live --output docs");
    experiment->callback([&app, a] { app.action = [a] { return run_experiment(*a); }; });
}

}  // namespace helix::cli

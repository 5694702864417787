// helix experiment NAME

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "lab/experiments/experiment_question.h"
#include "lab/experiments/experiments.h"

namespace helix::cli {
namespace {

void list_experiments() {
    for (const lab::Experiment& experiment : lab::all_experiments()) {
        std::fputs(fmt::format("{:<20} {}\n", experiment.name, experiment.shows).c_str(), stdout);
    }
}

base::Status run_experiment(const lab::ExperimentQuestion& question) {
    if (question.name == "list") {
        list_experiments();
        return base::Ok{};
    }
    TRY(const std::string json, lab::answer_experiment(question, [](const std::string& line) {
            std::fputs(("helix: " + line + "\n").c_str(), stderr);
        }));
    if (question.json) std::fputs((json + "\n").c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_experiment(App& app) {
    CLI::App* experiment = app.parser.add_subcommand(
        "experiment",
        "In virtual time, with tables and pictures: the published evaluation again, requests that "
        "move, and machines for prompts");
    auto a = std::make_shared<lab::ExperimentQuestion>();
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

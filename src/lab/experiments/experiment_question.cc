#include "lab/experiments/experiment_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "lab/experiments/experiment_data.h"
#include "lab/experiments/experiments.h"
#include "spec/units.h"

namespace helix::lab {
namespace {

constexpr double kQuickShare = 0.1;
constexpr double kQuickBudget_s = 1;

std::string command_of(const ExperimentQuestion& a) {
    const bool made_up = a.data == ExperimentData::kMadeUp;
    const char* const data = a.data.empty() ? "" : made_up ? " --data made-up" : " --data DATA";
    return fmt::format("helix experiment {}{}{}{}{}", a.name, data, a.quick ? " --quick" : "",
                       a.plan_budget == "10s" ? "" : " --plan-budget " + a.plan_budget,
                       a.solver_budget == "60s" ? "" : " --solver-budget " + a.solver_budget);
}

base::Result<std::string> data_folder(const ExperimentQuestion& a) {
    if (a.data == ExperimentData::kMadeUp && a.output.empty()) {
        return base::invalid("experiment: --data made-up needs --output DIR for its inputs");
    }
    if (!a.data.empty()) return a.data;
    const std::optional<std::string> own = ExperimentData::project_folder();
    if (own) return *own;
    return base::invalid(
        "experiment: the project's data/paper is not above this program; give its folder as "
        "--data DIR, or --data made-up for the same machines by datasheet");
}

base::Error no_such_experiment(const std::string& name) {
    std::string known;
    for (const Experiment& experiment : all_experiments()) {
        known += std::string(experiment.name) + ", ";
    }
    return base::invalid(
        fmt::format("experiment: '{}' is none of {}all, published, live, list", name, known));
}

base::Result<ExperimentOptions> experiment_options(const ExperimentQuestion& a) {
    ExperimentOptions options;
    TRY(options.plan_budget_s, spec::parse_duration("--plan-budget", a.plan_budget));
    TRY(options.solver_budget_s, spec::parse_duration("--solver-budget", a.solver_budget));
    options.threads = a.threads;
    if (a.quick) {
        options.solver_budget_s = std::min(options.solver_budget_s, kQuickBudget_s);
        options.time_share = kQuickShare;
        options.plan_budget_s = std::min(options.plan_budget_s, kQuickBudget_s);
    }
    return options;
}

}  // namespace

base::Result<std::string> answer_experiment(const ExperimentQuestion& a,
                                            std::function<void(const std::string&)> say) {
    ExperimentRun run;
    run.experiments = find_experiments(a.name);
    if (run.experiments.empty()) return no_such_experiment(a.name);
    if (a.output.empty() && !a.json) {
        return base::invalid("experiment: needs --output DIR, where its pages go, or --json");
    }
    TRY(run.options, experiment_options(a));
    run.options.say = std::move(say);
    const bool published = std::any_of(run.experiments.begin(), run.experiments.end(),
                                       [](const Experiment* experiment) {
                                           return experiment->topic == ExperimentTopic::published;
                                       });
    if (published) {  // the others need no data
        TRY(const std::string folder, data_folder(a));
        const std::string output = a.output.empty() ? "." : a.output;
        TRY(run.data, ExperimentData::open(folder, output + "/inputs"));
    }
    run.name = a.name;
    run.command = command_of(a);
    run.output = a.output;
    run.quick = a.quick;
    return run_experiments(std::move(run));
}

}  // namespace helix::lab

#include "cli/problem_option.h"

#include <fmt/format.h>

#include "model/gguf.h"
#include "model/model_config.h"
#include "plan/typical_throughput.h"
#include "spec/cluster_file.h"
#include "spec/measured_node.h"

namespace helix::cli {
namespace {

base::Result<Problem> from_tables(const ProblemArguments& a, Problem problem) {
    TRY(problem.tables, spec::ProfileTables::read(a.profiles, a.model));
    TRY_VOID(problem.tables->check(problem.cluster));
    problem.model = problem.tables->model();
    plan::MachineCounts mix = plan::machine_counts(problem.cluster);
    if (!a.machine_mix.empty()) {
        TRY(mix, plan::read_machine_mix(a.profiles, a.machine_mix));
    }
    TRY(const spec::TypeThroughput throughput, plan::typical_throughput(*problem.tables, mix));
    TRY(problem.capacities,
        plan::capacity_from_tables(problem.cluster, *problem.tables, throughput));
    return problem;
}

}  // namespace

void ProblemArguments::add_to(CLI::App& command) {
    command.add_option("CLUSTER", cluster, "a cluster file, .json or .toml")->required();
    command.add_option("--model", model, "a model's name, or a GGUF file")->required();
    command.add_option("--profiles", profiles,
                       "folder of measured tables (models.json, MODEL_TYPE_prompt_time.csv, ...)");
    command.add_option(
        "--machine-mix", machine_mix,
        "one of machine_mixes.json, for which the tables' tokens/s are computed [the "
        "cluster's own machines]");
}

base::Result<Problem> load_problem(const ProblemArguments& a) {
    Problem problem;
    TRY(problem.cluster, spec::read_cluster_file(a.cluster));
    if (!a.profiles.empty()) return from_tables(a, std::move(problem));
    if (!a.machine_mix.empty()) {
        return base::invalid("--machine-mix: only with --profiles, whose tables it chooses from");
    }
    TRY(const auto file, model::GgufFile::open(a.model));
    TRY(problem.model, model::read_model_spec(*file));
    TRY_VOID(spec::check_measured(problem.cluster));
    problem.own_costs = std::make_unique<spec::MeasuredNode>();
    problem.capacities = plan::capacity_from_costs(
        problem.cluster, problem.model, *problem.own_costs, plan::Workload{}, plan::MemoryRule{});
    return problem;
}

}  // namespace helix::cli

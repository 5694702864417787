// helix simulate CLUSTER --model MODEL

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/large_pages.h"
#include "base/log.h"
#include "cli/balance_option.h"
#include "cli/batching_option.h"
#include "cli/command.h"
#include "cli/help_text.h"
#include "cli/kv_option.h"
#include "cli/problem_option.h"
#include "cli/simulate_lines.h"
#include "cli/simulate_load.h"
#include "cli/simulate_plan.h"
#include "core/routing/router_catalogue.h"
#include "lab/problem/problem.h"
#include "lab/simulation/simulation.h"
#include "lab/simulation/simulation_setup.h"
#include "plan/predict/performance.h"
#include "spec/kv_type.h"
#include "spec/placement_file.h"
#include "spec/units.h"
#include "spec/word_choice.h"

namespace helix::cli {
namespace {

struct SimulateArguments {
    lab::ProblemSource problem;
    std::string placement;
    std::string plan_budget = "10s";
    std::string kv;
    std::string disk;
    std::string policy;
    std::string scheduler = "helix";
    BatchingArguments batching;
    std::int32_t groups = 0;
    std::optional<double> prefill_share;
    std::optional<double> kv_high_water;
    std::string prefill_target;
    bool no_balance = false;
    std::string balance = "helix";
    lab::LoadChoice load;
    bool find_peak = false;
    bool json = false;
    lab::WatchOptions watch;
};

// A peak is searched under the rules of online load.
base::Result<lab::SimulationTask> simulation_task(const SimulateArguments& a) {
    lab::LoadChoice asked = a.load;
    if (a.find_peak) asked.online = true;
    lab::SimulationTask task;
    TRY(task.load, lab::read_load(asked));
    task.find_peak = a.find_peak;
    task.watch = a.watch;
    task.placement = a.placement.empty() ? "planned for this run" : a.placement;
    task.scheduler = a.scheduler;
    return task;
}

base::Result<lab::Simulated> simulate_reference(const SimulateArguments& a,
                                                const lab::Problem& problem) {
    using sim::ReferenceScheduler;
    if (!problem.tables) {
        return base::invalid("--policy reference: needs --profiles, measured tables of the model");
    }
    if (a.placement.empty()) {
        return base::invalid("--policy reference: needs --placement, a layout or a replay");
    }
    lab::PublishedRules rules;
    rules.layout = a.placement;
    TRY(rules.scheduler, spec::choose_word<ReferenceScheduler>(
                             "--scheduler", a.scheduler,
                             {{"helix", ReferenceScheduler::max_flow},
                              {"swarm", ReferenceScheduler::swarm},
                              {"random", ReferenceScheduler::random},
                              {"shortest-queue", ReferenceScheduler::shortest_queue},
                              {"separate", ReferenceScheduler::random}}));
    rules.beyond_tables = a.scheduler == "separate";
    TRY(rules.batching.order, reference_batching(a.batching));
    rules.batching.prompt_every = a.batching.prompt_every;
    if (a.balance != "helix") return base::invalid("--balance: needs --policy helix");
    if (a.prefill_share) return base::invalid("--prefill-share: needs --policy helix");
    if (a.kv_high_water) return base::invalid("--kv-high-water: needs --policy helix");
    if (!a.prefill_target.empty()) return base::invalid("--prefill-target: needs --policy helix");
    TRY(const lab::SimulationTask task, simulation_task(a));
    SimulationLines lines;
    return lab::simulate_published(problem, rules, task, lines.progress());
}

// What of the plan's policy the user wants otherwise.
base::Status change_policy(const SimulateArguments& a, spec::PlacementFile& layout) {
    if (a.prefill_share && !(*a.prefill_share > 0)) {
        return base::invalid("--prefill-share: expected a number above 0");
    }
    if (a.kv_high_water && !(*a.kv_high_water > 0 && *a.kv_high_water <= 1)) {
        return base::invalid("--kv-high-water: expected a number above 0 and at most 1");
    }
    spec::ServingPolicy policy = layout.policy.value_or(spec::ServingPolicy());
    if (!a.prefill_target.empty()) {
        TRY(policy.prefill_target_s, spec::parse_duration("--prefill-target", a.prefill_target));
        if (!(policy.prefill_target_s > 0)) {
            return base::invalid("--prefill-target: expected a time above 0, like 2s");
        }
    }
    policy.prefill_share = a.prefill_share.value_or(policy.prefill_share);
    policy.kv_high_water = a.kv_high_water.value_or(policy.kv_high_water);
    layout.policy = policy;
    return base::Ok{};
}

base::Result<lab::Simulated> simulate_helix(const SimulateArguments& a,
                                            const lab::Problem& problem) {
    lab::OwnRules rules;
    TRY(rules.scheduler, core::find_router(a.scheduler));
    TRY(rules.as_vllm, own_batching(a.batching));
    TRY(rules.moves_as_llumnix, moves_as_llumnix(a.balance, a.no_balance));
    TRY(const lab::SimulationTask task, simulation_task(a));
    rules.pipeline_groups = a.groups;
    rules.balance = !a.no_balance;
    if (!a.disk.empty()) {
        const auto disk = spec::parse_bandwidth(a.disk);
        if (!disk.ok()) return base::invalid("--disk: " + disk.error().message);
        rules.disk_bytes_per_s = *disk;
    }
    spec::PlacementFile layout;
    if (a.placement.empty()) {
        TRY(layout, plan_for_simulation(a.problem, problem, a.plan_budget));
    } else {
        TRY(layout, lab::read_simulated_layout(a.placement, problem));
        const auto added = lab::add_flows(problem, layout, plan::Batching::helix, true);
        if (!added.ok()) return base::invalid(a.placement + ": " + added.error().message);
    }
    TRY_VOID(change_policy(a, layout));
    SimulationLines lines;
    return lab::simulate_own(problem, std::move(layout), rules, task, lines.progress());
}

base::Status run_simulate(const SimulateArguments& a) {
    base::prefer_large_pages(std::size_t{1} << 30);
    lab::ProblemSource source = a.problem;
    if (!a.kv.empty()) {
        TRY(source.kv_type, parse_kv("--kv", a.kv));
    } else if (!a.placement.empty()) {
        TRY(source.kv_type, lab::layout_kv_type(a.placement));
    }
    TRY(const lab::Problem problem, lab::load_problem(source));
    if (!a.policy.empty() && a.policy != "helix" && a.policy != "reference") {
        return base::invalid("--policy: '" + a.policy + "' is neither helix nor reference");
    }
    bool reference = a.policy == "reference";
    if (a.policy.empty() && !a.placement.empty()) {
        TRY(const std::string why, lab::needs_published_policy(a.placement, problem, a.scheduler));
        reference = !why.empty();
        if (reference) LOG_INFO("under --policy reference: {}", why);
    }
    TRY(const lab::Simulated simulated,
        reference ? simulate_reference(a, problem) : simulate_helix(a, problem));
    std::fputs(lab::describe(simulated, a.json).c_str(), stdout);
    return base::Ok{};
}

void add_policy_options(CLI::App& command, SimulateArguments& a) {
    const OptionHeading heading(command, "Placement and policy");
    command.add_option("--placement", a.placement,
                       "which layers stand where: a file of helix plan, or a published run's "
                       "replay [planned for --plan-budget]");
    command.add_option("--plan-budget", a.plan_budget, "without --placement")
        ->capture_default_str();
    command.add_option("--kv", a.kv,
                       std::string("type of the KV cache: ") + spec::kKvTypeNames +
                           " [as the --placement says, else f16]");
    command.add_option("--disk", a.disk,
                       "helix policy: how fast machines load their layers, like 1GB/s; load "
                       "begins after that [at once]");
    command.add_option(
        "--policy", a.policy,
        "helix: what `serve` runs; reference: the published simulator's rules, with its own "
        "schedulers of the same names. Without it: helix, unless the placement is a published "
        "run's replay, or separate pipelines with more layers than the tables cover");
    command.add_option("--scheduler", a.scheduler, core::list_routers())->capture_default_str();
    add_batching_options(command, a.batching);
    command.add_option("--prefill-share", a.prefill_share,
                       "helix policy: how many times the decodes' time prompts may take on a "
                       "machine while both wait [as the plan says, else 3]");
    command.add_option("--kv-high-water", a.kv_high_water,
                       "helix policy: fuller machines get no new requests [as the plan says, else "
                       "0.9]");
    command.add_option("--prefill-target", a.prefill_target,
                       "helix policy: under load so many prompts run that a first token comes "
                       "after about this time [as the plan says, else 2s]");
    command
        .add_option(
            "--groups", a.groups,
            "helix policy: most groups that decodes travel in; 0: as `serve` does it, by what "
            "the plan says")
        ->capture_default_str();
    command
        .add_option("--balance", a.balance,
                    "helix policy, how running requests move: helix, or llumnix as Llumnix is "
                    "published (with --scheduler llumnix, its dispatch)")
        ->capture_default_str();
    command.add_flag("--no-balance", a.no_balance,
                     "helix policy: running requests do not move to machines with more memory");
}

void add_report_options(CLI::App& command, SimulateArguments& a) {
    const OptionHeading heading(command, "Report");
    command.add_flag("--find-peak", a.find_peak,
                     "only search the highest rate that the cluster keeps up with");
    command.add_flag("--json", a.json, "one JSON object instead of a table");
    command.add_option("--html", a.watch.html, "write a report with plots, one HTML file");
    command.add_option("--trace-out", a.watch.trace_out,
                       "write the run for chrome://tracing or ui.perfetto.dev");
    command.add_option("--ttft-slo-s", a.watch.ttft_slo_s,
                       "longest wait for a first token that counts as good, in the report");
    command.add_option("--tpot-slo-s", a.watch.tpot_slo_s,
                       "longest mean time between tokens that does");
}

}  // namespace

void add_simulate(App& app) {
    CLI::App* simulate =
        app.parser.add_subcommand("simulate", "What a cluster would deliver, in virtual time");
    auto a = std::make_shared<SimulateArguments>();
    add_problem_options(*simulate, a->problem);
    add_policy_options(*simulate, *a);
    add_load_options(*simulate, a->load);
    add_report_options(*simulate, *a);
    simulate->footer(
        "Examples:\n"
        "  helix plan office.toml --model llama3-8b --output plan.json\n"
        "  helix simulate office.toml --model llama3-8b --placement plan.json --html run.html\n"
        "  helix simulate office.toml --model llama3-8b --load 75% --arrivals gamma\n"
        "  helix simulate office.toml --model llama3-8b --placement plan.json --trace day.csv\n"
        "  helix simulate office.toml --model llama3-8b --batching vllm --max-num-seqs 64\n"
        "  helix simulate office.toml --model llama3-8b --scheduler llumnix --balance llumnix");
    simulate->callback([&app, a] {
        app.models = {&a->problem.model};
        app.action = [a] { return run_simulate(*a); };
    });
}

}  // namespace helix::cli

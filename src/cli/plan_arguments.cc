#include "cli/plan_arguments.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <span>

#include "cli/problem_option.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

using plan::Objective;

// The one of `values` that is called `word`.
template <typename T>
base::Result<T> named(const char* option, const std::string& word, std::span<const T> values) {
    std::string words;
    for (const T value : values) {
        if (word == plan::to_string(value)) return value;
        words += (words.empty() ? "" : ", ") + std::string(plan::to_string(value));
    }
    return base::invalid(fmt::format("{}: '{}' is none of {}", option, word, words));
}

constexpr std::array kObjectives = {Objective::throughput, Objective::latency, Objective::balanced,
                                    Objective::flow};
constexpr std::array kMilpStarts = {plan::MilpStart::rules, plan::MilpStart::search,
                                    plan::MilpStart::none};
constexpr std::array kBatchings = {plan::Batching::helix, plan::Batching::reference};

base::Status set_limits(const PlanArguments& a, plan::PlanOptions& options) {
    if (a.max_depth < 0) return base::invalid("--max-depth: expected a number of stages");
    options.max_depth = a.max_depth;
    if (a.tpot_slo_ms < 0) return base::invalid("--tpot-slo-ms: expected milliseconds");
    options.tpot_slo_s = a.tpot_slo_ms / 1e3;
    if (a.survive != 0 && a.survive != 1) {
        return base::invalid(
            "--survive: expected 0 or 1, the losses at a time that must not end "
            "service");
    }
    if (a.survive_flow < 0 || a.survive_flow > 1) {
        return base::invalid("--survive-flow: expected a share between 0 and 1");
    }
    if (a.survive == 1) options.survive_share = 1e-6;
    if (a.survive_flow > 0) options.survive_share = a.survive_flow;
    return base::Ok{};
}

base::Status set_load(const PlanArguments& a, plan::PlanOptions& options) {
    if (a.rate < 0) return base::invalid("--rate: expected requests per second");
    options.performance.requests_per_s = a.rate;
    if (a.batching == "both") {
        options.batchings = {plan::Batching::helix, plan::Batching::reference};
    } else {
        TRY(const plan::Batching batching,
            named<plan::Batching>("--batching", a.batching, kBatchings));
        options.batchings = {batching};
        options.performance.batching = batching;
    }
    return base::Ok{};
}

base::Status set_milp(const PlanArguments& a, plan::PlanOptions& options) {
    options.milp.solver = a.solver;
    options.milp.formulation.every_node_holds = a.every_machine;
    options.milp.formulation.cap_links = !a.no_cap_links;
    if (a.prune > 0)
        options.milp.prune = plan::PruneOptions{
            .min_keep = a.prune, .max_keep = a.prune, .threshold_bytes_per_s = 0};
    TRY(options.milp_start, named<plan::MilpStart>("--start", a.start, kMilpStarts));
    if (!a.stop_after_idle.empty()) {
        TRY(options.milp.stop.idle_s, spec::parse_duration("--stop-after-idle", a.stop_after_idle));
        if (!(options.milp.stop.idle_s > 0)) {
            return base::invalid("--stop-after-idle: expected a time above 0, like 30s");
        }
    }
    if (a.no_early_stop) {
        options.milp.stop.near_bound = 0;
        options.milp.stop.good_enough = 0;
    }
    return base::Ok{};
}

CLI::Option* add_kv_types(CLI::App& command, std::string& kv_types) {
    return command.add_option(
        "--kv-types", kv_types,
        "types that KV may be kept in, of f16, bf16, f32 and q8, the one that is wanted first: "
        "f16,q8. A later one changes what the model says, and has to serve 3 % more. The plan's "
        "file then says which it is [as --current or --placement says, else f16]");
}

}  // namespace

base::Result<lab::PlanSettings> plan_settings(const PlanArguments& a) {
    lab::PlanSettings settings;
    plan::PlanOptions& options = settings.options;
    options.flow.partial = !a.no_partial;
    if (a.convention != "paper" && a.convention != "reference") {
        return base::invalid("--convention: '" + a.convention + "' is neither paper nor reference");
    }
    options.flow.convention =
        a.convention == "paper" ? plan::Convention::paper : plan::Convention::reference;
    TRY(options.method, named("--method", a.method, lab::plan_methods()));
    if (options.method == plan::Method::manual && a.placement.empty()) {
        return base::invalid("--method manual: needs --placement FILE, the placement to judge");
    }
    TRY(options.objective, named<Objective>("--objective", a.objective, kObjectives));
    options.seed = a.seed;
    options.swarm_stages = a.swarm_stages;
    TRY_VOID(set_limits(a, options));
    TRY_VOID(set_load(a, options));
    TRY_VOID(set_milp(a, options));
    if (a.judge != "simulate" && a.judge != "none") {
        return base::invalid("--judge: '" + a.judge + "' is neither simulate nor none");
    }
    settings.judge = a.judge == "simulate";
    settings.choose_policy = !a.usual_policy;
    settings.placement = a.placement;
    settings.lengths = a.lengths;
    settings.threads = a.threads;
    return settings;
}

void PlanArguments::add_to(CLI::App& command) {
    add_problem_options(command, problem);
    command
        .add_option("--objective", objective,
                    "throughput (what users will get), latency, balanced, or flow (the paper's)")
        ->capture_default_str();
    command
        .add_option("--method", method,
                    "auto, search, milp, even, replicated, petals, swarm, separate, separate-plus, "
                    "or manual")
        ->capture_default_str();
    command.add_option("--placement", placement, "the placement that --method manual judges");
    command.add_flag("--no-partial,!--partial", no_partial,
                     "every machine runs all its layers for every token it gets [--partial]");
    command.add_option("--budget", budget,
                       "the longest that planning may take [10s with --objective flow, else 45s]");
    command.add_option("--seed", seed, "of the search")->capture_default_str();
    command.add_option("--threads", threads, "of the search [as many as this machine has]");
    command.add_flag("--json", json, "one JSON object instead of a picture");
    command.add_option("--output", output, "write the placement, for serve and simulate");
    command.add_option("--svg", svg, "draw the plan into this file");
    const auto group = [](const char* name, std::initializer_list<CLI::Option*> options) {
        for (CLI::Option* option : options) option->group(name);
    };
    group("Limits",
          {command.add_option("--max-depth", max_depth,
                              "most machines that a token passes, on average"),
           command.add_option("--tpot-slo-ms", tpot_slo_ms,
                              "longest predicted mean time between tokens"),
           command.add_option("--survive", survive,
                              "1: service goes on after the loss of any one machine or link"),
           command.add_option("--survive-flow", survive_flow,
                              "the share of the flow that must then be left")});
    group("Load and policy",
          {command.add_option("--lengths", lengths,
                              "table of prompt_tokens, output_tokens [the Azure conversation "
                              "trace's means]"),
           command.add_option("--rate", rate, "requests per second [as many as are served]"),
           command
               .add_option("--batching", batching,
                           "helix: as our workers batch; reference: as the published simulator "
                           "does; both: good under either")
               ->capture_default_str(),
           command
               .add_option("--judge", judge,
                           "simulate: the best candidates run in the simulator; none")
               ->capture_default_str(),
           command.add_flag("--usual-policy", usual_policy,
                            "plan for the usual policy, and choose none with the plan (how much "
                            "time prompts get beside decodes, how full KV memory becomes, how many "
                            "prompts run, how many groups decodes travel in)"),
           add_kv_types(command, kv_types),
           command
               .add_option("--convention", convention,
                           "bandwidth to tokens/s as the paper says or as its reference does")
               ->capture_default_str()});
    group(
        "What if",
        {command.add_option("--add", changes.add, "machines: L4@region-a, 3xL4@region-a"),
         command.add_option("--remove", changes.remove, "a machine: node7"),
         command.add_option("--link", changes.link, "a link both ways: a:b=1Gbps or a:b=1Gbps,5ms"),
         command.add_option("--upgrade", changes.upgrade, "a machine to another type: node3=A100"),
         command.add_option("--current", current,
                            "the placement in force: plan near it, and say what moves"),
         command
             .add_option("--horizon", horizon,
                         "how long the new plan has to make up for what moves")
             ->capture_default_str(),
         command.add_option("--advise", advise,
                            "which so many purchases or upgrades help most for their price")});
    group(
        "Methods",
        {command.add_option("--solver", solver, "of --method milp: cbc, highs or gurobi")
             ->capture_default_str(),
         command.add_option(
             "--prune", prune,
             "milp: keep so many links of each machine, and those that the start needs [all]"),
         command
             .add_option("--start", start,
                         "milp: what it starts from: rules (the best rule's plan), search (our own "
                         "plan of most flow, with its bound), none")
             ->capture_default_str(),
         command.add_option("--stop-after-idle", stop_after_idle,
                            "milp: stop once nothing better was found for so long, like 30s"),
         command.add_flag("--no-early-stop", no_early_stop, "milp: until proven or out of time"),
         command.add_flag("--no-link-caps", no_cap_links,
                          "milp: links as wide as they are, not as their ends need"),
         command.add_flag("--every-machine", every_machine,
                          "milp: every machine holds a layer, as the paper has it"),
         command.add_option("--swarm-stages", swarm_stages, "swarm: how many equal stages")});
}

}  // namespace helix::cli

// helix simulate CLUSTER --model MODEL

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/log.h"
#include "cli/command.h"
#include "cli/problem_option.h"
#include "cli/progress.h"
#include "cli/simulate_load.h"
#include "cli/simulate_peak.h"
#include "cli/simulate_plan.h"
#include "cli/simulate_setup.h"
#include "cli/simulate_watch.h"
#include "cli/word_option.h"
#include "core/routing/router_catalogue.h"
#include "spec/units.h"

namespace helix::cli {
namespace {

struct SimulateArguments {
    ProblemArguments problem;
    std::string placement;
    std::string plan_budget = "10s";
    std::string disk;
    std::string policy;
    std::string scheduler = "helix";
    std::string batching = "fifo";
    std::int32_t prompt_every = 4;
    std::int32_t groups = 0;
    bool no_balance = false;
    LoadArguments load;
    bool find_peak = false;
    bool json = false;
    WatchOptions watch;
};

std::vector<std::pair<std::string, std::string>> facts(const SimulateArguments& a,
                                                       const Problem& problem,
                                                       const SimulatedLoad& load,
                                                       const std::optional<sim::OnlineLoad>& online,
                                                       const char* policy) {
    return {
        {"Model", problem.model.name},
        {"Placement", a.placement.empty() ? "planned for this run" : a.placement},
        {"Policy", policy},
        {"Scheduler", a.scheduler},
        {"Load", online ? fmt::format("{}, {:.4g} tokens/s", load.described, online->tokens_per_s)
                        : load.described},
        {"Seed", std::to_string(load.seed)}};
}

// A peak is searched under the rules of online load.
base::Result<SimulatedLoad> asked_load(const SimulateArguments& a) {
    LoadArguments load = a.load;
    if (a.find_peak) load.online = true;
    return read_load(load);
}

// What is the same under either policy.
struct Stage {
    const char* policy;
    spec::Placement placement;
    std::vector<double> kv_capacity;  // of each node, in the unit that the world reports
    double start_s;                   // when load begins
};

// What a run came to: with --find-peak only the peak.
struct Simulated {
    sim::SimReport report;
    std::optional<sim::Peak> peak;
};

// Setup: under load, but for the rate where that hangs on the peak.
template <typename Setup, typename Run>
base::Result<Simulated> simulate_watched(const SimulateArguments& a, const Problem& problem,
                                         const SimulatedLoad& load, Setup& setup,
                                         const Stage& stage, const Run& run) {
    Simulated simulated;
    if (a.find_peak) {
        TRY(simulated.peak, search_peak(setup));
        return simulated;
    }
    TRY(const double peak, load_from_peak(load, setup));
    TRY(const auto watch,
        SimulateWatch::create(a.watch, problem.cluster, stage.placement, problem.model.n_layers,
                              stage.kv_capacity, stage.start_s, setup.warmup_s, setup.duration_s,
                              !setup.online));
    setup.observer = watch->observer();
    ProgressLine line("simulating");
    TRY(simulated.report, run(setup, [&](double done_s, double total_s) {
            line.update(static_cast<std::uint64_t>(done_s), static_cast<std::uint64_t>(total_s));
        }));
    simulated.report.peak_tokens_per_s = peak;
    if (simulated.report.ready_s <= 0) simulated.report.ready_s = stage.start_s;
    TRY_VOID(watch->finish(simulated.report, problem.cluster.name,
                           facts(a, problem, load, setup.online, stage.policy)));
    return simulated;
}

base::Result<Simulated> simulate_reference(const SimulateArguments& a, const Problem& problem) {
    using sim::ReferenceScheduler;
    if (!problem.tables) {
        return base::invalid("--policy reference: needs --profiles, measured tables of the model");
    }
    if (a.placement.empty()) {
        return base::invalid("--policy reference: needs --placement, a layout or a replay");
    }
    TRY(const ReferenceScheduler scheduler,
        choose_word<ReferenceScheduler>("--scheduler", a.scheduler,
                                        {{"helix", ReferenceScheduler::max_flow},
                                         {"swarm", ReferenceScheduler::swarm},
                                         {"random", ReferenceScheduler::random},
                                         {"shortest-queue", ReferenceScheduler::shortest_queue},
                                         {"separate", ReferenceScheduler::random}}));
    TRY(sim::ReferenceSetup setup,
        reference_setup_from(a.placement, problem, {scheduler, a.scheduler == "separate"}));
    setup.scheduler = scheduler;
    TRY(setup.batching.order, choose_word<sim::ReferenceBatching::Order>(
                                  "--batching", a.batching,
                                  {{"fifo", sim::ReferenceBatching::Order::fifo},
                                   {"decode-first", sim::ReferenceBatching::Order::decode_first},
                                   {"two-passes", sim::ReferenceBatching::Order::two_passes}}));
    setup.batching.prompt_every = a.prompt_every;
    TRY(const SimulatedLoad load, asked_load(a));
    put_under_load(setup, load);
    Stage stage{"published", {}, std::vector<double>(problem.cluster.nodes.size()), setup.start_s};
    stage.placement.layers.resize(problem.cluster.nodes.size());
    for (const sim::ReferenceNode& node : setup.nodes) {
        const auto n = static_cast<std::size_t>(node.node);
        stage.placement.layers[n] = node.layers;
        stage.kv_capacity[n] = static_cast<double>(node.kv_capacity);
    }
    return simulate_watched(a, problem, load, setup, stage,
                            [](const sim::ReferenceSetup& s, const auto& progress) {
                                return sim::run_reference(s, progress);
                            });
}

// Our own policy takes placement and load as the published one does, and leaves the rest to core.
base::Result<Simulated> simulate_helix(const SimulateArguments& a, const Problem& problem) {
    TRY(const core::RouterKind scheduler, core::find_router(a.scheduler));
    if (a.batching != "fifo") {
        return base::invalid("--batching: needs --policy reference");
    }
    TRY(const SimulatedLoad load, asked_load(a));
    spec::PlacementFile file;
    if (a.placement.empty()) {
        TRY(file, plan_for_simulation(a.problem, problem, a.plan_budget));
    } else {
        TRY(file, read_simulated_layout(a.placement, problem));
        const auto added = add_flows(problem, file, true);
        if (!added.ok()) return base::invalid(a.placement + ": " + added.error().message);
    }
    if (scheduler.beyond_plan) add_idle_links(problem, file);
    sim::HelixSetup setup = helix_setup(problem, file.placement, file.flows);
    setup.coordinator.router = scheduler.make;
    setup.max_flow_tokens_per_s = file.max_flow_tokens_per_s.value_or(0);
    setup.coordinator.pipeline_groups = a.groups;
    setup.coordinator.balance.enabled = !a.no_balance;
    if (!a.disk.empty()) {
        const auto disk = spec::parse_bandwidth(a.disk);
        if (!disk.ok()) return base::invalid("--disk: " + disk.error().message);
        setup.disk_bytes_per_s.assign(problem.cluster.nodes.size(), *disk);
    }
    put_under_load(setup, load);
    Stage stage{"helix", file.placement, std::vector<double>(setup.kv_tokens.size()),
                sim::helix_start_s(setup)};
    for (std::size_t n = 0; n < file.placement.layers.size(); ++n) {  // pages
        stage.kv_capacity[n] = std::floor(setup.kv_tokens[n] / setup.worker.block_size) *
                               file.placement.layers[n].size();
    }
    stage.placement.layers.resize(problem.cluster.nodes.size());
    return simulate_watched(
        a, problem, load, setup, stage,
        [](const sim::HelixSetup& s, const auto& progress) { return sim::run_helix(s, progress); });
}

base::Status run_simulate(const SimulateArguments& a) {
    TRY(const Problem problem, load_problem(a.problem));
    if (!a.policy.empty() && a.policy != "helix" && a.policy != "reference") {
        return base::invalid("--policy: '" + a.policy + "' is neither helix nor reference");
    }
    bool reference = a.policy == "reference";
    if (a.policy.empty() && !a.placement.empty()) {
        TRY(const std::string why, needs_published_policy(a.placement, problem, a.scheduler));
        reference = !why.empty();
        if (reference) LOG_INFO("under --policy reference: {}", why);
    }
    TRY(const Simulated simulated,
        reference ? simulate_reference(a, problem) : simulate_helix(a, problem));
    const std::string shown =
        simulated.peak ? (a.json ? peak_json(*simulated.peak) : peak_text(*simulated.peak))
        : a.json       ? sim::report_json(simulated.report) + "\n"
                       : sim::report_table(simulated.report);
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_simulate(App& app) {
    CLI::App* simulate =
        app.parser.add_subcommand("simulate", "What a cluster would deliver, in virtual time");
    auto a = std::make_shared<SimulateArguments>();
    a->problem.add_to(*simulate);
    simulate->add_option("--placement", a->placement,
                         "which layers stand where: a file of helix plan, or a published run's "
                         "replay [planned for --plan-budget]");
    simulate->add_option("--plan-budget", a->plan_budget, "without --placement")
        ->capture_default_str();
    simulate->add_option("--disk", a->disk,
                         "helix policy: how fast machines load their layers, like 1GB/s; load "
                         "begins after that [at once]");
    simulate->add_option(
        "--policy", a->policy,
        "helix: what `serve` runs; reference: the published simulator's rules, with its own "
        "schedulers of the same names. Without it: helix, unless the placement is a published "
        "run's replay, or separate pipelines with more layers than the tables cover");
    simulate->add_option("--scheduler", a->scheduler, core::list_routers())->capture_default_str();
    simulate
        ->add_option("--batching", a->batching,
                     "reference policy: fifo as published, decode-first, or two-passes as the "
                     "published prototype's workers")
        ->capture_default_str();
    simulate
        ->add_option("--prompt-every", a->prompt_every,
                     "decode-first: one layer of prompts after so many of decodes; 0: never while "
                     "decodes wait")
        ->capture_default_str();
    simulate
        ->add_option("--groups", a->groups,
                     "helix policy: most groups that decodes travel in; 0: as `serve` does it")
        ->capture_default_str();
    simulate->add_flag("--no-balance", a->no_balance,
                       "helix policy: running requests do not move to machines with more memory");
    a->load.add_to(*simulate);
    simulate->add_flag("--find-peak", a->find_peak,
                       "only search the highest rate that the cluster keeps up with");
    simulate->add_flag("--json", a->json, "one JSON object instead of a table");
    simulate->add_option("--html", a->watch.html, "write a report with plots, one HTML file");
    simulate->add_option("--trace-out", a->watch.trace_out,
                         "write the run for chrome://tracing or ui.perfetto.dev");
    simulate->add_option("--ttft-slo-s", a->watch.ttft_slo_s,
                         "longest wait for a first token that counts as good, in the report");
    simulate->add_option("--tpot-slo-s", a->watch.tpot_slo_s,
                         "longest mean time between tokens that does");
    simulate->footer(
        "Examples:\n"
        "  helix plan office.toml --model llama3-8b --output plan.json\n"
        "  helix simulate office.toml --model llama3-8b --placement plan.json --html run.html\n"
        "  helix simulate office.toml --model llama3-8b --load 75% --arrivals gamma\n"
        "  helix simulate office.toml --model llama3-8b --placement plan.json --trace day.csv");
    simulate->callback([&app, a] { app.action = [a] { return run_simulate(*a); }; });
}

}  // namespace helix::cli

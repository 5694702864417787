// helix simulate CLUSTER --model MODEL --placement FILE

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "base/log.h"
#include "cli/command.h"
#include "cli/problem_option.h"
#include "cli/progress.h"
#include "cli/simulate_load.h"
#include "cli/simulate_setup.h"
#include "cli/simulate_watch.h"
#include "cli/word_option.h"
#include "core/router_catalogue.h"

namespace helix::cli {
namespace {

struct SimulateArguments {
    ProblemArguments problem;
    std::string placement;
    std::string policy;
    std::string scheduler = "helix";
    std::string batching = "fifo";
    std::int32_t prompt_every = 4;
    std::int32_t groups = 0;
    LoadArguments load;
    bool json = false;
    WatchOptions watch;
};

std::vector<std::pair<std::string, std::string>> facts(const SimulateArguments& a,
                                                       const Problem& problem, const char* policy) {
    return {{"Model", problem.model.name},
            {"Placement", a.placement},
            {"Policy", policy},
            {"Scheduler", a.scheduler},
            {"Load", a.load.online ? fmt::format("online, {:g} tokens/s", a.load.rate) : "offline"},
            {"Seed", std::to_string(a.load.seed)}};
}

base::Result<sim::SimReport> simulate_reference(const SimulateArguments& a,
                                                const Problem& problem) {
    using sim::ReferenceScheduler;
    if (!problem.tables) {
        return base::invalid("--policy reference: needs --profiles, measured tables of the model");
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
                                   {"decode-first", sim::ReferenceBatching::Order::decode_first}}));
    setup.batching.prompt_every = a.prompt_every;
    TRY(const SimulatedLoad load, read_load(a.load));
    put_under_load(setup, load);
    spec::Placement placement;
    placement.layers.resize(problem.cluster.nodes.size());
    std::vector<double> kv_capacity(problem.cluster.nodes.size());
    for (const sim::ReferenceNode& node : setup.nodes) {
        placement.layers[static_cast<std::size_t>(node.node)] = node.layers;
        kv_capacity[static_cast<std::size_t>(node.node)] = static_cast<double>(node.kv_capacity);
    }
    TRY(const auto watch, SimulateWatch::create(a.watch, problem.cluster, placement,
                                                problem.model.n_layers, kv_capacity, setup.start_s,
                                                setup.warmup_s, setup.duration_s, !a.load.online));
    setup.observer = watch->observer();
    ProgressLine line("simulating");
    TRY(const sim::SimReport report, sim::run_reference(setup, [&](double done_s, double total_s) {
            line.update(static_cast<std::uint64_t>(done_s), static_cast<std::uint64_t>(total_s));
        }));
    TRY_VOID(watch->finish(report, problem.cluster.name, facts(a, problem, "published")));
    return report;
}

// Our own policy takes placement and load as the published one does, and leaves the rest to core.
base::Result<sim::SimReport> simulate_helix(const SimulateArguments& a, const Problem& problem) {
    TRY(const core::RouterKind scheduler, core::find_router(a.scheduler));
    if (a.batching != "fifo") {
        return base::invalid("--batching: needs --policy reference");
    }
    TRY(spec::PlacementFile file, read_simulated_layout(a.placement, problem));
    TRY_VOID(add_flows(problem, file, true));
    if (scheduler.beyond_plan) add_idle_links(problem, file);
    sim::HelixSetup setup = helix_setup(problem, file.placement, file.flows);
    setup.coordinator.router = scheduler.make;
    setup.max_flow_tokens_per_s = file.max_flow_tokens_per_s.value_or(0);
    setup.coordinator.pipeline_groups = a.groups;
    TRY(const SimulatedLoad load, read_load(a.load));
    put_under_load(setup, load);
    std::vector<double> kv_capacity(setup.kv_tokens.size());  // pages
    for (std::size_t n = 0; n < kv_capacity.size(); ++n) {
        kv_capacity[n] = std::floor(setup.kv_tokens[n] / setup.worker.block_size) *
                         file.placement.layers[n].size();
    }
    TRY(const auto watch,
        SimulateWatch::create(a.watch, problem.cluster, file.placement, problem.model.n_layers,
                              kv_capacity, sim::kHelixStart_s, setup.warmup_s, setup.duration_s,
                              !a.load.online));
    setup.observer = watch->observer();
    ProgressLine line("simulating");
    TRY(const sim::SimReport report, sim::run_helix(setup, [&](double done_s, double total_s) {
            line.update(static_cast<std::uint64_t>(done_s), static_cast<std::uint64_t>(total_s));
        }));
    TRY_VOID(watch->finish(report, problem.cluster.name, facts(a, problem, "helix")));
    return report;
}

base::Status run_simulate(const SimulateArguments& a) {
    TRY(const Problem problem, load_problem(a.problem));
    if (!a.policy.empty() && a.policy != "helix" && a.policy != "reference") {
        return base::invalid("--policy: '" + a.policy + "' is neither helix nor reference");
    }
    bool reference = a.policy == "reference";
    if (a.policy.empty()) {
        TRY(const std::string why, needs_published_policy(a.placement, problem, a.scheduler));
        reference = !why.empty();
        if (reference) LOG_INFO("under --policy reference: {}", why);
    }
    TRY(const sim::SimReport report,
        reference ? simulate_reference(a, problem) : simulate_helix(a, problem));
    const std::string shown = a.json ? sim::report_json(report) + "\n" : sim::report_table(report);
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

}  // namespace

void add_simulate(App& app) {
    CLI::App* simulate =
        app.parser.add_subcommand("simulate", "What a cluster would deliver, in virtual time");
    auto a = std::make_shared<SimulateArguments>();
    a->problem.add_to(*simulate);
    simulate
        ->add_option("--placement", a->placement,
                     "which layers stand where: a file of helix plan, or a published run's replay")
        ->required();
    simulate->add_option(
        "--policy", a->policy,
        "helix: what `serve` runs; reference: the published simulator's rules, with its own "
        "schedulers of the same names. Without it: helix, unless the placement is a published "
        "run's replay, or separate pipelines with more layers than the tables cover");
    simulate->add_option("--scheduler", a->scheduler, core::list_routers())->capture_default_str();
    simulate
        ->add_option("--batching", a->batching,
                     "reference policy: fifo as published, or decode-first")
        ->capture_default_str();
    simulate
        ->add_option("--prompt-every", a->prompt_every,
                     "decode-first: one layer of prompts after so many of decodes; 0: never while "
                     "decodes wait")
        ->capture_default_str();
    simulate
        ->add_option("--groups", a->groups,
                     "helix policy: groups that decodes travel in; 0: as `serve` does it")
        ->capture_default_str();
    a->load.add_to(*simulate);
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
        "  helix simulate office.toml --model llama3-8b --placement plan.json --online --rate 500 "
        "--arrivals poisson");
    simulate->callback([&app, a] { app.action = [a] { return run_simulate(*a); }; });
}

}  // namespace helix::cli

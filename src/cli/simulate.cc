// helix simulate CLUSTER --model MODEL --placement FILE

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/problem_option.h"
#include "cli/progress.h"
#include "cli/simulate_watch.h"
#include "plan/flow_graph.h"
#include "plan/throughput_search.h"
#include "sim/helix_world.h"
#include "sim/reference_world.h"
#include "sim/synthetic_trace.h"
#include "spec/json_place.h"
#include "spec/placement_file.h"
#include "spec/text_file.h"
#include "spec/units.h"

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
    std::string lengths;
    std::string length_order = "auto";
    bool offline = false;
    bool online = false;
    std::int32_t population = 0;
    double rate = 0;
    std::string arrivals = "shuffled";
    std::string arrival_counts;
    std::string warmup = "60s";
    std::string duration = "600s";
    std::uint64_t seed = 0;
    bool json = false;
    WatchOptions watch;
};

// One word of a list, and what it stands for.
template <typename T>
base::Result<T> choose(const char* option, const std::string& word,
                       std::initializer_list<std::pair<const char*, T>> known) {
    std::string words;
    for (const auto& [name, value] : known) {
        if (word == name) return value;
        words += (words.empty() ? "" : ", ") + std::string(name);
    }
    return base::invalid(fmt::format("{}: '{}' is none of {}", option, word, words));
}

base::Result<sim::LengthSource> read_lengths(const SimulateArguments& a) {
    if (a.lengths.empty()) return sim::conversation_lengths();
    const std::string name = a.lengths.substr(a.lengths.find_last_of('/') + 1);
    const bool stream = name.find("stream") != std::string::npos;
    TRY(const sim::LengthOrder order,
        choose<sim::LengthOrder>(
            "--length-order", a.length_order,
            {{"auto", stream ? sim::LengthOrder::recorded : sim::LengthOrder::sampled},
             {"sampled", sim::LengthOrder::sampled},
             {"recorded", sim::LengthOrder::recorded}}));
    return sim::LengthSource::read(a.lengths, order);
}

// Files of one type's machines, or of a part of the cluster, number their nodes on their own: the
// k-th of a type is then taken to be the cluster's k-th of that type.
base::Status match_types(const std::string& path, const spec::ClusterSpec& cluster,
                         spec::PlacementFile& file) {
    const std::size_t n = file.placement.layers.size();
    bool fits = n <= cluster.nodes.size();
    for (std::size_t i = 0; fits && i < file.node_types.size(); ++i) {
        fits = file.node_types[i].empty() || file.node_types[i] == cluster.nodes[i].type;
    }
    if (fits) return base::Ok{};
    if (file.node_types.size() != n) {
        return base::invalid(fmt::format("{}: names node {}, but the cluster has nodes 0 to {}",
                                         path, n - 1, cluster.nodes.size() - 1));
    }
    std::vector<std::int32_t> slot(n);
    std::vector<bool> taken(cluster.nodes.size());
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t k = 0;
        while (k < taken.size() && (taken[k] || cluster.nodes[k].type != file.node_types[i])) ++k;
        if (k == taken.size()) {
            return base::invalid(fmt::format("{}: node {} is of type {}; the cluster has too few",
                                             path, i, file.node_types[i]));
        }
        taken[k] = true;
        slot[i] = static_cast<std::int32_t>(k);
    }
    spec::Placement placement;
    placement.layers.resize(cluster.nodes.size());
    for (std::size_t i = 0; i < n; ++i) {
        placement.layers[static_cast<std::size_t>(slot[i])] = file.placement.layers[i];
    }
    file.placement = std::move(placement);
    const auto moved = [&](std::int32_t& node) {
        if (node != spec::kCoordinator) node = slot[static_cast<std::size_t>(node)];
    };
    for (auto& [from, to] : file.links) {
        moved(from);
        moved(to);
    }
    for (spec::LinkFlow& flow : file.flows) {
        moved(flow.from);
        moved(flow.to);
    }
    return base::Ok{};
}

// How the planner would split requests over a placement.
std::vector<spec::LinkFlow> planned_split(const Problem& problem, const spec::Placement& placement,
                                          const plan::FlowOptions& flow) {
    const std::vector<plan::PerformanceModel> models =
        plan::robust_models(problem.cluster, problem.model, problem.capacities, problem.costs());
    plan::ThroughputOptions options;
    for (const plan::PerformanceModel& model : models) options.models.push_back(&model);
    options.flow = flow;
    auto split = plan::split_placement(problem.cluster, problem.model, problem.capacities,
                                       placement, options);
    return split ? std::move(split->flows) : std::vector<spec::LinkFlow>{};
}

// The flow that the scheduler follows: the file's; or a maximum flow over its links, as published
// layouts have them; or, for a file that has only layers, the planner's split.
base::Status add_flows(const Problem& problem, spec::PlacementFile& file, bool needed) {
    const auto fits =
        plan::check_placement(problem.cluster, problem.model, problem.capacities, file.placement);
    if (!fits.ok()) {
        if (needed) return fits.error();
        return base::Ok{};
    }
    plan::FlowOptions options{.partial = true, .convention = plan::Convention::reference};
    if (!file.links.empty()) options.only_links = file.links;
    const plan::FlowPlan flow = plan::plan_flow(
        problem.cluster, plan::build_flow_graph(problem.cluster, problem.model, problem.capacities,
                                                file.placement, options));
    if (file.flows.empty() && file.links.empty()) {
        file.flows = planned_split(problem, file.placement, options);
    }
    if (file.flows.empty()) file.flows = flow.links;
    if (!file.max_flow_tokens_per_s) file.max_flow_tokens_per_s = flow.tokens_per_s;
    return base::Ok{};
}

base::Result<spec::PlacementFile> read_placement(const SimulateArguments& a,
                                                 const Problem& problem) {
    TRY(spec::PlacementFile file, spec::read_placement_file(a.placement));
    if (file.n_layers != problem.model.n_layers) {
        return base::invalid(fmt::format("{}: is for {} layers, but {} has {}", a.placement,
                                         file.n_layers, problem.model.name,
                                         problem.model.n_layers));
    }
    TRY_VOID(match_types(a.placement, problem.cluster, file));
    return file;
}

base::Result<sim::ReferenceSetup> placed_setup(const SimulateArguments& a, const Problem& problem,
                                               sim::ReferenceScheduler scheduler) {
    TRY(const std::string text, spec::read_text_file(a.placement));
    TRY(const nlohmann::json document, spec::parse_json(text, a.placement));
    if (document.is_object() && document.contains("nodes") && document.contains("start_time_s")) {
        return sim::read_replay_setup(a.placement, problem.cluster, *problem.tables);
    }
    TRY(spec::PlacementFile file, read_placement(a, problem));
    TRY_VOID(add_flows(problem, file, scheduler == sim::ReferenceScheduler::max_flow));
    const bool beyond_tables = a.scheduler == "separate";
    TRY(sim::ReferenceSetup setup,
        sim::reference_setup(problem.cluster, *problem.tables, file.placement, file.links,
                             file.flows, beyond_tables));
    setup.max_flow_tokens_per_s = file.max_flow_tokens_per_s.value_or(0);
    return setup;
}

// Baselines keep a constant population. Without a number: as many as fill 70 % of the layer with
// least KV memory, at the mean length.
std::int32_t default_population(const sim::ReferenceSetup& setup) {
    std::vector<double> layer_tokens(static_cast<std::size_t>(setup.n_layers));
    for (const sim::ReferenceNode& node : setup.nodes) {
        for (std::int32_t l = node.layers.begin; l < node.layers.end; ++l) {
            layer_tokens[static_cast<std::size_t>(l)] +=
                static_cast<double>(node.kv_capacity) / node.layers.size();
        }
    }
    const double least = *std::min_element(layer_tokens.begin(), layer_tokens.end());
    return std::max(1, static_cast<std::int32_t>(0.7 * least / setup.lengths.mean_tokens()));
}

struct Load {
    sim::LengthSource lengths;
    std::optional<sim::OnlineLoad> online;
    double warmup_s = 0;
    double duration_s = 0;
};

base::Result<Load> read_load(const SimulateArguments& a) {
    Load load;
    TRY(load.lengths, read_lengths(a));
    TRY(load.warmup_s, spec::parse_duration(a.warmup));
    TRY(load.duration_s, spec::parse_duration(a.duration));
    if (a.offline && a.online) return base::invalid("--offline and --online exclude each other");
    if (!a.online) {
        if (a.rate > 0) return base::invalid("--rate: only with --online");
        return load;
    }
    if (!(a.rate > 0)) {
        return base::invalid("--online: needs --rate, prompt and output tokens per second");
    }
    sim::OnlineLoad online;
    online.tokens_per_s = a.rate;
    TRY(online.process, choose<sim::ArrivalProcess>("--arrivals", a.arrivals,
                                                    {{"shuffled", sim::ArrivalProcess::shuffled},
                                                     {"recorded", sim::ArrivalProcess::recorded},
                                                     {"poisson", sim::ArrivalProcess::poisson}}));
    if (online.process != sim::ArrivalProcess::poisson) {
        if (a.arrival_counts.empty()) {
            return base::invalid(fmt::format(
                "--arrivals {}: needs --arrival-counts FILE (requests_in_3s)", a.arrivals));
        }
        TRY(online.counts_per_3s, sim::read_arrival_counts(a.arrival_counts));
    }
    load.online = std::move(online);
    return load;
}

base::Status set_load(const SimulateArguments& a, sim::ReferenceSetup& setup) {
    TRY(Load load, read_load(a));
    setup.lengths = std::move(load.lengths);
    setup.warmup_s = load.warmup_s;
    setup.duration_s = load.duration_s;
    setup.seed = a.seed;
    if (load.online) {
        setup.kv_high_water = 0.9;
        setup.output_ratio = 0.6;
        setup.online = std::move(load.online);
        return base::Ok{};
    }
    const bool constant = setup.scheduler != sim::ReferenceScheduler::max_flow;
    if (constant) setup.offline.initial = default_population(setup);
    if (a.population > 0) setup.offline.initial = a.population;
    return base::Ok{};
}

std::vector<std::pair<std::string, std::string>> facts(const SimulateArguments& a,
                                                       const Problem& problem, const char* policy) {
    return {{"Model", problem.model.name},
            {"Placement", a.placement},
            {"Policy", policy},
            {"Load", a.online ? fmt::format("online, {:g} tokens/s", a.rate) : "offline"},
            {"Seed", std::to_string(a.seed)}};
}

base::Result<sim::SimReport> simulate_reference(const SimulateArguments& a,
                                                const Problem& problem) {
    using sim::ReferenceScheduler;
    if (!problem.tables) {
        return base::invalid("--policy reference: needs --profiles, measured tables of the model");
    }
    TRY(const ReferenceScheduler scheduler,
        choose<ReferenceScheduler>("--scheduler", a.scheduler,
                                   {{"helix", ReferenceScheduler::max_flow},
                                    {"swarm", ReferenceScheduler::swarm},
                                    {"random", ReferenceScheduler::random},
                                    {"shortest-queue", ReferenceScheduler::shortest_queue},
                                    {"separate", ReferenceScheduler::random}}));
    TRY(sim::ReferenceSetup setup, placed_setup(a, problem, scheduler));
    setup.scheduler = scheduler;
    TRY(setup.batching.order, choose<sim::ReferenceBatching::Order>(
                                  "--batching", a.batching,
                                  {{"fifo", sim::ReferenceBatching::Order::fifo},
                                   {"decode-first", sim::ReferenceBatching::Order::decode_first}}));
    setup.batching.prompt_every = a.prompt_every;
    TRY_VOID(set_load(a, setup));
    spec::Placement placement;
    placement.layers.resize(problem.cluster.nodes.size());
    std::vector<double> kv_capacity(problem.cluster.nodes.size());
    for (const sim::ReferenceNode& node : setup.nodes) {
        placement.layers[static_cast<std::size_t>(node.node)] = node.layers;
        kv_capacity[static_cast<std::size_t>(node.node)] = static_cast<double>(node.kv_capacity);
    }
    TRY(const auto watch, SimulateWatch::create(a.watch, problem.cluster, placement,
                                                problem.model.n_layers, kv_capacity, setup.start_s,
                                                setup.warmup_s, setup.duration_s, !a.online));
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
    if (a.scheduler != "helix") {
        return base::invalid("--scheduler: '" + a.scheduler + "' needs --policy reference");
    }
    if (a.batching != "fifo") {
        return base::invalid("--batching: needs --policy reference");
    }
    TRY(spec::PlacementFile file, read_placement(a, problem));
    TRY_VOID(add_flows(problem, file, true));
    sim::HelixSetup setup;
    setup.cluster = &problem.cluster;
    setup.costs = &problem.costs();
    setup.model = problem.model;
    setup.placement = file.placement;
    setup.flows = file.flows;
    setup.max_flow_tokens_per_s = file.max_flow_tokens_per_s.value_or(0);
    setup.kv_tokens.resize(problem.cluster.nodes.size());
    for (std::size_t n = 0; n < file.placement.layers.size(); ++n) {
        const auto j = static_cast<std::size_t>(file.placement.layers[n].size());
        setup.kv_tokens[n] = problem.capacities.nodes[n].kv_tokens[j];
    }
    setup.coordinator.pipeline_groups = a.groups;
    TRY(const Load load, read_load(a));
    setup.lengths = load.lengths;
    setup.online = load.online;
    setup.warmup_s = load.warmup_s;
    setup.duration_s = load.duration_s;
    setup.seed = a.seed;
    if (a.population > 0) setup.offline.initial = a.population;
    std::vector<double> kv_capacity(setup.kv_tokens.size());  // pages
    for (std::size_t n = 0; n < kv_capacity.size(); ++n) {
        kv_capacity[n] = std::floor(setup.kv_tokens[n] / setup.worker.block_size) *
                         file.placement.layers[n].size();
    }
    TRY(const auto watch,
        SimulateWatch::create(a.watch, problem.cluster, file.placement, problem.model.n_layers,
                              kv_capacity, sim::kHelixStart_s, setup.warmup_s, setup.duration_s,
                              !a.online));
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
    const bool reference = a.policy == "reference" || (a.policy.empty() && a.scheduler != "helix");
    TRY(const sim::SimReport report,
        reference ? simulate_reference(a, problem) : simulate_helix(a, problem));
    const std::string shown = a.json ? sim::report_json(report) + "\n" : sim::report_table(report);
    std::fputs(shown.c_str(), stdout);
    return base::Ok{};
}

void add_load_options(CLI::App& command, SimulateArguments& a) {
    command.add_option("--lengths", a.lengths,
                       "CSV with prompt_tokens and output_tokens [made up like the Azure "
                       "conversation trace]");
    command
        .add_option("--length-order", a.length_order,
                    "sampled: rows drawn at random; recorded: in the file's order; auto: recorded "
                    "if the file's name has \"stream\" in it")
        ->capture_default_str();
    command.add_flag("--offline", a.offline, "keep the cluster saturated (the default)");
    command.add_flag("--online", a.online, "requests arrive at --rate");
    command.add_option("--population", a.population,
                       "offline: requests fed at the start; all that the baselines ever keep");
    command.add_option("--rate", a.rate, "online: prompt and output tokens per second");
    command.add_option("--arrivals", a.arrivals, "online: shuffled, recorded or poisson")
        ->capture_default_str();
    command.add_option("--arrival-counts", a.arrival_counts,
                       "CSV with requests_in_3s, for shuffled and recorded arrivals");
    command.add_option("--warmup", a.warmup, "not counted")->capture_default_str();
    command.add_option("--duration", a.duration, "counted, after the warm-up")
        ->capture_default_str();
    command.add_option("--seed", a.seed, "equal seeds give equal runs")->capture_default_str();
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
        "helix: what `serve` runs; reference: the published simulator's rules, the only ones "
        "that know other schedulers. Without it: as the scheduler needs");
    simulate
        ->add_option(
            "--scheduler", a->scheduler,
            "helix; with the reference policy also swarm, random, shortest-queue, separate")
        ->capture_default_str();
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
    add_load_options(*simulate, *a);
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

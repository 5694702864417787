#include "lab/simulation/simulation.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/simulation/simulation_setup.h"
#include "sim/published/reference_world.h"
#include "sim/throughput/helix_run.h"

namespace helix::lab {
namespace {

std::vector<std::pair<std::string, std::string>> facts(const SimulationTask& task,
                                                       const Problem& problem,
                                                       const std::optional<sim::OnlineLoad>& online,
                                                       const char* policy) {
    const SimulatedLoad& load = task.load;
    return {
        {"Model", problem.model.name},
        {"Placement", task.placement},
        {"Policy", policy},
        {"Scheduler", task.scheduler},
        {"Load", online ? fmt::format("{}, {:.4g} tokens/s", load.described, online->tokens_per_s)
                        : load.described},
        {"Seed", std::to_string(load.seed)}};
}

// What a watch must know of a policy's world.
struct WatchedWorld {
    const char* policy;
    spec::Placement placement;
    std::vector<double> kv_capacity;  // of each node, in the unit that the world reports
    double start_s;                   // when load begins
};

// Setup: under load, but for the rate where that hangs on the peak.
template <typename Setup, typename Run>
base::Result<Simulated> simulate_watched(const Problem& problem, const SimulationTask& task,
                                         Setup& setup, const WatchedWorld& world, const Run& run,
                                         const SimulationProgress& progress) {
    Simulated simulated;
    if (task.find_peak) {
        TRY(simulated.peak, sim::find_peak(setup, progress.peak));
        return simulated;
    }
    double peak = 0;  // that was searched for
    if (task.load.peak_share > 0) {
        TRY(const sim::Peak found, sim::find_peak(setup, progress.peak));
        peak = found.tokens_per_s;
        sim::set_rate(*setup.online, task.load.peak_share * peak);
    }
    TRY(const auto watch, RunWatch::create(task.watch, problem.cluster, world.placement,
                                           problem.model.n_layers, world.kv_capacity, world.start_s,
                                           setup.warmup_s, setup.duration_s, !setup.online));
    setup.observer = watch->observer();
    TRY(simulated.report, run(setup));
    simulated.report.peak_tokens_per_s = peak;
    if (simulated.report.ready_s <= 0) simulated.report.ready_s = world.start_s;
    TRY_VOID(watch->finish(simulated.report, problem.cluster.name,
                           facts(task, problem, setup.online, world.policy)));
    return simulated;
}

}  // namespace

base::Result<Simulated> simulate_published(const Problem& problem, const PublishedRules& rules,
                                           const SimulationTask& task,
                                           const SimulationProgress& progress) {
    TRY(sim::ReferenceSetup setup,
        reference_setup_from(rules.layout, problem, {rules.scheduler, rules.beyond_tables}));
    setup.scheduler = rules.scheduler;
    setup.batching = rules.batching;
    put_under_load(setup, task.load);
    WatchedWorld world{"published", placement_of(problem, setup),
                       std::vector<double>(problem.cluster.nodes.size()), setup.start_s};
    for (const sim::ReferenceNode& node : setup.nodes) {
        world.kv_capacity[static_cast<std::size_t>(node.node)] =
            static_cast<double>(node.kv_capacity);
    }
    return simulate_watched(
        problem, task, setup, world,
        [&](const sim::ReferenceSetup& s) { return sim::run_reference(s, progress.run); },
        progress);
}

// Our own policy takes placement and load as the published one does, and leaves the rest to core.
base::Result<Simulated> simulate_own(const Problem& problem, spec::PlacementFile layout,
                                     const OwnRules& rules, const SimulationTask& task,
                                     const SimulationProgress& progress) {
    if (rules.scheduler.beyond_plan) add_idle_links(problem, layout);
    sim::HelixSetup setup = helix_setup(problem, layout.placement, layout.flows,
                                        layout.policy.value_or(spec::ServingPolicy()));
    setup.coordinator.router = rules.scheduler.make;
    setup.max_flow_tokens_per_s = layout.max_flow_tokens_per_s.value_or(0);
    setup.coordinator.pipeline_groups = rules.pipeline_groups;
    setup.coordinator.balance.enabled = rules.balance;
    if (rules.disk_bytes_per_s) {
        setup.disk_bytes_per_s.assign(problem.cluster.nodes.size(), *rules.disk_bytes_per_s);
    }
    put_under_load(setup, task.load);
    if (rules.as_vllm) work_as_vllm(setup, *rules.as_vllm);
    if (rules.moves_as_llumnix) core::balance_as_llumnix(setup.coordinator);
    WatchedWorld world{"helix", layout.placement, std::vector<double>(setup.kv_tokens.size()),
                       sim::helix_start_s(setup)};
    for (std::size_t n = 0; n < layout.placement.layers.size(); ++n) {  // pages
        world.kv_capacity[n] = std::floor(setup.kv_tokens[n] / setup.worker.block_size) *
                               spec::kv_layers(problem.model, layout.placement.layers[n]).size();
    }
    world.placement.layers.resize(problem.cluster.nodes.size());
    return simulate_watched(
        problem, task, setup, world,
        [&](const sim::HelixSetup& s) { return sim::run_helix(s, progress.run); }, progress);
}

namespace {

std::string peak_json(const sim::Peak& peak) {
    const nlohmann::ordered_json json = {{"peak_tokens_per_s", peak.tokens_per_s},
                                         {"served_tokens_per_s", peak.served_tokens_per_s},
                                         {"runs", peak.runs}};
    return json.dump(1) + "\n";
}

std::string peak_text(const sim::Peak& peak) {
    return fmt::format(
        "peak                   {:.1f} tokens/s, prompts and outputs\n"
        "served at that rate    {:.1f} tokens/s\n"
        "runs                   {}\n",
        peak.tokens_per_s, peak.served_tokens_per_s, peak.runs);
}

}  // namespace

std::string describe(const Simulated& simulated, bool json) {
    if (simulated.peak) return json ? peak_json(*simulated.peak) : peak_text(*simulated.peak);
    return json ? sim::report_json(simulated.report) + "\n" : sim::report_table(simulated.report);
}

}  // namespace helix::lab

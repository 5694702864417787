#include "lab/load/bench_twin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "spec/cluster_spec.h"

namespace helix::lab {
namespace {

constexpr double kForever_s = 1e9;
constexpr std::uint64_t kWorlds = 13;    // to compare a measured load with
constexpr std::size_t kOwnRequests = 8;  // that a client sends at most to learn how to ask

// Lone requests tell what a hop costs here.
base::Status fit_twin(ApiClient& client, const Measure& measure, Twin& twin) {
    LoneProbe probe;
    probe.prompt_tokens = std::max(probe.prompt_tokens, client.least_prompt());
    const LengthRange prompt{probe.prompt_tokens, probe.prompt_tokens};
    const LengthRange output{probe.output_tokens, probe.output_tokens};
    LoadPlan plan;
    plan.concurrency = 1;
    plan.lengths = LengthSource(prompt, output);
    plan.count = static_cast<std::size_t>(probe.requests);
    plan.duration_s = kForever_s;
    const LoadResult lone = measure(plan);
    if (lone.interrupted) {
        return base::Error{base::Errc::unavailable, "interrupted before the load began"};
    }
    TRY(const auto pipelines, read_last_pipelines(client, plan.count));
    for (const RequestRecord& request : lone.requests) {
        twin.options.before.push_back(request.asked);
        twin.options.before.back().arrival_s = request.sent_s;
    }
    return fit_to_lone(twin.cluster, twin.tables, lone, pipelines, twin.options);
}

}  // namespace

base::Result<Twin> prepare_twin(const TwinSettings& settings, ApiClient& client,
                                const Measure& measure) {
    TRY(auto tables, spec::ProfileTables::read(settings.profiles, settings.model));
    Twin twin{std::move(tables), {}, {}};
    TRY(twin.cluster, read_served_cluster(client));
    spec::ClusterSpec spec;
    spec.nodes = twin.cluster.nodes;
    const auto known = twin.tables.check(spec);
    if (!known.ok()) {
        return base::invalid(known.error().message + " (workers say their type with --type)");
    }
    if (twin.cluster.n_layers != twin.tables.model().n_layers) {
        return base::invalid(fmt::format("the workers hold {} layers, but {} has {} in {}",
                                         twin.cluster.n_layers, settings.model,
                                         twin.tables.model().n_layers, settings.profiles));
    }
    twin.options.block_size = settings.block_size;
    twin.options.context_length = client.context_length();
    twin.options.time_scale = settings.time_scale;
    twin.options.row_bytes =
        client.hidden_size() > 0
            ? static_cast<double>(client.hidden_size()) * sizeof(float)
            : static_cast<double>(twin.tables.model().activation_bytes_per_token);
    twin.options.link_bytes_per_s = settings.link_bytes_per_s;
    twin.options.link_latency_s = settings.link_latency_s.value_or(0);
    twin.options.answer_delay_s = settings.answer_delay_s;
    if (!settings.link_latency_s) TRY_VOID(fit_twin(client, measure, twin));
    return twin;
}

base::Result<std::vector<Comparison>> compare_with_worlds(Twin& twin, const BenchLoad& load,
                                                          const LoadReport& measured,
                                                          const ServiceGoal& goal) {
    // What a cluster learned from others' load is not known; from this one it would be the same.
    if (twin.cluster.requests > kOwnRequests) twin.options.before = load.plan.arrivals;
    std::vector<Comparison> compared;
    std::vector<std::vector<double>> simulated;  // by figure and world
    for (std::uint64_t world = 0; world < kWorlds; ++world) {
        twin.options.seed = world;
        TRY(const LoadResult one,
            simulate_load(twin.cluster, twin.tables, twin.options, load.plan.arrivals));
        compared = compare(measured, make_report(one, window_of(load, one), goal));
        simulated.resize(compared.size());
        for (std::size_t i = 0; i < compared.size(); ++i) {
            simulated[i].push_back(compared[i].simulated);
        }
    }
    for (std::size_t i = 0; i < compared.size(); ++i) {
        const auto middle = simulated[i].begin() + kWorlds / 2;
        std::nth_element(simulated[i].begin(), middle, simulated[i].end());
        compared[i].simulated = *middle;
    }
    return compared;
}

}  // namespace helix::lab

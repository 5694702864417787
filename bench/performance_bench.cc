// Does the performance model rank placements as the published simulator does, and what does a
// search on it find? On the published clusters, LLaMA-2 70B, offline.
//     performance_bench rank [LAYOUTS] [SECONDS]    100 random placements per cluster, runs of 600
//     s performance_bench search [SECONDS] [SEED]     60 s for each cluster, judging included

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "plan/flow/split.h"
#include "plan/predict/performance.h"
#include "plan/rules/heuristics.h"
#include "plan/search/moves.h"
#include "plan/search/throughput_search.h"
#include "sim/published/reference_setup.h"
#include "sim/published/reference_world.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"

namespace {

using namespace helix;
using Layers = std::vector<spec::LayerRange>;
using Clock = std::chrono::steady_clock;

constexpr const char* kModel = "llama2-70b";

struct Problem {
    spec::ClusterSpec cluster;
    spec::ProfileTables tables;
    plan::CapacityTable capacities;
    sim::LengthSource lengths;
    std::vector<spec::Placement> starts;
};

base::Result<Problem> read_problem(const std::string& name) {
    const std::string data = HELIX_DATA_DIR;
    TRY(spec::ClusterSpec cluster, spec::read_cluster_file(data + "/clusters/" + name + ".json"));
    TRY(spec::ProfileTables tables, spec::ProfileTables::read(data + "/profiles", kModel));
    const std::string mix = name == "distributed24" ? "single24" : name;
    TRY(const spec::TypeThroughput throughput,
        spec::read_node_throughput(data + "/profiles", kModel, mix));
    TRY(plan::CapacityTable capacities, plan::capacity_from_tables(cluster, tables, throughput));
    TRY(sim::LengthSource lengths, sim::LengthSource::read(data + "/traces/azure_conv_lengths.csv",
                                                           sim::LengthOrder::sampled));
    const std::int32_t n_layers = tables.model().n_layers;
    std::vector<std::int32_t> order(cluster.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<spec::Placement> starts;
    for (const auto& start : {plan::petals_placement(capacities, n_layers, order),
                              plan::swarm_placement(capacities, n_layers, 0),
                              plan::even_placement(capacities, n_layers)}) {
        if (start) starts.push_back(*start);
    }
    return Problem{std::move(cluster), std::move(tables), std::move(capacities), std::move(lengths),
                   std::move(starts)};
}

// Decode tokens/s of the published simulator; 0 where it cannot run.
double simulate(const Problem& problem, const spec::Placement& placement,
                const std::vector<spec::LinkFlow>& flows, double seconds, std::uint64_t seed) {
    std::vector<std::pair<std::int32_t, std::int32_t>> links;
    links.reserve(flows.size());
    for (const spec::LinkFlow& flow : flows) links.emplace_back(flow.from, flow.to);
    auto setup = sim::reference_setup(problem.cluster, problem.tables, placement, links, flows);
    if (!setup.ok()) return 0;
    setup->lengths = problem.lengths;
    setup->duration_s = seconds;
    setup->seed = seed;
    const auto report = sim::run_reference(*setup);
    return report.ok() ? report->decode_tokens_per_s : 0;
}

std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> rank(values.size());
    for (std::size_t k = 0; k < order.size();) {  // equal ones share their mean rank
        std::size_t end = k;
        while (end < order.size() && values[order[end]] == values[order[k]]) ++end;
        for (std::size_t i = k; i < end; ++i) rank[order[i]] = static_cast<double>(k + end - 1) / 2;
        k = end;
    }
    return rank;
}

double spearman(const std::vector<double>& x, const std::vector<double>& y) {
    const std::vector<double> a = ranks(x);
    const std::vector<double> b = ranks(y);
    const double mean = (static_cast<double>(a.size()) - 1) / 2;
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return ab / std::sqrt(aa * bb);
}

void run_all(int n, const std::function<void(int)>& task) {
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int k = next++; k < n; k = next++) task(k);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < std::min(2U, std::thread::hardware_concurrency()); ++t)
        threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
}

struct Sample {
    spec::Placement placement;
    std::vector<spec::LinkFlow> flows;
    double flow = 0;
    double predicted = 0;
    double simulated = 0;
};

// Random walks of 5 to 64 moves from the starts, over placements that keep some flow. Every second
// sample is routed by a network solver's maximum flow, the others by our own split.
Sample random_sample(const Problem& problem, std::uint64_t seed) {
    const spec::ModelSpec& model = problem.tables.model();
    base::Random random(seed);
    plan::Mover mover(problem.capacities, model.n_layers, random);
    const plan::FlowOptions options{.convention = plan::Convention::reference};
    const plan::Splitter splitter({problem.cluster, model, problem.capacities}, options, 763);
    plan::Splitter::Scratch scratch;
    Sample sample;
    sample.placement = problem.starts[random.below(problem.starts.size())];
    const double least = 0.3 * splitter.split(sample.placement.layers, scratch, sample.flows);
    for (std::int64_t left = random.between(5, 64); left > 0;) {
        Layers moved = sample.placement.layers;
        mover.move(moved, static_cast<std::int32_t>(
                              random.below(static_cast<std::uint64_t>(model.n_layers))));
        if (moved == sample.placement.layers) continue;
        --left;
        if (splitter.split(moved, scratch, sample.flows) > least)
            sample.placement.layers = std::move(moved);
    }
    const plan::FlowPlan flow = plan::plan_flow(
        problem.cluster, plan::build_flow_graph({problem.cluster, model, problem.capacities},
                                                sample.placement, options));
    sample.flow = flow.tokens_per_s;
    splitter.split(sample.placement.layers, scratch, sample.flows);
    if (seed % 2 == 0) sample.flows = flow.links;
    return sample;
}

void rank(const std::string& name, const Problem& problem, int n, double seconds) {
    const plan::PerformanceModel model(
        {problem.cluster, problem.tables.model(), problem.capacities}, problem.tables,
        {.batching = plan::Batching::reference});
    std::vector<Sample> samples(static_cast<std::size_t>(n));
    run_all(n, [&](int k) {
        Sample& sample = samples[static_cast<std::size_t>(k)];
        sample = random_sample(problem, static_cast<std::uint64_t>(k) + 1);
        sample.predicted = model.predict(sample.placement.layers, sample.flows).decode_tokens_per_s;
        sample.simulated = simulate(problem, sample.placement, sample.flows, seconds, 0);
    });
    std::vector<double> predicted;
    std::vector<double> simulated;
    std::vector<double> flow;
    double error = 0;
    double bias = 0;
    for (const Sample& sample : samples) {
        if (sample.simulated <= 0) continue;
        predicted.push_back(sample.predicted);
        simulated.push_back(sample.simulated);
        flow.push_back(sample.flow);
        const double off = sample.predicted / sample.simulated - 1;
        error += std::abs(off);
        bias += off;
    }
    const auto count = static_cast<double>(predicted.size());
    std::printf("%-14s %4zu %8.1f .. %6.1f %10.3f %10.3f %8.1f %% %+7.1f %%\n", name.c_str(),
                predicted.size(), *std::min_element(simulated.begin(), simulated.end()),
                *std::max_element(simulated.begin(), simulated.end()),
                spearman(predicted, simulated), spearman(flow, simulated), 100 * error / count,
                100 * bias / count);
}

void search(const std::string& name, const Problem& problem, double seconds, std::uint64_t seed) {
    const auto began = Clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(Clock::now() - began).count();
    };
    const plan::PerformanceModel model(
        {problem.cluster, problem.tables.model(), problem.capacities}, problem.tables, {});
    plan::ThroughputOptions options;
    options.models.push_back(&model);
    options.seed = seed;
    options.iterations = 1'000'000'000;
    options.stop = [&] { return elapsed() > seconds; };
    options.executor = run_all;
    options.time_used = [&] { return elapsed() / seconds; };
    options.judge = [&](const spec::Placement& placement, const std::vector<spec::LinkFlow>& flows,
                        plan::Look look) {
        const double rate = simulate(problem, placement, flows, 600, 0);
        return plan::Judgement{.decode_tokens_per_s = rate, .merit = rate, .look = look};
    };
    std::vector<plan::ThroughputStart> starts;
    for (const spec::Placement& start : problem.starts) starts.push_back({start});
    const plan::ThroughputResult result = plan::search_throughput(
        {problem.cluster, problem.tables.model(), problem.capacities}, starts, options);
    if (result.shortlist.empty()) {
        std::printf("%-14s nothing found\n", name.c_str());
        return;
    }
    const double took = elapsed();
    const plan::ThroughputCandidate& best = result.shortlist.front();
    double others = 0;  // on length streams that took no part in the search
    for (std::uint64_t stream = 1; stream <= 3; ++stream)
        others += simulate(problem, best.placement, best.flows, 600, stream) / 3;
    std::printf("%-14s %8.1f %8.1f %8.1f %8.1f %6.1f %9lld %6d %6.1f s\n", name.c_str(), best.score,
                best.judgement.decode_tokens_per_s, others, best.flow_tokens_per_s,
                best.estimates.front().depth, static_cast<long long>(result.iterations),
                result.judged, took);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "rank";
    if (mode != "rank" && mode != "search") {
        std::fprintf(stderr,
                     "usage: performance_bench rank [LAYOUTS] [SECONDS] | search [SECONDS]\n");
        return 2;
    }
    std::printf(
        mode == "rank"
            ? "cluster           n   simulated tok/s  rank corr.  of flow  mean |error|    bias\n"
            : "cluster           helix  reference judged  3 others   flow  depth     tried judged  "
              " wall\n");
    for (const char* name : {"single24", "distributed24", "highhet42"}) {
        const auto problem = read_problem(name);
        if (!problem.ok()) {
            std::fprintf(stderr, "%s\n", problem.error().message.c_str());
            return 1;
        }
        if (mode == "rank") {
            rank(name, *problem, argc > 2 ? std::atoi(argv[2]) : 100,
                 argc > 3 ? std::atof(argv[3]) : 600);
        } else {
            search(name, *problem, argc > 2 ? std::atof(argv[2]) : 60,
                   argc > 3 ? static_cast<std::uint64_t>(std::atoll(argv[3])) : 1);
        }
    }
    return 0;
}

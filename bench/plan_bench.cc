// Measures the time of a max flow, and what the search finds, on the published clusters.
//     plan_bench [MILLISECONDS]     budget of each search, 1000 if not given

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plan/bounds/bounds.h"
#include "plan/flow/evaluator.h"
#include "plan/planner.h"
#include "plan/rules/heuristics.h"
#include "spec/cluster_file.h"
#include "spec/profile_tables.h"

namespace {

using namespace helix;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Mean microseconds of `work`, over at least 50 ms.
template <typename Work>
double mean_us(Work&& work) {
    const auto start = Clock::now();
    int runs = 0;
    while (since(start) < 0.05) {
        work();
        ++runs;
    }
    return since(start) / runs * 1e6;
}

base::Status bench(const std::string& cluster_name, const std::string& model,
                   const std::string& mix, int budget_ms) {
    const std::string data = HELIX_DATA_DIR;
    TRY(const spec::ClusterSpec cluster,
        spec::read_cluster_file(data + "/clusters/" + cluster_name + ".json"));
    TRY(const spec::ProfileTables tables, spec::ProfileTables::read(data + "/profiles", model));
    TRY(const spec::TypeThroughput throughput,
        spec::read_node_throughput(data + "/profiles", model, mix));
    TRY(const plan::CapacityTable capacities,
        plan::capacity_from_tables(cluster, tables, throughput));
    const spec::ModelSpec& shape = tables.model();
    const auto swarm = plan::swarm_placement(capacities, shape.n_layers, 0);
    if (!swarm) return base::invalid(cluster_name + ": no swarm placement");
    std::printf("%s %s\n", cluster_name.c_str(), model.c_str());
    for (const bool partial : {false, true}) {
        plan::FlowOptions flow{
            .partial = partial, .convention = plan::Convention::paper, .only_links = {}};
        const plan::Evaluator evaluator({cluster, shape, capacities}, flow);
        const double full_us = mean_us([&] {
            plan::max_flow_value(
                plan::build_flow_graph({cluster, shape, capacities}, *swarm, flow).network);
        });
        const double quick_us = mean_us([&] { evaluator.flow(swarm->layers); });
        for (const double tolerance : {0.0, 0.02}) {
            plan::PlanOptions options;
            options.flow = flow;
            options.capacities = &capacities;
            options.flow_tolerance = tolerance;
            options.iterations = 50'000'000;
            const auto start = Clock::now();
            options.stop = [&] { return since(start) * 1e3 > budget_ms; };
            TRY(const plan::PlanReport report, plan::plan(cluster, shape, options));
            std::printf(
                "  %s tolerance %.2f: flow %.2f of at most %.2f (gap %.1f %%), depth %.1f, %s; "
                "%.2f s; full graph "
                "%.1f us, evaluator %.2f us\n",
                partial ? "partial" : "exact  ", tolerance, report.max_flow_tokens_per_s,
                report.upper_bound_tokens_per_s, report.gap * 100, report.mean_depth,
                report.method.c_str(), since(start), full_us, quick_us);
        }
    }
    return base::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    const int budget_ms = argc > 1 ? std::atoi(argv[1]) : 1000;
    const struct {
        const char* cluster;
        const char* model;
        const char* mix;
    } cases[] = {{"single24", "llama2-70b", "single24"},
                 {"distributed24", "llama2-70b", "single24"},
                 {"highhet42", "llama2-70b", "highhet42"},
                 {"single24", "llama1-30b", "single24"},
                 {"ablation10", "llama1-30b", "ablation10"}};
    for (const auto& [cluster, model, mix] : cases) {
        const auto status = bench(cluster, model, mix, budget_ms);
        if (status.ok()) continue;
        std::fprintf(stderr, "plan_bench: %s\n", status.error().message.c_str());
        return 1;
    }
    return 0;
}

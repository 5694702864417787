// Placement of generated clusters of hundreds of machines in ten regions: flow against the bound,
// time and memory, and a replan after the loss of one machine. LLaMA-2 70B in 16 bits on datasheet
// figures.
//     scale_bench [MACHINES...]     100 400 1000 if none are given
// Each line is a row of a Markdown table (docs/planning.md).

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "plan/bounds/config_bound.h"
#include "plan/problem/capacity.h"
#include "plan/problem/generate.h"
#include "plan/search/scale.h"
#include "spec/model_shape.h"
#include "spec/roofline_cost.h"

namespace {

using namespace helix;
using Clock = std::chrono::steady_clock;

constexpr std::int32_t kRegions = 10;

double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void two_threads(int n, const std::function<void(int)>& job) {
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int i = next++; i < n; i = next++) job(i);
    };
    std::thread other(work);
    work();
    other.join();
}

base::Status bench(std::int32_t machines, double gbit) {
    const spec::ClusterSpec cluster = plan::generate_cluster(machines, kRegions, 1, gbit / 8 * 1e9);
    TRY(const spec::ModelSpec model, spec::find_model("llama2-70b", spec::WeightFormat::f16));
    TRY(const spec::RooflineCost costs, spec::RooflineCost::make(cluster, model));
    const plan::CapacityTable capacities = plan::capacity_from_costs(
        cluster, model, costs, plan::Workload{}, plan::MemoryRule{.half_of_memory = true});
    const auto began = Clock::now();
    const plan::FlowOptions flow{.partial = true};
    plan::ScaleOptions options;
    options.stop = [&] { return since(began) > 50; };
    options.executor = two_threads;
    options.upper_bound = plan::config_bound({cluster, model, capacities}, {});
    const double bound_s = since(began);
    const plan::SearchResult found =
        plan::search_large({cluster, model, capacities}, flow, options);
    const double plan_s = since(began);
    std::int32_t lost = 0;
    while (found.most_flow.layers[static_cast<std::size_t>(lost)].empty()) ++lost;
    const auto again = Clock::now();
    options.stop = [&] { return since(again) > 1.8; };
    const plan::SearchResult repaired =
        plan::repair_large({cluster, model, capacities}, flow, found.most_flow, lost, options);
    const double repair_s = since(again);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("| %d | %.0f | %.0f | %.0f | %.1f %% | %.2f | %.1f | %.0f | %.2f | %ld MB |\n",
                machines, gbit, found.flow, options.upper_bound,
                100 * (1 - found.flow / options.upper_bound), bound_s, plan_s, repaired.flow,
                repair_s, usage.ru_maxrss / 1024);
    std::fflush(stdout);
    return base::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::int32_t> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
    if (sizes.empty()) sizes = {100, 400, 1000};
    std::printf(
        "| machines | Gbit/s between regions | flow | bound | gap | bound s | plan s | flow after "
        "a loss | replan s | "
        "memory |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (const std::int32_t machines : sizes) {
        for (const double gbit : {10.0, 1.0}) {
            const base::Status done = bench(std::max(machines, 1), gbit);
            if (done.ok()) continue;
            std::fprintf(stderr, "scale_bench: %s\n", done.error().message.c_str());
            return 1;
        }
    }
    return 0;
}

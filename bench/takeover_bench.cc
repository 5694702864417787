// A new coordinator takes over a simulated cluster in the middle of its work: what that costs it,
// and whether anything is computed twice.
//     takeover_bench [WORKERS REQUESTS]     48 1200, 100 2500 and 200 5000 if none are given
// Workers stand in lanes of four, clients are at a gateway, and the coordinator dies when all
// requests run. Its successor is there after half a second. Each line is a row of a Markdown table
// (docs/high-availability.md): the CPU time is that of the new coordinator's steps alone, from the
// first worker that joins it until the last request is adopted. Fails when a request is not
// adopted.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "base/check.h"
#include "sim/faults/faulty_cluster.h"
#include "spec/cost_model.h"

namespace {

using namespace helix;

constexpr std::int32_t kStages = 4;
constexpr std::int32_t kLayers = 16;
constexpr std::int32_t kPromptTokens = 48;
constexpr std::int32_t kOutputTokens = 400;
constexpr double kDownSeconds = 0.5;

class DecodeCost final : public spec::CostModel {
  public:
    double layer_s(const spec::NodeSpec&, std::int32_t decodes,
                   std::int32_t prompt) const override {
        return 0.002 * (1 + 0.01 * decodes + 0.005 * prompt);
    }
};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The CPU time of a coordinator's steps.
struct Meter {
    bool on = false;
    double began = 0;
    double total_s = 0;
    double longest_s = 0;
    std::int64_t steps = 0;
    void note(bool begins) {
        if (!on) return;
        if (begins) {
            began = cpu_seconds();
            return;
        }
        const double took = cpu_seconds() - began;
        total_s += took;
        longest_s = std::max(longest_s, took);
        ++steps;
    }
};

core::CoordinatorEvent plan_lanes(const core::PlanCluster& question) {
    core::Planned planned;
    planned.plan = question.plan;
    const auto n = static_cast<std::int32_t>(question.workers.size());
    if (n % kStages != 0) return core::NotPlanned{question.plan, "not all are there"};
    constexpr std::int32_t kEach = kLayers / kStages;
    for (std::int32_t i = 0; i < n; ++i) {
        const std::int32_t stage = i % kStages;
        planned.placement.layers.push_back({stage * kEach, (stage + 1) * kEach});
        planned.flows.push_back({stage == 0 ? spec::kCoordinator : i - 1, i, 100});
        if (stage + 1 == kStages) planned.flows.push_back({i, spec::kCoordinator, 100});
    }
    return planned;
}

sim::FaultyClusterConfig config_for(std::int32_t workers, std::int32_t requests, Meter& meter) {
    sim::FaultyClusterConfig config;
    core::CoordinatorConfig& c = config.coordinator;
    c.n_layers = config.worker.n_layers = kLayers;
    c.context_length = 1024;
    c.vocab_size = config.vocab;
    c.max_waiting = c.max_running = 2 * requests;
    c.min_workers = workers;
    c.expected_output_tokens = kOutputTokens;
    c.policy.prefill_target_s = 60;
    c.balance.enabled = false;
    config.worker.coordinator_wait = base::from_seconds(60);
    config.worker.max_batch_seqs = requests;
    config.fault_seed = 1;
    config.check_invariants = false;
    config.gateways = 1;
    config.gateway_rules.max_waiting = static_cast<std::size_t>(requests);
    config.on_step = [&meter](bool begins) { meter.note(begins); };
    return config;
}

std::int64_t running_tokens(const sim::FaultyCluster& world) {
    std::int64_t begun = 0;
    for (const auto& [id, outcome] : world.outcomes()) begun += outcome.tokens.empty() ? 0 : 1;
    return begun;
}

bool bench(std::int32_t workers, std::int32_t requests) {
    Meter meter;
    const DecodeCost cost;
    sim::FaultyCluster world(config_for(workers, requests, meter), plan_lanes, cost);
    spec::NodeSpec node;
    const std::int64_t pages = std::int64_t{kLayers} / kStages * 40 * kStages * requests / workers;
    for (std::int32_t i = 0; i < workers; ++i) {
        node.name = fmt::format("w{}", i);
        world.add_worker(node, pages);
    }
    world.run_for(3);
    for (std::int32_t i = 0; i < requests; ++i) {
        core::Request request;
        for (std::int32_t at = 0; at < kPromptTokens; ++at)
            request.prompt.push_back((i * 31 + at * 7) % 1000);
        request.max_tokens = kOutputTokens;
        request.sampling.seed = static_cast<std::uint64_t>(i);
        world.submit(std::move(request));
    }
    for (int i = 0; running_tokens(world) < requests; ++i) {
        CHECK(i < 6000);
        world.run_for(0.1);
    }
    const std::int64_t recomputed = world.counts().recomputed_tokens;
    world.kill_coordinator(0.1);
    world.run_for(kDownSeconds);
    meter.on = true;
    world.start_coordinator();
    const core::TimePoint began = world.now();
    while (world.counts().adopted < requests && (world.now() - began).seconds() < 30) {
        world.run_for(0.01);
    }
    meter.on = false;
    const sim::FaultCounts counts = world.counts();
    fmt::print("| {} | {} | {} | {} | {:.2f} | {:.2f} | {:.1f} | {} |\n", workers, requests,
               counts.adopted, counts.recomputed_tokens - recomputed,
               (world.now() - began).seconds(), meter.total_s, meter.longest_s * 1e3, meter.steps);
    std::fflush(stdout);
    return counts.adopted == requests && counts.recomputed_tokens == recomputed;
}

}  // namespace

int main(int argc, char** argv) {
    fmt::print(
        "| workers | requests | adopted | tokens computed again | s in the cluster's time | CPU s "
        "of "
        "the new coordinator | longest step, ms | steps |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    if (argc == 3) {
        const std::int32_t workers = std::atoi(argv[1]);
        if (workers > 0 && workers % kStages == 0)
            return bench(workers, std::atoi(argv[2])) ? 0 : 1;
        fmt::print(stderr, "WORKERS is {}, expected a multiple of {}\n", argv[1], kStages);
        return 2;
    }
    bool well = true;
    for (const std::int32_t workers : {48, 100, 200}) {
        well = bench(workers, workers * 25) && well;
    }
    return well ? 0 : 1;
}

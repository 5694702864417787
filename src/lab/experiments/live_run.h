#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "sim/report/latency_stats.h"
#include "sim/throughput/helix_run.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/roofline_cost.h"

// Runs for the experiments on requests that move (Llumnix' claims): equal machines, each with the
// whole model, under load that comes in bursts. All policy is core's.

namespace helix::lab {

// Equal machines of the catalogue; links of 10 Gb/s and 0.1 ms between all of them.
struct LiveCluster {
    spec::ClusterSpec cluster;
    spec::ModelSpec model;
    std::unique_ptr<spec::RooflineCost> costs;
    double kv_tokens = 0;  // of one machine
};
// mean_context: of a decode, for its cost.
base::Result<LiveCluster> live_cluster(std::int32_t machines, const std::string& type,
                                       const std::string& model, double mean_context);

// Lengths whose logarithms fall off evenly (a Pareto distribution cut at most): their mean is
// mean, the shortest is mean / 16.
struct PowerLaw {
    double mean = 256;
    double most = 4096;
};
// Always the same rows for equal arguments.
sim::LengthSource power_law_lengths(const PowerLaw& prompt, const PowerLaw& output);

// Arrivals with gamma distributed gaps. cv: their standard deviation over their mean.
struct LiveStream {
    double requests_per_s = 1;
    double cv = 1;
    std::int32_t priority = 0;
    double begin_s = 0;
    double end_s = 600;
    std::uint64_t seed = 0;
};
std::vector<sim::Arrival> live_arrivals(const sim::LengthSource& lengths, const LiveStream& stream);
// In the order of time.
std::vector<sim::Arrival> together(std::vector<sim::Arrival> a, const std::vector<sim::Arrival>& b);

struct LiveCase {
    const LiveCluster* cluster = nullptr;
    std::vector<sim::Arrival> arrivals;
    double warmup_s = 60;  // requests that arrive in it do not count
    double duration_s = 600;
    // Instead of one cluster: machines with a queue of their own, requests dealt to them in turn
    // when they come, as round robin in front of separate servers does. Of one machine.
    const LiveCluster* own_queues = nullptr;
    bool priorities = true;  // false: all are served alike
    std::string router = "helix";
    core::BalanceConfig balance;
    bool as_llumnix = false;  // requests move as Llumnix is published (balance_as_llumnix)
    std::optional<core::AutoScaleConfig> scale;
    std::int32_t machines_at_first = 0;  // with scale
    double start_delay_s = 0;
    double disk_bytes_per_s = 0;
    std::uint64_t seed = 0;
};

// Of the requests that came in the window.
struct LiveLatencies {
    sim::LatencyStats ttft;
    sim::LatencyStats tpot;   // each token
    sim::LatencyStats stall;  // of each request the longest time between two tokens
    sim::LatencyStats total;  // to the last token
};

struct LiveSample {
    double at_s = 0;           // of the load
    double free = 0;           // share of all KV memory
    double freest = 0;         // tokens free at the freest machine
    std::int32_t waiting = 0;  // requests without a place
    double head = 0;           // tokens that the first of them needs at once
    std::int32_t rented = 0;   // machines
};

struct LiveResult {
    std::string error;  // it could not run; the rest means nothing
    sim::SimReport report;
    std::array<LiveLatencies, 2> by_priority;  // normal, high
    LiveLatencies all;
    LiveLatencies longest;         // of the twentieth of requests with the longest prompts
    std::uint64_t requests = 0;    // that came in the window
    std::uint64_t unfinished = 0;  // of them, when it ended
    std::uint64_t preempted = 0;   // times that one of them was
    double lost_s = 0;             // from the last token before a preemption to the next one after
    double lost_tokens = 0;        // computed again
    std::vector<LiveSample> samples;  // one a second
};

LiveResult run_live(const LiveCase& wanted);
// On so many threads; 0: as many as the machine has.
std::vector<LiveResult> run_all(const std::vector<LiveCase>& wanted, int threads,
                                const std::function<void(const std::string&)>& say);

}  // namespace helix::lab

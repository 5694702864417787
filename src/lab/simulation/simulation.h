#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/protocol/worker_config.h"
#include "core/routing/router_catalogue.h"
#include "lab/problem/problem.h"
#include "lab/simulation/run_watch.h"
#include "lab/simulation/simulated_load.h"
#include "sim/published/reference_setup.h"
#include "sim/report/report.h"
#include "sim/throughput/peak_search.h"
#include "spec/placement_file.h"

// One run of a cluster in virtual time, or the search for its peak: what `helix simulate` does.

namespace helix::lab {

// What is the same under either policy.
struct SimulationTask {
    SimulatedLoad load;      // a search for the peak takes only its lengths, seed and arrivals
    bool find_peak = false;  // only search the highest rate that the cluster keeps up with
    WatchOptions watch;
    // For a report: where the placement is from, and what the scheduler is called.
    std::string placement;
    std::string scheduler;
};

// Called on the thread that simulates; either may be empty.
struct SimulationProgress {
    std::function<void(const sim::PeakProgress&)> peak;
    std::function<void(double done_s, double total_s)> run;  // of virtual time
};

// What a run came to: of a search only the peak.
struct Simulated {
    sim::SimReport report;
    std::optional<sim::Peak> peak;
};
// For standard output: a table for people, or one JSON object.
std::string describe(const Simulated& simulated, bool json);

// The rules of the published simulator.
struct PublishedRules {
    std::string layout;  // a layout's file, or a published run's replay
    sim::ReferenceScheduler scheduler = sim::ReferenceScheduler::max_flow;
    bool beyond_tables = false;  // separate pipelines hold more layers than the tables cover
    sim::ReferenceBatching batching;
};
// The problem has measured tables.
base::Result<Simulated> simulate_published(const Problem& problem, const PublishedRules& rules,
                                           const SimulationTask& task,
                                           const SimulationProgress& progress);

// What `helix serve` runs.
struct OwnRules {
    core::RouterKind scheduler;
    std::int32_t pipeline_groups = 0;  // most groups that decodes travel in; 0: as serve does it
    bool balance = true;               // running requests move to machines with more memory
    bool moves_as_llumnix = false;     // they do so as Llumnix is published
    std::optional<core::PromptsFirst> as_vllm = {};  // as in work_as_vllm(); absent: our own order
    std::optional<double> disk_bytes_per_s;  // machines load their layers first; absent: at once
};
// A layout with flows: of read_simulated_layout() and add_flows(), or the planner's.
base::Result<Simulated> simulate_own(const Problem& problem, spec::PlacementFile layout,
                                     const OwnRules& rules, const SimulationTask& task,
                                     const SimulationProgress& progress);

}  // namespace helix::lab

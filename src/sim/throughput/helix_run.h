#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "core/worker/worker.h"
#include "sim/load/load.h"
#include "sim/report/observer.h"
#include "sim/report/report.h"
#include "sim/throughput/costed_compute.h"
#include "spec/cluster_spec.h"
#include "spec/cost_model.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

// Our own policy in virtual time: the very core::Coordinator and core::Worker that node runs, on
// modelled machines and links, under load. What FaultyCluster is to faults, this is to throughput:
// it holds no activations and samples nothing, so that a day on many machines takes minutes.

namespace helix::sim {

// Workers of a simulated cluster report every 2 s: reports cost the simulator more than the
// program.
inline core::WorkerConfig simulated_worker() {
    core::WorkerConfig config;
    config.report_interval = base::from_seconds(2);
    return config;
}

struct HelixSetup {
    // Both must outlive the run.
    const spec::ClusterSpec* cluster = nullptr;
    const spec::CostModel* costs = nullptr;
    spec::ModelSpec model;
    spec::Placement placement;
    // What the router follows; links without flow are for routers that follow none.
    std::vector<spec::LinkFlow> flows;
    std::vector<double> kv_tokens;  // per node: context of all its layers with KV that fits
    // Per node: how fast it loads its layers' weights; 0 = at once. Empty: all do.
    std::vector<double> disk_bytes_per_s{};
    // Nodes of the placement that are not there at first; the coordinator may ask for them
    // (CoordinatorConfig::scale). One joins so long after it was asked for, then loads its layers.
    std::vector<std::int32_t> spares{};
    double start_delay_s = 0;
    // The most that KV which moves may take of a link, besides half of it (`--migration-rate`).
    double migration_bytes_per_s = 1e9;
    BatchOverheads overheads;
    core::CoordinatorConfig coordinator;  // layers, context, block size and seed are set by the run
    core::WorkerConfig worker = simulated_worker();
    double max_flow_tokens_per_s = 0;

    LengthSource lengths;
    std::optional<OnlineLoad> online;  // without it: offline
    OfflineLoad offline;               // there is room while no request waits for any
    double warmup_s = 60;
    double duration_s = 600;
    bool until_done = false;  // online: end once every request has ended, if before the window does
    std::function<bool()> stop{};  // asked now and then: the run is given up, with an error
    std::uint64_t seed = 0;
    bool check_invariants = false;  // after every step; slow
    // Told of everything if not null; must outlive the run. Transfers are told when they arrive, KV
    // in pages and as the workers report it.
    Observer* observer = nullptr;
};

// When load begins: a second after the slowest machine has loaded, rounded up, as the reference
// does it. By then the placement is in force.
double helix_start_s(const HelixSetup& setup);

using SimProgress = std::function<void(double done_s, double total_s)>;

// The same figures as run_reference(); latencies count from a request's arrival at the coordinator.
// Errors: a placement or flows that do not serve, nodes without KV memory, arrivals without a rate;
// unavailable: it was stopped.
base::Result<SimReport> run_helix(const HelixSetup& setup, const SimProgress& progress = {});

}  // namespace helix::sim

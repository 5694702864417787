#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/load/api_client.h"
#include "lab/load/bench_load.h"
#include "lab/load/load_report.h"
#include "lab/load/load_run.h"
#include "lab/load/simulated_twin.h"
#include "spec/profile_tables.h"

// A load measured on a cluster beside the same load in the simulator.

namespace helix::lab {

struct TwinSettings {
    std::string profiles;  // folder of measured tables
    std::string model;     // whose they are
    std::int32_t block_size = 16;
    double time_scale = 1;
    double link_bytes_per_s = 2e9;
    std::optional<double> link_latency_s;  // absent: lone requests tell it, and the answers' delay
    double answer_delay_s = 0;
};

// What the simulator says of a cluster that serves.
struct Twin {
    spec::ProfileTables tables;
    ServedCluster cluster;
    TwinOptions options;
};

// Puts a load on the client's server, and returns when it is over.
using Measure = std::function<LoadResult(const LoadPlan&)>;

// Asks the server what it is, and measures what a hop costs there. Errors: a cluster that does not
// serve, machines or a model that the tables do not know; unavailable when it was interrupted.
base::Result<Twin> prepare_twin(const TwinSettings& settings, ApiClient& client,
                                const Measure& measure);

// One run of a cluster under load is one of many that might have been: of several worlds whose
// threads wake up at other times, the median is what to expect of it.
base::Result<std::vector<Comparison>> compare_with_worlds(Twin& twin, const BenchLoad& load,
                                                          const LoadReport& measured,
                                                          const ServiceGoal& goal);

}  // namespace helix::lab

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "sim/load/load.h"

// What `helix simulate` asks of a cluster, from its options.

namespace helix::cli {

struct LoadArguments {
    std::string lengths;
    std::string length_order = "auto";
    bool offline = false;
    bool online = false;
    std::int32_t population = 0;
    double rate = 0;
    std::string load;  // "75%" of the peak
    std::string arrivals = "auto";
    double burstiness = 2;
    std::string arrival_counts;
    std::string trace;
    double trace_speed = 1;
    std::string warmup = "60s";
    std::string duration;  // "" = 600s, or all of the trace
    std::uint64_t seed = 0;

    void add_to(CLI::App& command);
};

struct SimulatedLoad {
    sim::LengthSource lengths;
    std::optional<sim::OnlineLoad> online;  // without it: offline
    // Above 0: the rate of `online` is to become this share of the cluster's peak; until then it
    // is a rate of no meaning.
    double peak_share = 0;
    double warmup_s = 0;
    double duration_s = 0;
    std::int32_t population = 0;  // offline, 0 = the policy's own
    std::uint64_t seed = 0;
    std::string described;  // for a report
};

// Errors name the option or the file.
base::Result<SimulatedLoad> read_load(const LoadArguments& arguments);

}  // namespace helix::cli

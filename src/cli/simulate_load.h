#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "lab/simulation/simulated_load.h"

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

// Errors name the option or the file.
base::Result<lab::SimulatedLoad> read_load(const LoadArguments& arguments);

}  // namespace helix::cli

#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "lab/simulation/simulated_load.h"

namespace helix::lab {

// What is asked of a simulated cluster, in words: quantities as people write them (spec/units.h).
struct LoadChoice {
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
};

// Reads the files that are named. Errors name the file, or the option of `helix simulate`.
base::Result<SimulatedLoad> read_load(const LoadChoice& choice);

}  // namespace helix::lab

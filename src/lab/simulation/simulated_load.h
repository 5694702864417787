#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/load/load.h"
#include "sim/published/reference_setup.h"
#include "sim/throughput/helix_run.h"

namespace helix::lab {

// What is asked of a simulated cluster.
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

// Baselines keep a constant population: as many requests as fill 70 % of the layer with least KV
// memory, at the mean length of setup.lengths.
std::int32_t default_population(const sim::ReferenceSetup& setup);

// Lengths, arrivals, window and seed; the published policy also takes its KV rules by them.
void put_under_load(sim::HelixSetup& setup, const SimulatedLoad& load);
void put_under_load(sim::ReferenceSetup& setup, const SimulatedLoad& load);

}  // namespace helix::lab

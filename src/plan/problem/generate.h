#pragma once

#include <cstdint>

#include "spec/cluster_spec.h"

namespace helix::plan {

// A cluster for tests of scale: `machines` (> 0) of the seven types of the paper's
// high-heterogeneity cluster in nearly its proportions (A100, V100, L4, L4x2, T4, T4x2, T4x4),
// dealt at random to `regions` (> 0) of equal size; a network card of 10 GB/s each; links between
// all pairs: 1.25 GB/s +- 10 % and 1 ms inside a region, between_bytes_per_s +- 20 % and 40 to 60
// ms between two and to the coordinator. The same arguments give the same cluster.
spec::ClusterSpec generate_cluster(std::int32_t machines, std::int32_t regions, std::uint64_t seed,
                                   double between_bytes_per_s = 0.125e9);

}  // namespace helix::plan

#pragma once

#include <algorithm>
#include <cstdint>

namespace helix::core {

// The most KV bytes per second that a worker sends to others beside its rows, where
// `--migration-rate` does not say. compute_threads is the number of its engine's threads, which
// share their cores with the copying; 0: it computes elsewhere. To send or receive 1 GB took 0.43 s
// of one core (Zen 4, loopback), so that a worker that does both all the time loses about 5 % of
// its engine's cores.
inline double most_migration_rate(std::int32_t compute_threads) {
    constexpr double kMost = 1e9;
    constexpr double kOfOneThread = 6e7;
    return compute_threads > 0 ? std::min(kMost, kOfOneThread * compute_threads) : kMost;
}

// Bytes of KV per second that a worker sends to another: at most most_bytes_per_s (0: it did not
// say), and at most half of what was measured of the link (0: not measured).
inline double migration_rate(double most_bytes_per_s, double link_bytes_per_s) {
    constexpr double kUnmeasured = 1e8;
    const double most = most_bytes_per_s > 0 ? most_bytes_per_s : most_migration_rate(0);
    return std::min(most, link_bytes_per_s > 0 ? link_bytes_per_s / 2 : kUnmeasured);
}

}  // namespace helix::core

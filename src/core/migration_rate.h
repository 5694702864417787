#pragma once

#include <algorithm>

namespace helix::core {

// Bytes of KV that a worker sends another per second, beside its rows: as it was told to, else half
// of what was measured of the link, at most 1 GB/s; 100 MB/s where nothing was measured. 0: not
// told, not measured.
inline double migration_rate(double told_bytes_per_s, double link_bytes_per_s) {
    constexpr double kMost = 1e9;
    constexpr double kUnmeasured = 1e8;
    if (told_bytes_per_s > 0) return told_bytes_per_s;
    if (link_bytes_per_s > 0) return std::min(kMost, link_bytes_per_s / 2);
    return kUnmeasured;
}

}  // namespace helix::core

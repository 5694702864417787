#pragma once

#include <algorithm>
#include <cmath>

namespace helix::spec {

// Returns the share of a KV memory that its requests may be expected to take: high_water, and more
// where many run. What n requests take in the end differs from what was expected of them by some
// 1 / sqrt n of it, so the more they are, the less is kept free: 1 - 0.7 / sqrt n is above 0.9 from
// 50 requests on.
inline double kv_fill(double high_water, double requests) {
    constexpr double kSpread = 0.7;
    if (requests <= 1) return high_water;
    return std::max(high_water, 1 - kSpread / std::sqrt(requests));
}

}  // namespace helix::spec

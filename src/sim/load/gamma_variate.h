#pragma once

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace helix::sim {

// A gamma variate of mean `shape` (Marsaglia and Tsang 2000), on normal variates of Box and Muller
// (1958). Random has uniform(), from [0, 1).
template <typename Random>
double draw_gamma(double shape, Random& random) {
    CHECK(shape > 0);
    if (shape < 1) {
        const double power = std::pow(1 - random.uniform(), 1 / shape);
        return draw_gamma(shape + 1, random) * power;
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
        const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
        const double x = radius * std::cos(2 * std::numbers::pi * random.uniform());
        const double v = std::pow(1 + c * x, 3);
        if (v <= 0) continue;
        if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
            return d * v;
        }
    }
}

}  // namespace helix::sim

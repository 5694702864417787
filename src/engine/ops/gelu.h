#pragma once

#include <cstdint>

#include "engine/ops/memory.h"

namespace helix::engine::ops {

// x = gelu(x) = x * Phi(x), Phi the distribution function of a normal distribution: exact, and not
// as approximated by tanh (ops/geglu.h). It is max(x, 0) - |x| * Q(|x|), where the tail Q(a) is
//     t * exp(-a^2 / 2 + P(t)), t = 1 / (1 + a / 4),
// with a polynomial P of degree 9, within 4e-8 of the logarithm for a up to 13; from 14 on a is 14.
struct Gelu {
    Buffer& x;  // [rows, width]
    std::int64_t rows = 0;
    std::int64_t width = 0;
};

}  // namespace helix::engine::ops

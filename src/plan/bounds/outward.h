#pragma once

#include <bit>
#include <cstdint>
#include <limits>

// Arithmetic whose results are bounds, for proofs that rounding must not break.
//
// Of IEEE 754 doubles one operation gives the double that is nearest to what is exact. What is
// exact therefore lies between the two neighbours of what it gives, and each function here returns
// one of them: `_up` never less than the exact result of the operation on its arguments, `_down`
// never more. That holds where numbers get too large or too small, too: above the greatest double
// there is infinity, and below infinity the greatest double. Sums of bounds of one kind are bounds
// of it, and so are products of those that are not negative, and of any with an exact number that
// is not.

namespace helix::plan {

// The next double upwards; infinity stays.
inline double above(double x) {
    if (!(x < std::numeric_limits<double>::infinity())) return x;
    if (x == 0) return std::numeric_limits<double>::denorm_min();
    const auto bits = std::bit_cast<std::int64_t>(x);
    return std::bit_cast<double>(x > 0 ? bits + 1 : bits - 1);
}
inline double below(double x) {
    return -above(-x);
}

inline double add_up(double a, double b) {
    return above(a + b);
}
inline double add_down(double a, double b) {
    return below(a + b);
}
inline double subtract_up(double a, double b) {
    return above(a - b);
}
inline double subtract_down(double a, double b) {
    return below(a - b);
}
inline double multiply_up(double a, double b) {
    return above(a * b);
}
inline double multiply_down(double a, double b) {
    return below(a * b);
}
inline double divide_up(double a, double b) {
    return above(a / b);
}
inline double divide_down(double a, double b) {
    return below(a / b);
}

}  // namespace helix::plan

#pragma once

#include <compare>
#include <cstdint>

// Time as a value: integer nanoseconds, so that the simulator and the runtime share one type and
// equal seeds give equal runs. Nothing here reads a clock (node does, and passes the value in).

namespace helix::base {

struct Duration {
    std::int64_t ns = 0;
    constexpr auto operator<=>(const Duration&) const = default;
    constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
    constexpr double ms() const { return static_cast<double>(ns) * 1e-6; }
};

struct TimePoint {
    std::int64_t ns = 0;  // since an origin that the world chooses
    constexpr auto operator<=>(const TimePoint&) const = default;
};

constexpr Duration from_seconds(double s) {
    return {static_cast<std::int64_t>(s * 1e9)};
}
constexpr Duration from_ms(double ms) {
    return {static_cast<std::int64_t>(ms * 1e6)};
}
constexpr Duration operator-(TimePoint a, TimePoint b) {
    return {a.ns - b.ns};
}
constexpr TimePoint operator+(TimePoint t, Duration d) {
    return {t.ns + d.ns};
}
constexpr TimePoint operator-(TimePoint t, Duration d) {
    return {t.ns - d.ns};
}
constexpr Duration operator+(Duration a, Duration b) {
    return {a.ns + b.ns};
}
constexpr Duration operator*(Duration d, std::int64_t k) {
    return {d.ns * k};
}

}  // namespace helix::base

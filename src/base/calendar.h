#pragma once

#include <chrono>
#include <cstdint>

// The time of day of this machine, which people may set back. For rooms that meet the world; policy
// is given its time (base/time.h).

namespace helix::base {

// Nanoseconds since the beginning of 1970.
inline std::int64_t calendar_ns() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}
inline std::int64_t calendar_us() {
    return calendar_ns() / 1000;
}

}  // namespace helix::base

#pragma once

#include <chrono>

#include "base/time.h"

namespace helix::node {

// The one clock of a process. Its origin means nothing to other processes.
inline base::TimePoint now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()};
}

}  // namespace helix::node

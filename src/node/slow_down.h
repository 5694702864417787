#pragma once

#include <optional>

#include "base/time.h"

namespace helix::node {

// How long a batch takes on a machine that is slowed down to a share of its speed (above 0, at most
// 1). took: by the clock on the wall; computed_s: seconds that its thread itself computed, where
// one thread did all the work. What other processes took of the core is in `took` alone: it delays
// the batch where it is longer than the pause, but is no work that a slower machine would take
// longer for.
base::Duration slowed_down(base::Duration took, std::optional<double> computed_s, double speed);

// Seconds that this thread has computed.
double thread_cpu_s();

}  // namespace helix::node

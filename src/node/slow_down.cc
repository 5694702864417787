#include "node/slow_down.h"

#include <algorithm>
#include <ctime>

#include "base/check.h"

namespace helix::node {

base::Duration slowed_down(base::Duration took, std::optional<double> computed_s, double speed) {
    CHECK(speed > 0 && speed <= 1);
    return std::max(took, base::from_seconds(computed_s.value_or(took.seconds()) / speed));
}

double thread_cpu_s() {
    timespec now{};
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace helix::node

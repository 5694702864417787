#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "engine/device/device.h"
#include "engine/device/memory.h"

namespace helix::engine::measure {

// Of one call: the median of some runs of many calls each.
struct Timing {
    double seconds = 0;
    double spread = 0;  // half the distance of the quartiles, as a share of the median
    int runs = 0;
};

// calls(n) makes n calls and waits until the device has done them. The first calls warm up (shaders
// are compiled then, and clocks rise) and do not count; then so many are made in a run that waiting
// does not count either. Takes about budget_s and up to 0.3 s before, more where two calls take
// longer.
base::Result<Timing> time_calls(double budget_s,
                                const std::function<base::Status(std::int64_t n)>& calls);

// Until everything that was called before is done.
base::Status wait_for(Device& device, const Buffer& buffer);

}  // namespace helix::engine::measure

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/backend/provider.h"

namespace helix::engine {

// A device of this machine that a worker is to compute with, and its memory.
struct MemoryWish {
    std::string device;  // as --device names it
    DeviceMemory memory;
    std::int64_t asked_bytes = 0;  // that its worker was told to take; 0: nothing was said
};

// What each worker takes for weights and KV pages: what was asked, else what its device offers.
// Those that use this machine's memory (`host`) divide what it offers less what was asked of it:
// evenly, but none gets more than its device offers. invalid: more is asked than is free, or
// nothing is left for one; names the device, what was asked and what is free.
base::Result<std::vector<std::int64_t>> share_memory(const std::vector<MemoryWish>& wishes,
                                                     const DeviceMemory& host);

}  // namespace helix::engine

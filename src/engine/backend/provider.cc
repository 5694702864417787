#include "engine/backend/provider.h"

#include "base/machine.h"

namespace helix::engine {

DeviceMemory host_memory() {
    const base::Allowance allowance = base::process_allowance();
    return {allowance.memory_bytes, allowance.memory_bound, allowance.memory_bytes / 5 * 4};
}

}  // namespace helix::engine

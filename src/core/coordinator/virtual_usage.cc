#include "core/coordinator/virtual_usage.h"

#include <limits>

#include "base/check.h"

namespace helix::core {

double virtual_usage(const Usage& usage, const Headroom& headroom) {
    if (usage.kind == UsageKind::draining) return std::numeric_limits<double>::infinity();
    if (usage.kind == UsageKind::queued) return 0;
    const auto own = static_cast<double>(usage.tokens) * static_cast<double>(usage.layers);
    if (usage.kind == UsageKind::head_of_line || !usage.high) return own;
    CHECK(headroom.requests > 0);
    return own + static_cast<double>(headroom.room) / static_cast<double>(headroom.requests);
}

}  // namespace helix::core

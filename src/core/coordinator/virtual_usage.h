#pragma once

#include <cstdint>

#include "core/protocol/types.h"

namespace helix::core {

// Where a request stands, as far as a node's memory is concerned.
enum class UsageKind : std::uint8_t {
    running,
    head_of_line,  // waits, and is the next to start
    queued,        // waits behind it
    draining,      // not a request: the node is being emptied
};

// What a request has in a node's KV memory, or asks for, in tokens of so many of its layers.
struct Usage {
    UsageKind kind = UsageKind::running;
    std::int64_t tokens = 0;
    std::int32_t layers = 0;  // of its stage: what it takes is tokens x layers
    std::int32_t sequences = 1;
    bool high = false;  // of high priority
};

// Room that a node's requests of high priority are to have beside them, in tokens x layers; those
// that run there now share it.
struct Headroom {
    std::int64_t room = 0;
    std::int64_t requests = 0;
};

// What the request counts for in the node's memory, in tokens x layers (Llumnix
// 4.4.1): what it has; the demand of the one that waits first, so that balance makes room for it,
// and nothing of those behind it; of one of high priority its part of the headroom as well, so that
// others keep away from it; infinitely much of a node that is being emptied, so that all leaves.
double virtual_usage(const Usage& usage, const Headroom& headroom);

}  // namespace helix::core

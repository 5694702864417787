#pragma once

#include <cstdint>

#include "core/protocol/types.h"

namespace helix::core {

// Where a request stands, as far as a node's memory is concerned.
enum class UsageKind : std::uint8_t {
    running,
    head_of_line,  // it waits, and is the next to start
    queued,        // it waits behind that one
    draining,      // this is no request: the node is being emptied
};

// Usage is what a request has in a node's KV memory, or asks for, in tokens of this many of its
// layers.
struct Usage {
    UsageKind kind = UsageKind::running;
    std::int64_t tokens = 0;
    std::int32_t layers = 0;  // of its stage, which takes tokens x layers
    std::int32_t sequences = 1;
    bool high = false;  // it is of high priority
};

// Headroom is the room that a node's requests of high priority are to have beside them, in tokens x
// layers. Those that run there now share it.
struct Headroom {
    std::int64_t room = 0;
    std::int64_t requests = 0;
};

// Returns what the request counts for in the node's memory, in tokens x layers (Llumnix 4.4.1). A
// running request counts what it has. The one that waits first counts its demand, so that balance
// makes room for it, and those behind it nothing. A request of high priority counts its part of the
// headroom as well, so that others keep away from it. A node that is being emptied counts
// infinitely much, so that all leaves.
double virtual_usage(const Usage& usage, const Headroom& headroom);

}  // namespace helix::core

#pragma once

#include <string>

#include "core/coordinator.h"
#include "core/worker.h"

namespace helix::core {

// What must hold after every event; empty when it does, else which rule is broken and where. Tests
// and simulations call it after each step.
std::string broken_invariant(const Coordinator& coordinator);
std::string broken_invariant(const Worker& worker);

}  // namespace helix::core

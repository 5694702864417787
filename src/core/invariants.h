#pragma once

#include <string>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/worker/worker.h"

namespace helix::core {

// Checks what must hold after every event. Empty when all of it holds, else which rule is broken
// and where. Tests and simulations call it after each step.
std::string broken_invariant(const Coordinator& coordinator);
std::string broken_invariant(const Worker& worker);

// Checks what must hold besides when no request has been in the system for a while: nothing is
// held, and coordinator and worker agree on what the worker has. Empty, or what is wrong.
std::string held_when_idle(const Coordinator& coordinator);
std::string held_when_idle(const Worker& worker);
std::string ledgers_differ(const Coordinator& coordinator, WorkerId id, const Worker& worker);

// Requests that run where only prompts are computed, could move to a path that has room now, and do
// not move: they are tried again after a pause. Simulations bound how long one stays in this list.
std::vector<RequestId> handovers_due(const Coordinator& coordinator);

}  // namespace helix::core

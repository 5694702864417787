#pragma once

#include <string>
#include <string_view>

#include "core/protocol/coordinator_actions.h"
#include "core/protocol/worker_actions.h"

namespace helix::core {

// One line for logs and golden traces: "route request 3 over w0[0,4) w1[4,8)", "batch 2: r1 decode
// @17 ...".
std::string describe(const CoordinatorAction& action);
std::string describe(const WorkerAction& action);
std::string describe(const Pipeline& pipeline);

// The name of the enumerator.
std::string_view name_of(MigrationReason reason);
std::string_view name_of(MigrationPhase phase);
std::string_view name_of(RouteReason reason);

}  // namespace helix::core

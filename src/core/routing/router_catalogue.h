#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/routing/request_router.h"

namespace helix::core {

struct RouterKind {
    std::string name;          // as --scheduler takes it
    std::string description;   // one line
    bool beyond_plan = false;  // also takes links that the plan does not use
    RouterFactory make;
};

// The routers of this program, each in one file of core/routing/routers/.
RouterKind max_flow_router();
RouterKind swarm_router();
RouterKind random_router();
RouterKind shortest_queue_router();
RouterKind separate_router();
RouterKind freest_router();
RouterKind llumnix_router();

// Returns all routers. A new one is one more line in router_catalogue.cc.
const std::vector<RouterKind>& router_kinds();

// Finds a router by its name. For an unknown name the error lists the names there are.
base::Result<RouterKind> find_router(const std::string& name);

// Returns what --help prints: a line "name: description" for each router.
std::string list_routers();

}  // namespace helix::core

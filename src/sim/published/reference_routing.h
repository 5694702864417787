#pragma once

#include <memory>

#include "sim/published/reference_world.h"

// The routing policies of the published simulator. To add one, implement ReferenceRouting in a file
// of its own and name it in make_routing().

namespace helix::sim {

std::unique_ptr<ReferenceRouting> make_routing(ReferenceWorld& world);

std::unique_ptr<ReferenceRouting> make_max_flow_routing(ReferenceWorld& world);
std::unique_ptr<ReferenceRouting> make_swarm_routing(ReferenceWorld& world);
// Random, or random among the free links whose node has the shortest queue before its first layer.
std::unique_ptr<ReferenceRouting> make_random_routing(ReferenceWorld& world, bool shortest_queue);

// What the greedy policies may reserve on a link now; at most 10 bytes/s counts as busy.
constexpr double kSlowestLinkBytesPerS = 10;
double free_bandwidth(const ReferenceWorld& world, std::int32_t link);

}  // namespace helix::sim

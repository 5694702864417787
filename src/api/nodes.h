#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/coordinator/coordinator.h"

// The machines of the cluster, for those who look after them: GET /helix/nodes and
// POST /helix/nodes/NAME/{drain,undrain,remove}.

namespace helix::api {

// The state of a worker: "serving", "loading", "idle" (it has no layers), "draining", "drained",
// "removing" or "removed".
std::string node_state(const core::WorkerView& worker);

// The body of GET /helix/nodes. data has the workers that are here, drained_away the names of
// others that stay drained.
nlohmann::json nodes_json(const core::ClusterView& view);

// The worker of this name, or null.
const core::WorkerView* find_node(const core::ClusterView& view, std::string_view name);

// Whether a worker was drained, is not here, and will be drained when it comes back.
bool is_drained_away(const core::ClusterView& view, std::string_view name);

// What a path below /helix/nodes/ asks for.
struct NodeCall {
    std::string name;
    std::string action;
};
// Parses "NAME/drain", percent-encoded; none if it is no such path.
std::optional<NodeCall> parse_node_call(std::string_view path);
// The event for a call; none for an unknown action.
std::optional<core::DrainWorker> drain_event(core::WorkerId worker, std::string_view action);

}  // namespace helix::api

#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/coordinator/coordinator.h"

namespace helix::api {

// What happened in a cluster.
struct ClusterEvent {
    // "joined", "lost", "removed", "draining", "drained", "undrained" or "placement".
    std::string what;
    core::WorkerId worker;    // not of a placement
    std::string name;         // the worker's
    std::uint64_t epoch = 0;  // of a placement
};

// Its members but for what it is called.
nlohmann::json event_json(const ClusterEvent& event);

// Tells by two views in a row what happened to workers and placement between them.
class WorkerWatch {
  public:
    std::vector<ClusterEvent> see(const core::ClusterView& view);

  private:
    struct Known {
        std::string name;
        std::string state;
        std::uint64_t incarnation = 0;
    };
    std::map<core::WorkerId, Known> workers_;
    std::uint64_t epoch_ = 0;
};

}  // namespace helix::api

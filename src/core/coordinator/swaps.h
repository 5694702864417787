#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/stage_sender.h"

namespace helix::core {

// Swaps knows the requests whose KV pages are in host memory, and the room that they take there.
class Swaps {
  public:
    Swaps(const CoordinatorConfig& config, Fleet& fleet, const KvDemand& demand,
          const StageSender& stages, RequestTable& requests)
        : config_(config), fleet_(fleet), demand_(demand), stages_(stages), requests_(requests) {}

    bool can_swap_out(const RequestState& state) const;
    // Says whether the workers of the pipeline have room for what it holds.
    bool fits(const RequestState& state, const Pipeline& pipeline) const;
    void end_swap(RequestState& state);  // it is on its way in, or leaves its pipeline
    void repeat_swap_in(TimePoint now);

    void swap_out(RequestState& state);
    // Tells the request's workers to bring it back.
    void tell_back(TimePoint now, const RequestState& state);
    void forget(RequestId id) { swapped_in_.erase(id); }
    const std::map<QueueKey, RequestId>& all() const { return swapped_; }
    // Returns what does not add up, in words, or nothing if all does.
    std::string check() const;

  private:
    std::int64_t pages_swapped(const RequestState& state, const Stage& stage) const;

    const CoordinatorConfig& config_;
    Fleet& fleet_;
    const KvDemand& demand_;
    const StageSender& stages_;
    RequestTable& requests_;
    std::map<QueueKey, RequestId> swapped_;  // they come back before any of the waiting starts
    // Those that run again, and when their workers were told so last.
    std::map<RequestId, TimePoint> swapped_in_;
};

}  // namespace helix::core

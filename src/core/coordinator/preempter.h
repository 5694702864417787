#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/swaps.h"
#include "core/coordinator/token_flow.h"

namespace helix::core {

// Preempter says who gives KV pages back when a worker has none left, how, and how it comes back.
class Preempter {
  public:
    Preempter(const CoordinatorConfig& config, const Fleet& fleet, RequestTable& requests,
              const Room& room, Speculation& speculation, Swaps& swaps, Migrations& migrations,
              RequestLife& life, TokenFlow& tokens)
        : config_(config),
          fleet_(fleet),
          requests_(requests),
          room_(room),
          speculation_(speculation),
          swaps_(swaps),
          migrations_(migrations),
          life_(life),
          tokens_(tokens) {}

    void on_stuck(TimePoint now, WorkerId worker, const SequenceStuck& message);
    void swap_in(TimePoint now);

    // A new step begins.
    void begin_step() { preempted_in_step_ = swapped_in_in_step_ = false; }
    // Says whether a request was preempted in this step; then nothing is started or swapped in for
    // the rest of it.
    bool preempted_in_step() const { return preempted_in_step_; }
    std::optional<TimePoint> last_at(WorkerId worker) const;
    void forget(WorkerId worker) { last_preemption_.erase(worker); }
    std::int64_t preemptions() const { return preemptions_; }
    std::string check() const;

  private:
    void preempt_one(TimePoint now, WorkerId worker);
    void set_back(RequestState& state);
    void swap_out(RequestState& state);

    const CoordinatorConfig& config_;
    const Fleet& fleet_;
    RequestTable& requests_;
    const Room& room_;
    Speculation& speculation_;
    Swaps& swaps_;
    Migrations& migrations_;
    RequestLife& life_;
    TokenFlow& tokens_;
    std::map<WorkerId, TimePoint> last_preemption_;
    bool preempted_in_step_ = false;
    bool swapped_in_in_step_ = false;
    std::int64_t preemptions_ = 0;
};

}  // namespace helix::core

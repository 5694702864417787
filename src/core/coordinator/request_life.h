#pragma once

#include <cstdint>
#include <string>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fleet.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/migrations.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/prefix_routing.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/roles.h"
#include "core/coordinator/room.h"
#include "core/coordinator/speculation.h"
#include "core/coordinator/stage_sender.h"
#include "core/coordinator/suspects.h"
#include "core/coordinator/swaps.h"

namespace helix::core {

// RequestLife has what happens to a request as a whole: it starts on a pipeline, leaves it, goes
// back to the queue, and ends.
class RequestLife {
  public:
    RequestLife(Outbox& out, Fleet& fleet, RequestTable& requests, AdmissionQueue& queue,
                PromptWindow& prompts, const Placements& placements, const Room& room,
                KvDemand& demand, PrefixRouting& prefixes, StageSender& stages,
                Speculation& speculation, Roles& roles, Suspects& suspects, Swaps& swaps,
                Migrations& migrations)
        : out_(out),
          fleet_(fleet),
          requests_(requests),
          queue_(queue),
          prompts_(prompts),
          placements_(placements),
          room_(room),
          demand_(demand),
          prefixes_(prefixes),
          stages_(stages),
          speculation_(speculation),
          roles_(roles),
          suspects_(suspects),
          swaps_(swaps),
          migrations_(migrations) {}

    void reject(RequestId id, RejectReason reason, const std::string& message);
    void start(TimePoint now, RequestState& state, Path path);
    // The waiting request runs from now on as this attempt on this pipeline, whose workers are
    // charged for it. path is its way in the router's graph, or empty.
    void begin_attempt(TimePoint now, RequestState& state, std::uint32_t attempt, Pipeline pipeline,
                       Path path);
    // The request goes back to its place in the queue, to be computed anew.
    void restart(RequestState& state, RouteReason reason);
    void restart_without_prefix(RequestState& state);
    // The request's pipeline is broken, and the request goes back to its place in the queue.
    void fail_over(TimePoint now, RequestState& state, RouteReason reason);
    // The request ends, because its answer is whole or because its client said so (Ended).
    void finish(RequestId id, FinishReason reason);
    // The request ends because it failed; error says why in words for the client.
    void fail(RequestId id, FinishReason reason, FailureCause cause, const std::string& error);

    // A request was refused before anything was promised, and before it was in the table.
    void note_rejected() { ++rejected_; }
    std::int64_t failovers() const { return failovers_; }
    std::int64_t finished() const { return finished_; }
    std::int64_t failed() const { return failed_; }
    std::int64_t rejected() const { return rejected_; }

  private:
    void end(RequestId id, FinishReason reason, FailureCause cause, const std::string& error);
    // Takes the request off its pipeline and tells the workers that are left.
    void leave_pipeline(RequestState& state);
    // Adds to the first rows of an attempt what a group needs.
    static void begin_group(RequestState& state, StageInput& input);

    Outbox& out_;
    Fleet& fleet_;
    RequestTable& requests_;
    AdmissionQueue& queue_;
    PromptWindow& prompts_;
    const Placements& placements_;
    const Room& room_;
    KvDemand& demand_;
    PrefixRouting& prefixes_;
    StageSender& stages_;
    Speculation& speculation_;
    Roles& roles_;
    Suspects& suspects_;
    Swaps& swaps_;
    Migrations& migrations_;
    std::int64_t failovers_ = 0;
    std::int64_t finished_ = 0;
    std::int64_t failed_ = 0;
    std::int64_t rejected_ = 0;
};

}  // namespace helix::core

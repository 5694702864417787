#pragma once

#include <cstdint>

#include "core/coordinator/admission_queue.h"
#include "core/coordinator/adoption.h"
#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/kv_demand.h"
#include "core/coordinator/outbox.h"
#include "core/coordinator/path_choice.h"
#include "core/coordinator/placements.h"
#include "core/coordinator/preempter.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/request_life.h"
#include "core/coordinator/request_table.h"
#include "core/coordinator/room.h"
#include "core/coordinator/stalls.h"
#include "core/coordinator/suspects.h"
#include "core/coordinator/swaps.h"
#include "core/coordinator/token_flow.h"

namespace helix::core {

// Dispatcher takes requests from the queue into the pipelines: it says which are accepted and which
// start now.
class Dispatcher {
  public:
    Dispatcher(const CoordinatorConfig& config, Outbox& out, RequestTable& requests,
               AdmissionQueue& queue, PromptWindow& prompts, const Placements& placements,
               const Room& room, const KvDemand& demand, Suspects& suspects, const Swaps& swaps,
               PathChoice& paths, RequestLife& life, TokenFlow& tokens, Preempter& preempter,
               Stalls& stalls, Adoption& adoption)
        : config_(config),
          out_(out),
          requests_(requests),
          queue_(queue),
          prompts_(prompts),
          placements_(placements),
          room_(room),
          demand_(demand),
          suspects_(suspects),
          swaps_(swaps),
          paths_(paths),
          life_(life),
          tokens_(tokens),
          preempter_(preempter),
          stalls_(stalls),
          adoption_(adoption) {}

    void on(TimePoint now, const Submitted& event);
    void dispatch(TimePoint now);

  private:
    // Waits as a request that an earlier coordinator has accepted, with what its client has got.
    void resume(RequestState state, const Begun& begun);
    // Requests that ran under the coordinator before this one go on where their KV is, before
    // anything takes its place.
    void adopt(TimePoint now, std::int64_t capacity_now, std::int64_t lasting);
    // Accepts or rejects a request at its first turn. Returns false when it was rejected.
    bool admit(RequestState& state, std::int64_t capacity_now);
    // The suspect that has a place kept for it goes before all others, who may wait for that place.
    void start_suspect(TimePoint now, std::int64_t capacity_now, std::int64_t lasting);

    const CoordinatorConfig& config_;
    Outbox& out_;
    RequestTable& requests_;
    AdmissionQueue& queue_;
    PromptWindow& prompts_;
    const Placements& placements_;
    const Room& room_;
    const KvDemand& demand_;
    Suspects& suspects_;
    const Swaps& swaps_;
    PathChoice& paths_;
    RequestLife& life_;
    TokenFlow& tokens_;
    Preempter& preempter_;
    Stalls& stalls_;
    Adoption& adoption_;
};

}  // namespace helix::core

#pragma once

#include <string>

#include "core/coordinator/coordinator.h"

namespace helix::sim {

// What the clients of a simulated cluster see, and nothing else.
class ClientWatch {
  public:
    virtual ~ClientWatch() = default;
    virtual void submitted(core::TimePoint now, const core::Request& request) = 0;
    virtual void cancelled(core::TimePoint now, core::RequestId id) = 0;
    virtual void accepted(core::TimePoint now, core::RequestId id) = 0;
    virtual void rejected(core::TimePoint now, const core::RejectRequest& what) = 0;
    virtual void scored(core::TimePoint now, const core::ScoreTokens& scored) = 0;
    virtual void token(core::TimePoint now, const core::StreamToken& token) = 0;
    virtual void choice_finished(core::TimePoint now, const core::FinishChoice& what) = 0;
    // The connection broke: the coordinator has died, or is not there.
    virtual void cut_off(core::TimePoint now, core::RequestId id) = 0;
    // A worker that lies takes part in it from now on; wrong_draws: and may draw wrong tokens.
    virtual void touched(core::RequestId /*id*/, bool /*wrong_draws*/) {}
    // A worker that it ran on died, or is taken for dead.
    virtual void worker_lost(core::RequestId /*id*/) {}
    virtual void finished(core::TimePoint now, const core::FinishRequest& what) = 0;
};

}  // namespace helix::sim

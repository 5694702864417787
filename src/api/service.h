#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/plan_figures.h"
#include "base/result.h"
#include "core/coordinator/coordinator.h"
#include "spec/layer_range.h"
#include "spec/sampling_params.h"

// The seam between the HTTP side and whatever produces tokens (node::CoordinatorServer; a fake in
// tests).

namespace helix::api {

// Hears what becomes of a request. It is called on the service's thread, in order, and never after
// on_finish or on_reject. Implementations must be quick and must not call back into the service.
class TokenSink {
  public:
    virtual ~TokenSink() = default;
    // The request will get an answer: it is queued or running. Called at most once, and before
    // everything else but on_reject.
    virtual void on_accepted() {}
    // choice is below Request::n.
    virtual void on_token(std::int32_t choice, const core::ProducedToken& token) = 0;
    // The log-probabilities of the prompt's next tokens: position 1 and so on.
    virtual void on_scored(const std::vector<core::ProducedToken>& /*tokens*/) {}
    // The prompt's embedding, where one is wanted; on_finish follows, and no token comes.
    virtual void on_embedding(const std::vector<float>& /*values*/) {}
    // One of several choices has ended; a request of one sequence only says on_finish.
    virtual void on_choice_finish(std::int32_t choice, core::FinishReason reason) = 0;
    virtual void on_finish(core::FinishReason reason, const std::string& error) = 0;
    virtual void on_reject(const core::RejectRequest& rejection) = 0;
    // An attempt begins: its number, why it does, its pipeline, and how many tokens of the prompt
    // (or, after a preemption, of what there is of prompt and answer) need not be computed.
    virtual void on_routed(const core::RequestRouted& routed) = 0;
};

class Service {
  public:
    virtual ~Service() = default;
    // Any thread. The id in request is ignored; the one used is returned.
    virtual core::RequestId submit(core::Request request, std::shared_ptr<TokenSink> sink) = 0;
    // Any thread. The sink hears nothing after this returns, unless on_finish has already begun.
    virtual void end(core::RequestId id, core::FinishReason reason) = 0;
    // Any thread. Ends only this choice of several; the sink may hear of it a last time.
    virtual void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) = 0;
    // Any thread. Drains a worker, which view() shows; a service without workers has none to drain.
    virtual void drain(const core::DrainWorker& /*event*/) {}
    // Any thread. Has these workers, by their names, hold these layers and all others none; what
    // runs goes on as with every new placement. view() shows when it is in force; what the cluster
    // cannot have is not put in force, and the log says why. Error denied: it is not decided here.
    virtual base::Status place(const std::map<std::string, spec::LayerRange>& /*layers*/) {
        return base::Error{base::Errc::denied, "this service places no layers"};
    }
    // Any thread. Moves a running request to another pipeline, if one has room; view() shows it.
    virtual void move(core::RequestId /*id*/) {}
    // Any thread. From now on watcher is told of stages' work for requests that are timed, on the
    // service's thread; an empty one ends that. It is not called any more when this has returned.
    // As with sinks, it must be quick and must not call back into the service.
    using StageWatcher = std::function<void(const core::StageTimed&)>;
    virtual void watch_stages(StageWatcher /*watcher*/) {}
    // Any thread; at most a second old.
    virtual core::ClusterView view() = 0;
    // Any thread. What this service waits for that view() does not tell, in a sentence; empty =
    // nothing. No request should come until then.
    virtual std::string why_not_ready() { return {}; }
    // Any thread. What was planned, when the placement in force is one that was planned here; it is
    // no older than view().
    virtual std::optional<PlanFigures> plan_figures() { return {}; }
    // Any thread. What view() says of it, without a copy of all that it says.
    virtual std::int64_t capacity_tokens() { return view().capacity_tokens; }
};

}  // namespace helix::api

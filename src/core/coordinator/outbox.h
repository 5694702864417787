#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/protocol/coordinator_actions.h"
#include "core/protocol/messages.h"

namespace helix::core {

// Outbox takes what one step of the coordinator says: its actions, in order, and rows for first
// stages, of which each worker gets one message when the step ends.
class Outbox {
  public:
    // A step begins. Its actions are added to these until it ends.
    void begin(TimePoint now, std::vector<CoordinatorAction>& actions) {
        now_ = now;
        actions_ = &actions;
    }
    void end();

    // Returns the time of the step under way, or of the last one.
    TimePoint now() const { return now_; }

    void push(CoordinatorAction action) {
        CHECK(actions_ != nullptr);  // only within a step
        actions_->push_back(std::move(action));
    }
    void to_worker(WorkerId worker, WorkerMessage message) {
        push(SendToWorker{worker, std::move(message)});
    }
    // Returns the action that says scored tokens of this request. What one message brought goes
    // into one action.
    ScoreTokens& scores_of(RequestId id);

    // The result is valid until the next rows to this worker.
    StageInput& add_rows(WorkerId first_stage, StageInput rows);
    template <typename Which>
    // Drops rows that were added in this step.
    void drop_unsent(WorkerId first_stage, const Which& which) {
        const auto box = rows_.find(first_stage);
        if (box != rows_.end()) std::erase_if(box->second.inputs, which);
    }
    void forget(WorkerId worker) { rows_.erase(worker); }
    bool has_rows() const { return !rows_.empty(); }

  private:
    TimePoint now_;
    std::vector<CoordinatorAction>* actions_ = nullptr;  // null between two steps
    std::map<WorkerId, StageInputs> rows_;
};

}  // namespace helix::core

#pragma once

#include <optional>
#include <string>

#include "core/protocol/coordinator_actions.h"
#include "core/protocol/coordinator_events.h"
#include "core/protocol/worker_actions.h"
#include "sim/cluster/carrier.h"
#include "sim/cluster/sim_machine.h"

namespace helix::sim {

// Who makes something of a simulated cluster: clients, a planner, people, machines that come and
// go. What SimCluster does not perform itself goes to the driver.
class ClusterDriver {
  public:
    ClusterDriver() = default;
    ClusterDriver(const ClusterDriver&) = delete;
    ClusterDriver& operator=(const ClusterDriver&) = delete;
    virtual ~ClusterDriver() = default;

    // A rule that does not hold; empty: all do.
    virtual void check(const std::string& broken) = 0;

    // ---- answers
    virtual core::CoordinatorEvent plan(const core::PlanCluster& question) = 0;
    virtual std::optional<core::Drafted> draft(const core::ProposeDrafts& question) = 0;

    // ---- what the coordinator tells clients, people and operators
    virtual void on(const core::AcceptRequest& action) = 0;
    virtual void on(const core::RejectRequest& action) = 0;
    virtual void on(const core::RequestRouted& action) = 0;
    virtual void on(const core::ScoreTokens& action) = 0;
    virtual void on(const core::EmbedPrompt& action) = 0;
    virtual void on(const core::StreamToken& action) = 0;
    virtual void on(const core::FinishChoice& action) = 0;
    virtual void on(const core::FinishRequest& action) = 0;
    virtual void on(const core::ForgetDrafts& action) = 0;
    virtual void on(const core::MigrationEnded& action) = 0;
    virtual void on(const core::WorkerDrained& action) = 0;
    virtual void on(const core::AddWorker& action) = 0;
    virtual void on(const core::CutOffWorker& action) = 0;
    virtual void on(const core::Report& action) = 0;
    virtual void on(const core::StageTimed& action) = 0;

    // ---- what may be watched, and faults that happen there
    virtual void before_step(const core::CoordinatorEvent& /*event*/) {}
    virtual void after_step(const core::CoordinatorEvent& /*event*/) {}
    virtual void asked(const core::CoordinatorAction& /*action*/) {}
    virtual void asked(const SimMachine& /*machine*/, const core::WorkerAction& /*action*/) {}
    // The coordinator sends this to the machine.
    virtual void sends(SimMachine& /*machine*/, const core::WorkerMessage& /*message*/) {}
    // The machine says this to the coordinator, or what the driver makes of it; false: it is
    // silent.
    virtual bool says(SimMachine& /*machine*/, core::CoordinatorMessage& /*message*/) {
        return true;
    }
    // Such a message has come to the coordinator; false: it does not listen to that incarnation.
    virtual bool hears(SimMachine& /*machine*/, const SimMessage& /*message*/) { return true; }
    // A coordinator that was replaced does this, though nobody may be led by it any more.
    virtual void former_does(std::uint64_t /*term*/, const core::CoordinatorAction& /*action*/) {}
    // A message of another machine has come; false: nobody is there to take it.
    virtual bool takes(SimMachine& machine, const SimMessage& message) {
        return machine.alive() && machine.incarnation == message.incarnation;
    }
    // False: it never ends.
    virtual bool begins_batch(SimMachine& /*machine*/, const core::BatchPlan& /*plan*/) {
        return true;
    }
    virtual void batch_begun(SimMachine& /*machine*/, const core::BatchPlan& /*plan*/,
                             base::TimePoint /*end*/) {}
    virtual void batch_ended(SimMachine& /*machine*/) {}
};

}  // namespace helix::sim

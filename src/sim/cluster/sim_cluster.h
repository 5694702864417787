#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/worker/worker.h"
#include "sim/cluster/carrier.h"
#include "sim/cluster/cluster_driver.h"
#include "sim/cluster/compute.h"
#include "sim/cluster/sim_machine.h"
#include "sim/cluster/virtual_clock.h"

namespace helix::sim {

struct SimClusterConfig {
    core::CoordinatorConfig coordinator;
    core::WorkerConfig worker;
    // Until the planner and the draft model answer; none: within the step that asks.
    std::optional<double> plan_s = {};
    std::optional<double> draft_s = {};
    bool check_invariants = false;  // after every step; slow when workers have many pages
    // Called when a step of the coordinator begins (true) and when it has ended: for a stopwatch.
    std::function<void(bool)> on_step = {};
};

// The same Coordinator and Worker that node runs, under virtual time: steps them, and performs all
// that they ask for. What computes and what carries messages is given, and so is the driver, which
// gets all that is not for machines. Single-threaded and deterministic.
//
// As in node, a worker has sessions: the coordinator listens to one incarnation at a time.
class SimCluster {
  public:
    // All of them must outlive the cluster.
    SimCluster(const SimClusterConfig& config, VirtualClock& clock, Compute& compute,
               Carrier& carrier, ClusterDriver& driver);
    SimCluster(const SimCluster&) = delete;
    SimCluster& operator=(const SimCluster&) = delete;
    ~SimCluster() = default;

    // A machine more; it gets its id and must outlive the cluster. It is down.
    void add(SimMachine& machine);
    void start(SimMachine& machine);   // a new incarnation, of which the coordinator does not know
    void stop(SimMachine& machine);    // at once; what it has sent is still under way
    void resume(SimMachine& machine);  // the last of its pauses is over

    // The event's step, and all that it asks for. Nothing happens while the coordinator is down, or
    // to a worker's incarnation that is not there any more.
    void tell(const core::CoordinatorEvent& event);
    void tell(const SimMachine& machine, std::uint64_t incarnation, const core::WorkerEvent& event);
    void tick_workers();  // those that are let in and do not stand still

    // Nobody is there until start_coordinator(), and that one begins with the config.
    void kill_coordinator(const core::CoordinatorConfig& next);
    void start_coordinator() { coordinator_up_ = true; }
    bool coordinator_up() const { return coordinator_up_; }
    // Each coordinator's is one above that of the one before, which has died or was replaced.
    std::uint64_t term() const { return term_; }
    // While it is down, one that never was told anything.
    const core::Coordinator& coordinator() const { return coordinator_; }

    // A coordinator that was replaced and lives. It stands still until it is back; then it goes on
    // with what it believes, and hears what was said to it meanwhile.
    struct Former {
        enum class State { stands_still, acts, stopped };
        core::Coordinator coordinator;
        State state = State::stands_still;
        std::map<core::WorkerId, std::uint64_t> sessions;  // the incarnations that it listens to
        std::map<core::WorkerId, base::TimePoint> last_heard;
        std::vector<SimMessage> inbox;
    };
    // As kill_coordinator, but the process is there.
    void replace_coordinator(const core::CoordinatorConfig& next);
    const std::map<std::uint64_t, Former>& formers() const { return formers_; }  // by term
    void bring_back(std::uint64_t term);
    void stop_former(std::uint64_t term);  // for good: it has heard of a later one
    // Time goes on for those that act. Whom they have not heard for so long they give up; 0: never.
    void tick_formers(double silent_limit_s);

  private:
    void arrive(SimMessage&& message);
    void expect(const SimMessage& message, int step) const;
    static void expect_batch(const SimMachine& machine, int step);
    bool is_led_by(const SimMachine& machine, std::uint64_t term);
    void arrive_at_former(Former& former, SimMessage message);
    void tell_former(std::uint64_t term, const core::CoordinatorEvent& event);

    // One for each of core's actions: a new one does not compile without.
    void carry_out(core::SendToWorker action);
    void carry_out(core::PlanCluster question);
    void carry_out(const core::ProposeDrafts& question);
    template <typename Action>
    void carry_out(const Action& action) {
        driver_.on(action);
    }
    void carry_out(SimMachine& machine, const core::ConnectPeers& action);
    void carry_out(SimMachine& machine, const core::LoadLayers& action);
    void carry_out(SimMachine& machine, const core::RunBatch& action);
    void carry_out(SimMachine& machine, core::SendToPeer action);
    void carry_out(SimMachine& machine, core::SendToCoordinator action);
    void carry_out(SimMachine& machine, const core::ReleaseBuffer& action);
    void carry_out(SimMachine& machine, core::ExportKv action);
    void carry_out(SimMachine& machine, core::ImportKv action);
    void carry_out(SimMachine& machine, const core::WakeAt& action);
    void end_export(SimMachine& machine, const core::ExportKv& action, Rows content);

    SimClusterConfig config_;
    VirtualClock& clock_;
    Compute& compute_;
    Carrier& carrier_;
    ClusterDriver& driver_;
    core::Coordinator coordinator_;
    bool coordinator_up_ = true;
    std::uint64_t term_ = 1;
    std::map<std::uint64_t, Former> formers_;
    std::vector<SimMachine*> machines_;  // by worker id
    // Memory of an earlier step's actions. A step inside a step finds none.
    std::vector<core::CoordinatorAction> spare_coordinator_actions_;
    std::vector<core::WorkerAction> spare_worker_actions_;
};

}  // namespace helix::sim

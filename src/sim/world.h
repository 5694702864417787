#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/coordinator.h"
#include "core/worker.h"
#include "sim/sim_engine.h"
#include "spec/cost_model.h"

namespace helix::sim {

struct WorldConfig {
    core::CoordinatorConfig coordinator;
    core::WorkerConfig worker;
    std::int32_t vocab = 1000;
    double link_latency_s = 0.001;
    double link_bytes_per_s = 1e9;
    double activation_bytes = 8192;  // per row
    double load_s = 0.5;             // until assigned layers are in place
    bool check_invariants = true;    // after every step; slow when workers have many pages
};

// What a request got in the end.
struct Outcome {
    std::vector<core::Token> tokens;
    bool accepted = false;
    bool ended = false;
    bool rejected = false;
    core::FinishReason reason = core::FinishReason::error;
    std::string error;
    std::vector<core::Pipeline> pipelines;  // one per attempt
    core::TimePoint submitted_at;
    core::TimePoint first_token_at;
    core::TimePoint ended_at;
};

// The same Coordinator and Worker that node runs, under virtual time: modelled links (FIFO,
// latency, bandwidth), modelled compute, machines that die and come back. Single-threaded and
// deterministic: equal calls give equal digests. Invariants are CHECKed after every step.
class World {
  public:
    using Plan = std::function<core::CoordinatorEvent(const core::PlanCluster&)>;

    // plan answers PlanCluster with Planned or NotPlanned; cost must outlive the world.
    World(const WorldConfig& config, Plan plan, const spec::CostModel& cost);
    ~World();

    // Joins now. kv_pages: pages of the pool when it holds any layers.
    core::WorkerId add_worker(const spec::NodeSpec& node, std::int64_t kv_pages);
    void kill(core::WorkerId worker);    // at once; its messages under way are lost
    void rejoin(core::WorkerId worker);  // as a new incarnation
    core::RequestId submit(core::Request request);
    void cancel(core::RequestId id);

    core::TimePoint now() const { return now_; }
    void run_for(double seconds);
    // Until every request has ended, at most so long; false when one has not.
    bool run_until_idle(double max_seconds);

    const std::map<core::RequestId, Outcome>& outcomes() const { return outcomes_; }
    core::ClusterView view() const { return coordinator_.view(); }
    const core::Worker* worker(core::WorkerId id) const;
    std::int64_t pages_in_use() const;
    // Called with a line for each action that coordinator ("c") and workers ("w0") ask for.
    void set_trace(std::function<void(const std::string&)> trace) { trace_ = std::move(trace); }
    // Of every event so far: equal for equal runs.
    std::uint64_t digest() const { return digest_; }

  private:
    struct Machine;
    struct Event;

    void at(core::TimePoint when, std::function<void()> what);
    void coordinator_event(const core::CoordinatorEvent& event);
    void worker_event(core::WorkerId id, std::uint64_t incarnation, const core::WorkerEvent& event);
    void perform(const core::CoordinatorAction& action);
    void perform(Machine& machine, const core::WorkerAction& action);
    void send(std::int32_t from, std::int32_t to, double bytes, std::function<void()> deliver);
    void deliver_rows(core::WorkerId to, std::uint64_t incarnation, core::StageInputs inputs,
                      ToyRows rows);
    void run_batch(Machine& machine, const core::BatchPlan& plan);
    void send_rows(Machine& machine, const core::SendToPeer& action);
    void schedule_ticks();
    void trace(const std::string& who, const std::string& what) const;

    WorldConfig config_;
    Plan plan_;
    const spec::CostModel& cost_;
    core::Coordinator coordinator_;
    std::map<core::WorkerId, std::unique_ptr<Machine>> machines_;
    std::map<core::RequestId, Outcome> outcomes_;
    std::map<std::pair<std::int32_t, std::int32_t>, core::TimePoint> link_free_;
    std::map<std::pair<core::TimePoint, std::uint64_t>, std::function<void()>> events_;
    std::function<void(const std::string&)> trace_;
    core::TimePoint now_;
    std::uint64_t next_event_ = 0;
    std::uint64_t next_request_ = 1;
    std::uint64_t digest_ = 0;
    std::size_t open_ = 0;
};

}  // namespace helix::sim

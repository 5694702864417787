#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster_driver.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/virtual_clock.h"
#include "sim/load/load.h"
#include "sim/load/load_random.h"
#include "sim/report/latency_stats.h"
#include "sim/report/observer.h"
#include "sim/throughput/costed_compute.h"
#include "sim/throughput/helix_run.h"
#include "sim/throughput/modelled_carrier.h"

// The cluster behind run_helix(); only its own .cc files include this.

namespace helix::sim {

using base::TimePoint;
using core::WorkerId;

// A SimCluster whose computation only costs time, over modelled links, driven by load: what
// FaultyCluster is to faults, this is to throughput.
class LoadedCluster final : private ClusterDriver {
  public:
    LoadedCluster(const HelixSetup& setup, const SimProgress& progress);
    base::Result<SimReport> run();

  private:
    struct Machine : SimMachine {
        spec::LayerRange layers;
        TimePoint rented;
        NodeBatch observed;                 // the batch that runs
        std::vector<RequestWork> followed;  // its parts that the observer follows
        double busy_s = 0;                  // in the window
        double kv_peak = 0;
    };

    struct Live {
        TimePoint arrived;
        TimePoint last_token;
        std::int32_t prompt_tokens = 0;
        bool followed = false;  // by the observer
    };

    // ---- what the cluster asks its driver
    void check(const std::string& broken) override;
    core::CoordinatorEvent plan(const core::PlanCluster& question) override;
    std::optional<core::Drafted> draft(const core::ProposeDrafts& question) override;
    void on(const core::AcceptRequest& action) override;
    void on(const core::RejectRequest& action) override;
    void on(const core::RequestRouted& action) override;
    void on(const core::ScoreTokens& action) override;
    void on(const core::EmbedPrompt& action) override;
    void on(const core::StreamToken& action) override;
    void on(const core::FinishChoice& action) override;
    void on(const core::FinishRequest& action) override;
    void on(const core::ForgetDrafts& action) override;
    void on(const core::MigrationEnded& action) override;
    void on(const core::WorkerDrained& action) override;
    void on(const core::AddWorker& action) override;
    void on(const core::CutOffWorker& action) override;
    void on(const core::StageTimed& action) override;
    void on(const core::Report& action) override;
    void sends(SimMachine& machine, const core::WorkerMessage& message) override;
    bool says(SimMachine& machine, core::CoordinatorMessage& message) override;
    void batch_begun(SimMachine& machine, const core::BatchPlan& plan, TimePoint end) override;
    void batch_ended(SimMachine& machine) override;

    static Machine& ours(SimMachine& machine) { return static_cast<Machine&>(machine); }
    TimePoint now() const { return clock_.now(); }

    // ---- machines that come and go
    Machine& add_machine(std::int32_t node);
    void join_all();
    void join(Machine& machine);
    void dismiss(WorkerId worker);
    double rented_s(TimePoint from, TimePoint until) const;  // of that, in the window

    // ---- load
    base::Status plan_arrivals(double start_s);
    void await_arrival();
    void arrive();
    void submit(RequestLength length, std::int32_t priority);
    void feed();
    void tick();
    void note_resident(std::int64_t change);
    bool in_window() const { return now() >= window_begin_ && now() <= window_end_; }
    SimReport report() const;

    // ---- for the observer, which is not null
    void tell_carried(const SimMessage& message, const ModelledCarrier::Journey& journey);
    void note_batch(Machine& machine, const core::BatchPlan& plan, TimePoint end);
    std::vector<PipelineStage> stages(const core::Pipeline& pipeline) const;

    const HelixSetup& setup_;
    const SimProgress& progress_;
    VirtualClock clock_;
    ModelledCarrier carrier_;
    CostedCompute compute_;
    std::deque<Machine> machines_;  // by worker id
    SimCluster cluster_;
    PythonRandom random_;
    LengthSource lengths_;
    std::vector<std::int32_t> worker_of_node_;
    std::vector<std::vector<spec::LinkSpec>> links_of_node_;  // that the router knows
    std::vector<std::int32_t> spares_;                        // not asked for, last first
    std::vector<Live> requests_;                              // by id
    // The attempts under which requests are being moved.
    std::map<core::RequestId, std::uint32_t> moving_;
    std::vector<Arrival> arrivals_;
    std::size_t next_arrival_ = 0;
    std::uint64_t arrivals_place_ = 0;  // of the first, among what happens at one time
    std::int64_t n_waiting_ = 0;        // arrived and not admitted
    TimePoint window_begin_;
    TimePoint window_end_;
    std::int32_t ticks_ = 0;
    double rented_s_ = 0;  // of the nodes that were dismissed, in the window
    bool serving_ = false;
    std::string trouble_;  // why no placement came into force
    LatencyStats ttft_;
    LatencyStats tpot_;
    std::uint64_t decode_tokens_ = 0;
    std::uint64_t prompt_tokens_ = 0;
    std::uint64_t stages_ = 0;
    std::int64_t n_resident_ = 0;
    TimePoint resident_since_;
    double resident_s_ = 0;
    SimReport counts_;
};

// How long a node takes to load its layers.
double loading_s(const HelixSetup& setup, std::size_t node);

}  // namespace helix::sim

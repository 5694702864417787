#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/protocol/term.h"
#include "core/worker/worker.h"
#include "node/coordinator_search.h"
#include "node/engine_thread.h"
#include "node/kept_model.h"
#include "node/kv_mover.h"
#include "node/link_probe.h"
#include "node/message_merger.h"
#include "node/peer_links.h"
#include "node/weight_links.h"
#include "node/worker_options.h"

namespace helix::node {

enum class SessionEnd {
    stopped,    // we were asked to
    lost,       // the coordinator went away or makes no sense: try again
    refused,    // trying again is useless
    dismissed,  // not needed any more
    no_device,  // it was lost, with all that it held
};
struct SessionResult {
    SessionEnd end = SessionEnd::lost;
    std::string reason;
    bool joined = false;     // it had been let in, and had measured itself
    std::uint64_t term = 0;  // the highest that it heard of; 0: none, or that one is over
};

// Who a session is.
struct SessionStart {
    std::uint64_t incarnation = 0;
    std::uint64_t term = 0;  // coordinators of a lower one are refused
};

// One incarnation of a worker, from Hello to the end. Performs the actions of a core::Worker. A
// session outlives its coordinator: what runs goes on as far as it can, and the next coordinator,
// if one is found within WorkerOptions::coordinator_wait, is told what is held and goes on with it.
// When the session ends, all requests and KV that it held are gone; `kept` has the weights for the
// next one.
class WorkerSession {
  public:
    // find looks for the coordinator after this one; empty: the session ends with its coordinator.
    WorkerSession(const WorkerOptions& options, CoordinatorPlace place, FindCoordinator find,
                  SessionStart start, KeptModel& kept, const net::Wakeup& wakeup,
                  const std::atomic<bool>& stopping);
    ~WorkerSession();
    WorkerSession(const WorkerSession&) = delete;
    WorkerSession& operator=(const WorkerSession&) = delete;

    SessionResult run();

  private:
    base::Status open();
    base::Status call_coordinator();
    wire::Hello make_hello() const;
    void loop();
    void end(SessionEnd how, std::string reason);
    // ---- worker_takeover.cc: from one coordinator to the next
    void on_coordinator_gone(const std::string& reason);
    void look_for_coordinator();
    void on_next_welcome(const wire::Welcome& welcome);
    void measure_new_peers(const std::vector<wire::ProbePeer>& peers);
    std::string describe_old_term(std::uint64_t term) const;
    bool is_alone() const { return alone_since_.has_value(); }
    // ----
    void take_coordinator_events();
    void receive_from_coordinator();
    void receive_from_peers();
    void exchange_weights();
    void take_engine_events();
    void on_tick();
    void tell_links();

    void on_message(wire::Message message, net::Frame payload);
    void on_welcome(const wire::Welcome& welcome);
    void tell_tensors();
    void on_profile_request(const wire::ProfileRequest& request);
    void on_profiled(const EngineProfiled& profiled);
    void probe(std::deque<std::int32_t> targets);
    void finish_probe();
    void on_ran(EngineRan ran);
    void add_inputs(core::StageInputs inputs, net::Frame payload);
    void add_blocks(core::KvBlocks blocks, net::Frame payload);
    void on_loaded(EngineLoaded loaded);
    void step(const core::WorkerEvent& event);

    void perform();
    // One for each of core's actions: a new one does not compile without.
    void carry_out(const core::ConnectPeers& action);
    void carry_out(const core::LoadLayers& action);
    void carry_out(core::RunBatch action);
    void carry_out(core::SendToPeer action);
    void carry_out(core::SendToCoordinator action);
    void carry_out(const core::ReleaseBuffer& action);
    void carry_out(core::ExportKv action);
    void carry_out(core::ImportKv action);
    void carry_out(const core::WakeAt& action);
    double migration_bytes_per_s(core::WorkerId to) const;
    void start_batch(core::BatchPlan plan);
    void flush_peers();
    void send_to_peer(core::WorkerId peer, core::StageInputs inputs);
    // Without a coordinator nothing is sent.
    void send(const wire::Message& message, const net::Frame& payload = {});
    // Called on the engine's thread.
    base::Result<std::shared_ptr<model::WeightSource>> weights();
    base::Result<std::shared_ptr<model::WeightSource>> open_weights();

    const WorkerOptions& options_;
    CoordinatorPlace place_;
    FindCoordinator find_;
    std::uint64_t incarnation_;
    core::FollowedTerm term_;
    KeptModel& kept_;
    const net::Wakeup& wakeup_;
    const std::atomic<bool>& stopping_;
    std::optional<SessionResult> result_;

    std::unique_ptr<net::DealerSocket> coordinator_;  // null while it is looked for
    // Since when there is none that has said Welcome, after there was one.
    std::optional<base::TimePoint> alone_since_;
    std::unique_ptr<CoordinatorSearch> search_;  // null while there is a coordinator to talk to
    std::unique_ptr<PeerLinks> peers_;
    std::unique_ptr<WeightLinks> weight_links_;  // null before the Welcome
    wire::SessionLimits limits_;
    wire::Hello hello_;
    std::optional<wire::Welcome> welcome_;  // the newest that was followed
    std::optional<core::Worker> worker_;
    base::TimePoint opened_;
    base::TimePoint last_tick_;

    MessageMerger inbox_;
    std::vector<core::WorkerAction> actions_;
    std::map<std::uint64_t, net::Frame> buffers_;  // rows: received frames and batch outputs
    std::uint64_t next_buffer_ = 1;
    std::vector<std::uint64_t> released_;
    std::map<core::WorkerId, core::StageInputs> to_peers_;
    core::TokensProduced produced_;  // of all that happened in this turn: one message

    std::vector<wire::ProbePeer> probe_peers_;
    wire::ProfileReport report_;
    std::optional<LinkProbe> probe_;
    bool profiled_ = false;              // the coordinator has the report
    std::set<std::int32_t> unmeasured_;  // peers that did not answer yet
    base::TimePoint last_probe_;

    std::unique_ptr<EngineThread> engine_;    // its thread uses kept_
    std::unique_ptr<KvMover> mover_;          // its thread, too
    std::optional<base::TimePoint> wake_at_;  // when a further tick is due
    double kv_bytes_per_s_ = 0;               // the most KV that it sends, once layers are loaded
};

// This machine, as Hello tells it.
std::string machine_id();

}  // namespace helix::node

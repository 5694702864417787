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

#include "core/worker/worker.h"
#include "node/engine_thread.h"
#include "node/kept_model.h"
#include "node/kv_mover.h"
#include "node/link_probe.h"
#include "node/message_merger.h"
#include "node/peer_links.h"
#include "node/weight_links.h"
#include "node/worker_options.h"

namespace helix::node {

// Where a session finds its coordinator.
struct CoordinatorPlace {
    std::shared_ptr<net::ZmqContext> context;
    std::string endpoint;                          // "tcp://host:port" or "inproc://name"
    std::string public_key;                        // Z85, empty = without CURVE
    std::string listen_endpoint;                   // for peers
    std::shared_ptr<model::WeightSource> weights;  // in the same process; null = over the wire
};

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
    bool joined = false;  // it had been let in, and had measured itself
};

// One incarnation of a worker, from Hello to the end. Performs the actions of a core::Worker. When
// it ends, all requests and KV that it held are gone; `kept` has the weights for the next one.
class WorkerSession {
  public:
    WorkerSession(const WorkerOptions& options, const CoordinatorPlace& place,
                  std::uint64_t incarnation, KeptModel& kept, const net::Wakeup& wakeup,
                  const std::atomic<bool>& stopping);
    ~WorkerSession();
    WorkerSession(const WorkerSession&) = delete;
    WorkerSession& operator=(const WorkerSession&) = delete;

    SessionResult run();

  private:
    base::Status open();
    wire::Hello make_hello() const;
    void loop();
    void end(SessionEnd how, std::string reason);
    void receive_from_coordinator();
    void receive_from_peers();
    void exchange_weights();
    void take_engine_events();
    void on_tick();
    void tell_links();

    void on_message(wire::Message message, net::Frame payload);
    void on_welcome(const wire::Welcome& welcome);
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
    void send(const wire::Message& message, const net::Frame& payload = {});
    // Called on the engine's thread.
    base::Result<std::shared_ptr<model::WeightSource>> weights();
    base::Result<std::shared_ptr<model::WeightSource>> open_weights();

    const WorkerOptions& options_;
    const CoordinatorPlace& place_;
    std::uint64_t incarnation_;
    KeptModel& kept_;
    const net::Wakeup& wakeup_;
    const std::atomic<bool>& stopping_;
    std::optional<SessionResult> result_;

    std::unique_ptr<net::DealerSocket> coordinator_;
    std::unique_ptr<PeerLinks> peers_;
    std::unique_ptr<WeightLinks> weight_links_;  // null before the Welcome
    wire::SessionLimits limits_;
    wire::Hello hello_;
    std::optional<wire::Welcome> welcome_;
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

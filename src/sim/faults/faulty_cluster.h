#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "core/coordinator/coordinator.h"
#include "core/gateway/gateway_requests.h"
#include "core/protocol/term.h"
#include "core/worker/worker.h"
#include "sim/cluster/cluster_driver.h"
#include "sim/cluster/sim_cluster.h"
#include "sim/cluster/virtual_clock.h"
#include "sim/faults/client_watch.h"
#include "sim/faults/fault_network.h"
#include "sim/faults/fault_plan.h"
#include "sim/faults/faulty_carrier.h"
#include "sim/faults/move_ledger.h"
#include "sim/faults/probes.h"
#include "sim/faults/toy_compute.h"
#include "sim/faults/toy_drafts.h"
#include "spec/cost_model.h"

namespace helix::sim {

struct FaultyClusterConfig {
    core::CoordinatorConfig coordinator;
    core::WorkerConfig worker;
    std::int32_t vocab = 1000;
    double link_latency_s = 0.001;
    double link_bytes_per_s = 1e9;
    double activation_bytes = 8192;  // per row
    double kv_page_bytes = 65536;
    double migration_bytes_per_s = 5e8;  // for KV that moves between workers
    std::int32_t kv_formats = 1;         // worker i writes its pages in format i % kv_formats
    double load_s = 0.5;                 // until assigned layers are in place
    double draft_s = 0.002;              // until the draft model answers
    double draft_right = 0.7;            // how likely each of its tokens is right
    std::int64_t swap_pages = 0;         // of a worker's host memory, for swapped KV pages
    bool check_invariants = true;        // after every step; slow when workers have many pages
    std::uint64_t fault_seed = 0;        // which messages are lost or duplicated
    double silent_limit_s = 0;           // a worker not heard of for so long is lost; 0 = never
    // A restarted worker is let in though its old session still counts: the coordinator learns of
    // the loss from the new hello. Otherwise it is told to wait until the old one is given up.
    bool hello_replaces = false;
    // Rows for a worker reach it also when it has been restarted since (it listens at the same
    // address again).
    bool peers_keep_address = false;
    // Clients are at so many gateways, which outlive coordinators: these keep their requests and
    // what they have got, and hand both to the next one. Without any they are at the coordinator,
    // and are cut off with it.
    std::int32_t gateways = 0;
    core::GatewayRules gateway_rules = {};
    // Called when a step of the coordinator begins (true) and when it has ended.
    std::function<void(bool)> on_step = {};
    // Called with the first broken rule; the cluster then stands still. Without it: CHECK.
    std::function<void(const std::string&)> on_broken = {};
};

// What a request got in the end. Where clients are at gateways there are two: what the coordinator
// made of it, under the number that it has there, and what its client heard.
struct Outcome {
    core::RequestId client;           // of the former: whose request it is,
    std::uint64_t term = 0;           // of the coordinator that has it,
    std::int32_t losses = 0;          // of workers that ran it, since its last token
    bool misdrawn = false;            // of the latter: by a worker that draws wrong
    std::vector<core::Token> tokens;  // of the first choice
    std::map<std::int32_t, std::vector<core::Token>> choices;  // of all
    std::map<std::int32_t, core::FinishReason> choices_ended;  // of a group
    std::vector<core::ProducedToken> scored;                   // of the prompt
    std::vector<float> embedding;                              // likewise
    bool is_group = false;
    std::int32_t n = 1;
    bool accepted = false;
    bool ended = false;
    bool rejected = false;
    bool cut_off = false;  // ended by the death of the coordinator, or found none
    core::FinishReason reason = core::FinishReason::error;
    core::FailureCause cause = core::FailureCause::none;  // of an accepted request
    std::string error;
    std::vector<core::Pipeline> pipelines;        // one per attempt that ran
    std::map<std::uint32_t, core::Pipeline> ran;  // likewise, under any coordinator, by attempt
    // Of these, those that a coordinator began after it was replaced. No client heard of them.
    std::set<std::uint32_t> unheard;
    std::uint32_t attempt = 0;        // that was routed last
    std::uint32_t freed_attempt = 0;  // that its workers were told to give up
    std::int32_t poison_at = -1;      // a worker that computes this position dies; < 0: none
    std::int32_t killed = 0;          // workers, by that, since its last token
    std::int64_t losses_then = 0;     // of workers, when it killed the last
    std::int32_t swaps_out = 0;       // messages to workers that put its pages away
    std::int32_t prompt_tokens = 0;
    bool has_beams = false;
    bool was_stuck = false;
    bool recomputed = false;  // from its beginning
    core::TimePoint submitted_at;
    core::TimePoint first_token_at;
    core::TimePoint ended_at;
};

// What has happened so far.
struct FaultCounts {
    std::int64_t events = 0;
    std::int64_t kills = 0;
    std::int64_t poisoned = 0;  // of these, by requests
    std::int64_t cuts = 0;
    std::int64_t pauses = 0;
    std::int64_t false_losses = 0;
    std::int64_t lost = 0;        // messages
    std::int64_t duplicated = 0;  // messages
    std::int64_t links_broken = 0;
    std::int64_t drains = 0;  // asked for, also with remove
    std::int64_t drained = 0;
    std::int64_t coordinator_kills = 0;
    std::int64_t coordinators_replaced = 0;
    std::int64_t formers_stopped = 0;  // of these: they heard of a later one
    std::int64_t former_orders = 0;    // to workers, from those that were back
    std::int64_t former_words = 0;     // to a gateway, likewise
    std::int64_t liars_cut_off = 0;
    std::int64_t cut_off = 0;  // requests that ended with the coordinator, or found none
    std::int64_t failovers = 0;
    std::int64_t recomputed_tokens = 0;  // of requests that were computed anew
    std::int64_t handed_over = 0;        // requests that a gateway gave a coordinator anew,
    std::int64_t handed_over_again = 0;  // of these: to the one that had it before
    std::int64_t adopted = 0;            // requests that went on where they ran
    std::int64_t gateway_kills = 0;
    std::int64_t gateway_cuts = 0;
    std::int64_t gateway_pauses = 0;
    std::int64_t asked_again = 0;  // requests, by clients whose gateway had died
    MoveCounts moves;
    void add(const FaultCounts& other);
};

struct GatewaySession;
// What a coordinator says to a gateway. Nothing: it is let in.
using GatewayWord = std::variant<std::monostate, core::RequestNumbers, core::RequestEvents>;

// A SimCluster that computes the toy model over a network with faults, driven by faults and by
// clients: every fault of sim/faults/fault_plan.h can happen to it, and what its clients get is
// known beforehand. Equal calls give equal digests. Invariants are checked after every step.
//
// As in node, a worker has sessions: what comes from another session than the one the coordinator
// has let in is refused, and a worker that hears so starts again as a new incarnation.
class FaultyCluster final : private ClusterDriver {
  public:
    using Plan = std::function<core::CoordinatorEvent(const core::PlanCluster&)>;

    // plan answers PlanCluster with Planned or NotPlanned; cost must outlive the cluster.
    FaultyCluster(const FaultyClusterConfig& config, Plan plan, const spec::CostModel& cost);
    ~FaultyCluster() override;

    // Joins now. kv_pages: pages of the pool when it holds any layers.
    core::WorkerId add_worker(const spec::NodeSpec& node, std::int64_t kv_pages);
    // It stops at once; what it has sent arrives while the coordinator does not know.
    void kill(core::WorkerId worker, double told_after_s = 0);
    void rejoin(core::WorkerId worker);  // as a new incarnation
    void tell(const core::CoordinatorEvent& event) { cluster_.tell(event); }  // as an operator
    void pause(core::WorkerId worker);
    void resume(core::WorkerId worker);
    void declare_lost(core::WorkerId worker);  // though it lives
    // Nobody is there until start_coordinator(), and that one knows of this one at most the
    // placement. Workers that live notice within told_after_s; those that have not when it is back
    // hear that they do not count.
    void kill_coordinator(double told_after_s);
    void start_coordinator();
    // As kill_coordinator, but the process only stands still. So long after start_coordinator() it
    // is back, and does not know that it was replaced.
    void replace_coordinator(double told_after_s, double back_after_s);
    FaultNetwork& network() { return carrier_.network(); }
    // When the batches that have begun so far are through, slow machines' too.
    core::TimePoint last_batch_end() const { return last_batch_end_; }
    // network().cut(from, to, ...) ends.
    void mend(std::int32_t from, std::int32_t to) { carrier_.mend(from, to); }
    // Each fault begins at its time and ends after its duration; times count from now.
    void run_faults(const FaultPlan& plan);
    // All faults of run_faults end now and none begins any more; everyone is up or starts again.
    void calm();

    // poison_at: each worker dies that computes this position of it; < 0: none does.
    core::RequestId submit(core::Request request, std::int32_t poison_at = -1);
    void cancel(core::RequestId id);

    core::TimePoint now() const { return clock_.now(); }
    void run_for(double seconds);
    // Until every request has ended, at most so long; false when one has not.
    bool run_until_idle(double max_seconds);

    // By what submit() returned.
    const std::map<core::RequestId, Outcome>& outcomes() const {
        return gateways_.empty() ? outcomes_ : at_clients_;
    }
    core::ClusterView view() const { return coordinator().view(); }
    const core::Worker* worker(core::WorkerId id) const;
    std::int64_t pages_in_use() const;
    // With no request in the system for a while: what is still held somewhere, or what coordinator
    // and a worker tell differently; empty when nothing.
    std::string leak() const;
    // Called with a line for each action that coordinator ("c") and workers ("w0") ask for.
    void set_trace(std::function<void(const std::string&)> trace) { trace_ = std::move(trace); }
    // Decides about every message from now on. May begin faults.
    void set_postman(std::function<Fate(const Letter&)> postman) {
        carrier_.set_postman(std::move(postman));
    }
    void set_watch(ClientWatch* watch) { watch_ = watch; }
    // Of every event so far: equal for equal runs.
    std::uint64_t digest() const { return digest_; }
    FaultCounts counts() const;
    const MoveLedger& moves() const { return moves_; }
    const Probes& probes() const { return probes_; }
    bool broken() const { return broken_; }

  private:
    struct Machine;
    struct Gateway;
    struct Client;
    struct GatewayLedger;
    static Machine& ours(SimMachine& machine);

    // ---- what the cluster asks its driver (faulty_cluster_actions.cc)
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
    void before_step(const core::CoordinatorEvent& event) override;
    void after_step(const core::CoordinatorEvent& event) override;
    void asked(const core::CoordinatorAction& action) override;
    void asked(const SimMachine& machine, const core::WorkerAction& action) override;
    void sends(SimMachine& machine, const core::WorkerMessage& message) override;
    bool says(SimMachine& machine, core::CoordinatorMessage& message) override;
    bool hears(SimMachine& machine, const SimMessage& message) override;
    void former_does(std::uint64_t term, const core::CoordinatorAction& action) override;
    bool takes(SimMachine& machine, const SimMessage& message) override;
    bool begins_batch(SimMachine& machine, const core::BatchPlan& plan) override;
    void batch_begun(SimMachine& machine, const core::BatchPlan& plan,
                     base::TimePoint end) override;

    // time (faulty_cluster.cc)
    void at(core::TimePoint when, std::function<void()> what);
    void after(double seconds, std::function<void()> what);
    const core::Coordinator& coordinator() const { return cluster_.coordinator(); }
    void worker_event(core::WorkerId id, std::uint64_t incarnation, const core::WorkerEvent& event);
    void tick();
    void check_handovers();
    void trace(const std::string& who, const std::string& what) const;

    // sessions and faults (faulty_cluster_faults.cc)
    void stop(Machine& machine);
    void start(Machine& machine);
    void hello(core::WorkerId id, std::uint64_t incarnation);
    void join(Machine& machine);
    void start_again(Machine& machine);
    void end_session(core::WorkerId id, std::uint64_t incarnation, const std::string& reason);
    void refuse(core::WorkerId id, std::uint64_t incarnation);
    void lose_silent();
    void cut_off(core::RequestId id, Outcome& outcome);
    core::CoordinatorConfig prepare_next();
    void note_coordinator_gone(double told_after_s);
    bool finds_former(const core::FollowedTerm& followed);
    bool keeps_for_next() const { return config_.worker.coordinator_wait.ns > 0; }

    void lose_coordinator(core::WorkerId id, std::uint64_t incarnation);
    void begin(const Fault& fault);
    void end(const Fault& fault);
    void tell_broken(const Fault& cut);
    void tell_down_later(std::int32_t from, std::int32_t to);
    void tell_broken(std::int32_t at, std::int32_t peer);

    // gateways (faulty_cluster_gateway.cc)
    void add_gateways();
    void start(Gateway& gateway);
    void kill(Gateway& gateway, double told_after_s);
    void resume(Gateway& gateway);
    void cut(Gateway& gateway, double told_after_s);
    void soon(const Gateway& gateway, double seconds, std::function<void()> what);
    void tick_gateways();
    void look(Gateway& gateway);
    void miss_coordinator(Gateway& gateway, double seconds);
    void send_between(const GatewaySession& session, std::int32_t from, std::int32_t to,
                      std::function<void()> deliver);
    void send_up(const GatewaySession& session, std::function<void()> deliver);
    void send_down(const GatewaySession& session, GatewayWord word);
    void arrive_at_gateway(const GatewaySession& session, const GatewayWord& word);
    void pump(Gateway& gateway);
    void let_in(const GatewaySession& session);
    void give_numbers(const GatewaySession& session);
    void arrive_from_gateway(const GatewaySession& session, const core::GatewayMessage& message);
    void begin_run(const GatewaySession& session, const core::Submitted& submitted);
    bool lose_gateway(const GatewaySession& session);
    void flush(GatewayLedger& ledger, std::uint64_t term);
    void note_adopted(const core::RequestRouted& action, Outcome& outcome);
    std::string left_at_gateways() const;
    void begin_at_gateway(const Fault& fault);
    void end_at_gateway(const Fault& fault);

    // clients at gateways (faulty_cluster_clients.cc)
    void add_client(const core::Request& request);
    void ask(core::RequestId id);
    void ask_later(core::RequestId id);
    void lose_connection(core::RequestId id);
    void close_client(core::RequestId id, core::FinishReason reason);
    void leave(core::RequestId id);
    void differ(core::RequestId id);
    core::TimePoint said() const;
    void hear(Gateway& gateway, core::RequestEvent& event);
    void hear(Client& client, Outcome& outcome, const core::AcceptRequest& event);
    void hear(Client& client, Outcome& outcome, const core::RejectRequest& event);
    void hear(Client& client, Outcome& outcome, const core::RequestRouted& event);
    void hear(Client& client, Outcome& outcome, const core::StreamToken& event);
    void hear(Client& client, Outcome& outcome, const core::ScoreTokens& event);
    void hear(Client& client, Outcome& outcome, const core::EmbedPrompt& event);
    void hear(Client& client, Outcome& outcome, const core::FinishChoice& event);
    void hear(Client& client, Outcome& outcome, const core::FinishRequest& event);
    void hear(Client& client, Outcome& outcome, const core::StageTimed& event);
    // Who sees what the coordinator says itself.
    ClientWatch* direct_watch() const { return gateways_.empty() ? watch_ : nullptr; }
    // To the gateway whose request it is. last: there will be no more of it.
    void pass_on(core::RequestId number, core::RequestEvent event, bool last = false);

    // requests that workers die of (faulty_cluster_poison.cc)
    // Does the sequence run on this worker, as far as the coordinator knows?
    bool runs_at(const Machine& machine, const core::SequenceKey& key) const;
    bool poisons(const Machine& machine, const core::BatchChunk& chunk) const;
    bool dies_of(Machine& machine, const core::BatchPlan& plan);
    void note_lost(core::WorkerId id);
    // A coordinator that was replaced may serve on until its gateways hear of the next.
    bool may_run(const Outcome& outcome) const;
    void note_losses(const Outcome& outcome);

    // workers that lie (faulty_cluster_lies.cc)
    void keep_lying(std::uint64_t fault, core::WorkerId id, double per_second);
    void begin_lies(Machine& machine, bool wrong_draws);
    void end_lies(Machine& machine, bool wrong_draws);
    void note_touched(core::RequestId id, const Outcome& outcome);
    void note_touched(core::RequestId id, const Outcome& outcome, const core::Pipeline& pipeline);
    core::StuckCause any_cause();
    core::SequenceKey any_key();
    core::ProducedToken any_token(const Machine& machine);
    core::CoordinatorMessage any_lie(const Machine& machine);
    void tell_lie(Machine& machine);
    void lie_to_peer(Machine& machine);
    std::optional<core::CoordinatorMessage> twist(Machine& machine,
                                                  core::CoordinatorMessage message);

    // moves and drains (faulty_cluster_moves.cc)
    void keep_moving(std::uint64_t fault, double per_second);
    void move_any();
    core::Pipeline any_pipeline();
    void set_drain(Machine& machine);  // as its faults want it
    void dismiss(core::WorkerId id, std::uint64_t incarnation);
    void probe_cause(core::MigrationCause cause);
    void probe_kv(const core::KvBlocks& message);
    void probe_answer(const core::CoordinatorMessage& message);

    // rare paths (faulty_cluster_actions.cc)
    void probe_tokens(const core::TokensProduced& message);
    void probe_end(const Outcome& outcome);

    FaultyClusterConfig config_;
    Plan plan_;
    VirtualClock clock_;
    Probes probes_;
    FaultyCarrier carrier_;
    ToyCompute compute_;
    std::map<core::WorkerId, std::unique_ptr<Machine>> machines_;
    SimCluster cluster_;
    std::int32_t coordinator_kills_ = 0;  // faults that keep it down
    std::optional<core::RememberedPlacement> remembered_;
    std::uint64_t first_request_ = 1;  // of this life
    std::vector<std::unique_ptr<Gateway>> gateways_;
    base::Random gateway_;  // when gateways notice and clients ask again, and where
    FaultNetwork gateway_net_;
    std::uint64_t last_session_ = 0;
    std::set<std::uint64_t> dead_sessions_;  // whose connections carry nothing more
    std::unique_ptr<GatewayLedger> ledger_;  // of the present coordinator
    std::map<std::uint64_t, std::unique_ptr<GatewayLedger>> former_ledgers_;  // by term
    // Whose the requests are that have these numbers, and what they are called at their gateways.
    std::map<core::RequestId, std::pair<core::RequestId, core::RequestId>> numbered_;
    std::map<core::RequestId, std::unique_ptr<Client>> clients_;
    std::map<core::RequestId, Outcome> at_clients_;
    std::uint64_t last_client_ = 0;
    std::optional<core::TimePoint> heard_;  // when the word was said that a gateway passes on now
    base::Random formers_;                  // who finds a coordinator that was replaced
    // Coordinators that stand still, and when they are back, after the next one is there.
    std::map<std::uint64_t, double> standing_;
    ToyDrafts drafts_;
    std::map<core::RequestId, Outcome> outcomes_;
    std::function<void(const std::string&)> trace_;
    ClientWatch* watch_ = nullptr;
    core::TimePoint last_batch_end_;
    std::uint64_t next_request_ = 1;
    std::uint64_t digest_ = 0;
    std::size_t open_ = 0;
    std::map<std::uint64_t, Fault> faults_;  // under way
    std::uint64_t next_fault_ = 0;
    std::uint64_t fault_round_ = 0;  // calm() ends one
    // Links whose senders know that they are cut.
    std::set<std::pair<std::int32_t, std::int32_t>> told_down_;
    FaultCounts counts_;
    MoveLedger moves_;
    base::Random choices_;  // which requests move, and where to
    base::Random lies_;
    std::map<core::RequestId, core::TimePoint> handover_due_since_;
    std::optional<core::WorkerId> losing_;
    bool reported_ = false;             // the step under way is of a worker's report
    std::int64_t losses_ = 0;           // of workers, as the coordinator heard
    bool lost_since_placement_ = true;  // or none yet
    bool broken_ = false;
};

}  // namespace helix::sim

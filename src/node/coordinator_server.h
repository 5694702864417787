#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/service.h"
#include "base/log_budget.h"
#include "core/gateway/gateway_roster.h"
#include "net/private_file.h"
#include "node/draft_proposer.h"
#include "node/host_workers.h"
#include "node/idle_workers.h"
#include "node/join.h"
#include "node/node_scaler.h"
#include "node/placement_keeper.h"
#include "node/planner_thread.h"
#include "node/request_sinks.h"
#include "node/served_model.h"
#include "node/weight_server.h"
#include "node/worker_options.h"
#include "node/worker_roster.h"
#include "plan/losses/takeover_bound.h"
#include "store/place.h"

namespace helix::node {

struct CoordinatorOptions {
    ServedModel model;
    core::CoordinatorConfig core;           // n_layers and context_length are taken from the model
    std::string listen_host = "127.0.0.1";  // of the cluster port; "*" = every address
    std::uint16_t listen_port = 0;          // 0 = any free one
    std::optional<net::CoordinatorKey> key;
    bool insecure = false;
    PlanFunction planner;                      // empty = planner_for(model)
    std::vector<std::string> planned_workers;  // names that planner cannot do without
    // Where the placement in force and the drains are kept for the next start; empty = they are not
    // kept. The next start takes up the placement unless planner is given, and the
    // drains but for those of planned_workers.
    store::Place state;
    std::unique_ptr<DraftModel> draft_model;   // asked when core.speculation.draft_tokens > 0
    std::vector<WorkerOptions> local_workers;  // that this process is, too
    net::TransportOptions transport;
    plan::TakeoverRule takeover;  // what is told of its own death
    // Above those of all coordinators before it (wire/messages.h); 0 = the calendar, in
    // microseconds.
    std::uint64_t term = 0;
};

// What gateways are told of the model that is served, for their clients.
struct GatewayFacts {
    std::vector<std::string> names;  // the first is what it is called
    std::int64_t created = 0;        // Unix seconds
    std::string chat_template;       // in place of the model's own; "" = its own
    std::string tool_parser;
    std::string http_endpoint;  // as in wire::GatewayWelcome
};

// Owns a core::Coordinator and performs its actions: workers and gateways on the cluster port, the
// planner, weights, and whoever submits requests through api::Service.
class CoordinatorServer final : public api::Service {
  public:
    static base::Result<std::unique_ptr<CoordinatorServer>> start(CoordinatorOptions options);
    // Open requests end with an error.
    ~CoordinatorServer() override;
    CoordinatorServer(const CoordinatorServer&) = delete;
    CoordinatorServer& operator=(const CoordinatorServer&) = delete;

    core::RequestId submit(core::Request request, std::shared_ptr<api::TokenSink> sink) override;
    void end(core::RequestId id, core::FinishReason reason) override;
    void end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) override;
    core::ClusterView view() override;
    std::optional<api::PlanFigures> plan_figures() override;
    std::int64_t capacity_tokens() override;
    void move(core::RequestId id) override { move(id, {}); }
    // Any thread. Moves a running request to this pipeline; empty: to the best other one.
    void move(core::RequestId id, core::Pipeline to);
    void drain(const core::DrainWorker& event) override;
    base::Status place(const std::map<std::string, spec::LayerRange>& layers) override;
    void watch_stages(StageWatcher watcher) override;

    // The body for GET /helix/join. Any thread.
    std::string join_json() const { return to_json(join_info_); }
    const JoinInfo& join_info() const { return join_info_; }
    // The last placement's report and the workers that its nodes are, once there is one. Any
    // thread.
    struct LastPlan {
        plan::PlanReport report;
        spec::ClusterSpec cluster;
        std::vector<core::WorkerId> workers;
    };
    std::optional<LastPlan> last_plan() const;
    // Says where more workers come from, with core.scale; until then none are added. Call it once,
    // on any thread.
    void provide_nodes(std::unique_ptr<NodeProvider> provider);
    // From now on gateways may come; before they are asked to try again. Call it once, on any
    // thread.
    void serve_gateways(GatewayFacts facts);
    std::uint64_t term() const { return term_; }
    // Where peers reach the worker of this name; "" when it is not here. Any thread.
    std::string worker_endpoint(const std::string& name) const;

  private:
    CoordinatorServer(CoordinatorOptions options, std::unique_ptr<PlacementKeeper> keeper);
    base::Status open();
    base::Status open_key_check();
    void start_local_workers();

    // ---- the loop's thread
    void run();
    void take_submissions();
    void take_plans();
    std::vector<std::int64_t> expected_pages(const core::PlanCluster& question,
                                             const spec::Placement& placement) const;
    void take_drafts();
    void add_worker();
    void on_drained(const core::WorkerDrained& drained);
    void take_not_added();
    void watch_allow_list();
    base::Status read_allow_list();
    void take_link_events();
    void log_stranger(const std::string& text);
    void receive();
    void on_message(const std::string& connection, net::Received received);
    void on_hello(const std::string& connection, const wire::Hello& hello,
                  const std::string& proven_key);
    void on_session_message(const std::string& connection, WorkerEntry& entry,
                            wire::Message message);
    void on_holding(const std::string& connection, WorkerEntry& entry, core::Holding holding);
    void on_profile(WorkerEntry& entry, const wire::ProfileReport& report);
    void refuse(const std::string& connection, const std::string& reason, bool final);
    WorkerRoster::Proven prove(const std::string& proven_key);
    bool knows_a_later_one(const std::string& connection, const std::string& who,
                           std::uint64_t term);
    // ---- gateways (coordinator_gateways.cc)
    void on_gateway_hello(const std::string& connection, const wire::GatewayHello& hello,
                          const std::string& proven_key);
    void on_gateway_message(const std::string& connection, wire::Message message);
    void on_submit(const std::string& connection, core::Submitted submitted);
    void give_numbers(const std::string& connection);
    void lose_gateway(const std::string& connection, const std::string& reason);
    void lose_gateways();
    void cut_off_gateway(const std::string& connection, const std::string& why);
    void flush_gateways();
    void show_gateways();
    bool send_to_gateway(const std::string& connection, const wire::Message& message);
    template <typename Event, typename Tell>
    void tell(const Event& event, bool last, const Tell& tell_sink);
    void give_number_to(const wire::Hello& hello);
    void share_keys();
    void on_tick();
    void cut_off(const std::string& connection, const std::string& why);
    void lose(const std::string& connection, const std::string& reason, bool left = false);
    void step(const core::CoordinatorEvent& event);
    void perform();
    void keep_placement();
    void keep_drains();
    void tell_stall_bound();
    bool is_last_plan_in_force() const;
    void take_view();
    // One for each of core's actions: a new one does not compile without.
    void carry_out(core::SendToWorker action);
    void carry_out(core::PlanCluster question);
    void carry_out(core::ProposeDrafts question);
    void carry_out(const core::ForgetDrafts& ended);
    void carry_out(const core::AddWorker& action);
    void carry_out(const core::WorkerDrained& drained);
    void carry_out(const core::CutOffWorker& liar);
    void carry_out(const core::MigrationEnded& over);
    void carry_out(const core::Report& report);
    void carry_out(const core::AcceptRequest& accepted);
    void carry_out(const core::RejectRequest& rejection);
    void carry_out(const core::RequestRouted& routed);
    void carry_out(const core::StageTimed& timed);
    void carry_out(const core::ScoreTokens& scored);
    void carry_out(const core::EmbedPrompt& embedded);
    void carry_out(const core::StreamToken& token);
    void carry_out(const core::FinishChoice& ended);
    void carry_out(const core::FinishRequest& finish);
    void flush_workers();
    base::Status send(const std::string& connection, const wire::Message& message,
                      const net::Frame& payload = {});
    void send_weights(const std::string& connection, const WeightAnswer& answer);
    void send_all_weights();
    bool is_served(const std::string& connection, core::ModelId model);
    void on_tensors_ready(const std::string& connection, core::WorkerId worker,
                          const wire::TensorsReady& ready);
    std::optional<WeightServer::Peer> weight_peer(core::WorkerId worker) const;

    CoordinatorOptions options_;
    JoinInfo join_info_;
    std::string inproc_endpoint_;
    std::string zap_domain_;
    std::shared_ptr<net::ZmqContext> context_;
    std::unique_ptr<net::RouterSocket> socket_;
    wire::SessionLimits limits_;
    net::Wakeup wakeup_;
    std::unique_ptr<PlannerThread> planner_;
    std::unique_ptr<DraftProposer> drafts_;  // null without a draft model
    std::unique_ptr<NodeScaler> scaler_;     // null until the first worker is asked for
    std::atomic<bool> stopping_{false};
    std::atomic<bool> closing_{
        false};  // from now on nothing about workers is kept for the next start
    std::uint64_t term_ = 0;
    std::atomic<std::uint64_t> next_request_;
    RequestSinks sinks_;
    core::GatewayRoster gateways_;
    std::map<std::string, std::string> gone_gateways_;  // reasons, by connection

    std::unique_ptr<PlacementKeeper> keeper_;  // null without a state
    core::Coordinator core_;
    std::uint64_t kept_epoch_ = 0;
    std::vector<core::RememberedDrain> kept_drains_;
    std::uint64_t told_epoch_ = 0;
    bool told_takeover_ = false;  // the bound of a takeover, which concerns gateways alone
    std::uint64_t plans_taken_ = 0;
    // The epoch and the plan that plan_figures_ was made of, or not made.
    std::pair<std::uint64_t, std::uint64_t> figured_;
    IdleWorkers idle_workers_;
    WorkerRoster roster_;
    std::map<std::string, std::string> allowed_;  // names of workers by public key
    std::optional<net::FileWatch> list_watch_;    // absent without keys
    base::TimePoint last_list_look_;
    std::vector<core::CoordinatorAction> actions_;
    std::map<core::WorkerId, MessageMerger> to_workers_;
    struct OwedWeights {
        std::string connection;
        WeightAnswer answer;
    };
    std::vector<OwedWeights> owed_;  // the socket was full
    WeightServer weights_{options_.model,
                          [this](core::WorkerId worker) { return weight_peer(worker); }};
    base::TimePoint began_;
    base::TimePoint last_tick_;
    base::TimePoint last_view_;
    base::LogBudget strangers_log_{30};

    mutable std::mutex mutex_;
    std::vector<core::CoordinatorEvent> submissions_;
    std::optional<NamedPlacement> chosen_;  // for the next plan
    std::optional<GatewayFacts> gateway_facts_;
    core::ClusterView view_;
    std::map<std::string, std::string> endpoints_;  // by worker name
    std::optional<LastPlan> last_plan_;
    std::optional<api::PlanFigures> plan_figures_;
    std::unique_ptr<NodeProvider> provider_;  // until it is needed
    StageWatcher stage_watcher_;

    std::unique_ptr<HostWorkers> local_workers_;  // null: this process is none
    CoordinatorPlace local_place_;
    std::thread local_thread_;
    std::thread thread_;
};

}  // namespace helix::node

// The coordinator's loop: events in, actions out.

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/check.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/overloaded.h"
#include "core/protocol/describe.h"
#include "core/protocol/term.h"
#include "node/clock.h"
#include "node/coordinator_server.h"
#include "node/plan_figures.h"
#include "spec/units.h"

namespace helix::node {

using base::Errc;
using base::Status;

namespace {

constexpr base::Duration kCoordinatorTickEvery = base::from_ms(50);
constexpr base::Duration kViewEvery = base::from_ms(250);
constexpr base::Duration kSilentLimit = base::from_ms(15000);  // a worker whose loop hangs
// Workers report twice a second; a restart need not wait for kSilentLimit.
constexpr base::Duration kReplacedAfter = base::from_ms(3000);
constexpr base::Duration kListEvery = base::from_ms(500);
constexpr int kMostClusterMessagesAtOnce = 4096;
constexpr std::size_t kMostOwed = 4096;  // pieces of weights

}  // namespace

void CoordinatorServer::run() {
    net::ZmqSocket* const socket = socket_.get();
    while (!stopping_.load()) {
        net::wait({&socket, 1}, wakeup_.fd(), last_tick_ + kCoordinatorTickEvery - now());
        wakeup_.clear();
        receive();
        take_link_events();  // after what a closed connection has still said
        lose_gateways();
        take_plans();
        take_drafts();
        take_not_added();
        take_submissions();
        if (now() - last_tick_ >= kCoordinatorTickEvery) on_tick();
        perform();
    }
    for (const auto& all : {roster_.connections(), gateways_.connections()}) {
        for (const std::string& connection : all) {
            const Status sent = send(connection, wire::Goodbye{"it is shutting down"});
            if (!sent.ok()) LOG_DEBUG("goodbye: {}", sent.error().message);
        }
    }
    socket_.reset();
}

void CoordinatorServer::step(const core::CoordinatorEvent& event) {
    core_.step(now(), event, actions_);
}

void CoordinatorServer::take_submissions() {
    std::vector<core::CoordinatorEvent> events;
    {
        const std::lock_guard lock(mutex_);
        events.swap(submissions_);
    }
    for (const core::CoordinatorEvent& event : events) {
        step(event);
        // Whoever asked for a drain looks at once how it goes.
        if (!std::holds_alternative<core::DrainWorker>(event)) continue;
        last_view_ = {};
        keep_drains();
    }
}

// Counts as the backends do: what the weights leave of the memory.
std::vector<std::int64_t> CoordinatorServer::expected_pages(
    const core::PlanCluster& question, const spec::Placement& placement) const {
    const spec::ModelSpec& model = options_.model.spec;
    const double page_bytes = static_cast<double>(model.kv_bytes_per_token_layer) *
                              static_cast<double>(options_.core.block_size);
    if (page_bytes <= 0) return {};
    std::vector<std::int64_t> pages;
    for (std::size_t i = 0; i < placement.layers.size(); ++i) {
        const core::LayerRange layers = placement.layers[i];
        const auto bytes = static_cast<double>(question.cluster.nodes[i].memory_bytes -
                                               spec::stored_bytes(model, layers));
        const bool holds = !layers.empty() && bytes > 0;
        pages.push_back(holds ? static_cast<std::int64_t>(bytes / page_bytes) : 0);
    }
    return pages;
}

void CoordinatorServer::take_plans() {
    for (PlanResult& result : planner_->take_results()) {
        const std::uint64_t number = result.question.plan;
        if (!result.report.ok()) {
            step(core::NotPlanned{number, result.report.error().message});
            continue;
        }
        for (const std::string& text : result.report->warnings) LOG_WARN("{}", text);
        const auto idle = idle_workers_.tell(result.question.cluster, options_.model.spec,
                                             result.report->placement);
        for (const std::string& text : idle) LOG_INFO("{}", text);
        step(core::Planned{number, result.report->placement, result.report->flows,
                           expected_pages(result.question, result.report->placement),
                           result.chosen});
        const std::lock_guard lock(mutex_);
        for (plan::Stall& stall : result.report->stalls) {
            stall.detection_s = options_.transport.heartbeat_timeout_ms * 1e-3;
        }
        last_plan_ = LastPlan{std::move(*result.report), std::move(result.question.cluster),
                              std::move(result.question.workers)};
        ++plans_taken_;
    }
}

void CoordinatorServer::take_drafts() {
    if (drafts_ == nullptr) return;
    for (const core::Drafted& answer : drafts_->take_answers()) step(answer);
}

void CoordinatorServer::add_worker() {
    {
        const std::lock_guard lock(mutex_);
        if (provider_ != nullptr) {
            scaler_ =
                std::make_unique<NodeScaler>(std::move(provider_), wakeup_, NodeScaler::Times{});
        }
    }
    if (scaler_ != nullptr) return scaler_->add();
    step(core::WorkerNotAdded{"nobody provides any yet"});
}

void CoordinatorServer::on_drained(const core::WorkerDrained& drained) {
    if (!drained.remove) return;
    const std::string connection = roster_.connection_of(drained.worker);
    const WorkerEntry* entry = roster_.find(connection);
    if (entry == nullptr) return;
    const Status sent = send(connection, wire::Goodbye{"it was removed", true});
    if (!sent.ok()) LOG_WARN("goodbye: {}", sent.error().message);
    if (scaler_ != nullptr) scaler_->remove(entry->hello.name);
}

void CoordinatorServer::take_not_added() {
    if (scaler_ == nullptr) return;
    for (const std::string& reason : scaler_->take_failures()) step(core::WorkerNotAdded{reason});
}

void CoordinatorServer::on_tick() {
    last_tick_ = now();
    for (const std::string& connection : roster_.silent(last_tick_, kSilentLimit)) {
        socket_->ban(connection);
        lose(connection, "stopped answering");
    }
    watch_allow_list();
    if (const std::string more = strangers_log_.take_summary(last_tick_); !more.empty()) {
        LOG_WARN("strangers at the cluster port, {}", more);
    }
    step(core::CoordinatorTick{});
    keep_drains();
    std::vector<OwedWeights> owed = std::exchange(owed_, {});
    for (const OwedWeights& one : owed) send_weights(one.connection, one.answer);
    weights_.on_tick(last_tick_);
    send_all_weights();
    if (last_tick_ - last_view_ < kViewEvery) return;
    take_view();
    show_gateways();
}

void CoordinatorServer::take_view() {
    last_view_ = last_tick_;
    core::ClusterView view = core_.view();
    view.taken = last_tick_;
    view.weight_bytes = weights_.bytes();
    const std::pair now_figured(view.epoch, plans_taken_);
    const std::lock_guard lock(mutex_);
    view_ = std::move(view);
    if (figured_ == now_figured) return;
    figured_ = now_figured;
    if (plan_figures_.has_value() && plan_figures_->epoch != view_.epoch) plan_figures_.reset();
    if (!is_last_plan_in_force()) return;  // what was not better than that in force is dropped
    plan_figures_ = plan_figures_of(last_plan_->report, last_plan_->cluster, last_plan_->workers);
    plan_figures_->epoch = view_.epoch;
}

// ---- workers
// --------------------------------------------------------------------------------------

void CoordinatorServer::watch_allow_list() {
    if (!list_watch_.has_value() || last_tick_ - last_list_look_ < kListEvery) return;
    last_list_look_ = last_tick_;
    if (!list_watch_->changed()) return;
    const Status read = read_allow_list();
    if (!read.ok()) {
        LOG_ERROR("{}; who is here stays, nobody else joins", read.error().message);
        return;
    }
    bool any = false;
    for (const std::string& connection : roster_.connections()) {
        const WorkerEntry* entry = roster_.find(connection);
        if (entry == nullptr || entry->proven_key.empty()) continue;
        const auto name = allowed_.find(entry->proven_key);
        if (name != allowed_.end() && net::is_key_for(name->second, entry->hello.name)) continue;
        any = true;
        LOG_WARN("worker {} is not on the list any more: its session ends", entry->hello.name);
        const wire::Refused refused{"its key was taken off the list", true};
        const Status sent = send(connection, refused);
        if (!sent.ok()) LOG_DEBUG("refuse: {}", sent.error().message);
        socket_->ban(connection);
        lose(connection, "was taken off the list of workers");
    }
    if (any) share_keys();
}

void CoordinatorServer::take_link_events() {
    for (const net::LinkEvent& event : socket_->take_events()) {
        if (event.kind == net::LinkEventKind::refused) {
            log_stranger("refused a connection: " + event.detail);
        } else if (event.kind == net::LinkEventKind::disconnected && !event.connection.empty()) {
            lose(event.connection, "was lost (its connection broke)");
            lose_gateway(event.connection, "was lost (its connection broke)");
        }
    }
}

// Strangers may come as often as they like, but do not fill the log.
void CoordinatorServer::log_stranger(const std::string& text) {
    if (strangers_log_.take(now())) LOG_WARN("{}", text);
}

void CoordinatorServer::receive() {
    for (int i = 0; i < kMostClusterMessagesAtOnce; ++i) {
        std::optional<net::Received> received = socket_->receive();
        if (!received.has_value()) return;
        const std::string connection = received->from;
        on_message(connection, std::move(*received));
    }
}

void CoordinatorServer::on_message(const std::string& connection, net::Received received) {
    auto message = wire::decode(received.header.bytes, received.payload.bytes.size(), limits_);
    if (received.malformed)
        return cut_off(connection, "sent a message of the wrong number of frames");
    if (!message.ok())
        return cut_off(connection, "sent no message of ours: " + message.error().message);
    WorkerEntry* entry = roster_.find(connection);
    if (entry != nullptr) {
        entry->last_heard = now();
        return on_session_message(connection, *entry, std::move(*message));
    }
    if (gateways_.is_here(connection)) return on_gateway_message(connection, std::move(*message));
    const auto* hello = std::get_if<wire::Hello>(&*message);
    if (hello != nullptr) return on_hello(connection, *hello, received.public_key);
    const auto* gateway = std::get_if<wire::GatewayHello>(&*message);
    if (gateway != nullptr) return on_gateway_hello(connection, *gateway, received.public_key);
    // The message is of somebody who was lost meanwhile, or of a stranger: it has to start anew.
    refuse(connection, "say Hello first", false);
}

void CoordinatorServer::refuse(const std::string& connection, const std::string& reason,
                               bool final) {
    const Status sent = send(connection, wire::Refused{reason, final});
    if (!sent.ok()) LOG_DEBUG("refuse: {}", sent.error().message);
}

// What the connection has proved, by the list as it is now: workers and gateways are added while we
// serve, and join at once.
WorkerRoster::Proven CoordinatorServer::prove(const std::string& proven_key) {
    WorkerRoster::Proven proven{proven_key, {}};
    if (!proven_key.empty()) {
        const Status read = read_allow_list();
        if (!read.ok()) LOG_ERROR("{}", read.error().message);
    }
    if (const auto name = allowed_.find(proven_key); name != allowed_.end()) {
        proven.bound_name = name->second;
    }
    return proven;
}

// Refuses who has heard of a coordinator that is later than this one.
bool CoordinatorServer::knows_a_later_one(const std::string& connection, const std::string& who,
                                          std::uint64_t term) {
    if (!core::is_replaced(term_, term)) return false;
    const std::string reason = fmt::format(
        "this coordinator (term {}) is older than another that was heard of (term {}): either it "
        "was replaced, or its clock is behind",
        term_, term);
    log_stranger(fmt::format("refused {}: {}", who, reason));
    refuse(connection, reason, false);
    return true;
}

void CoordinatorServer::on_hello(const std::string& connection, const wire::Hello& hello,
                                 const std::string& proven_key) {
    if (knows_a_later_one(connection, fmt::format("worker \"{}\"", base::escaped(hello.name)),
                          hello.term)) {
        return;
    }
    const WorkerRoster::Proven proven = prove(proven_key);
    const std::string old = roster_.silent_holder(hello.name, now(), kReplacedAfter);
    if (!old.empty() && (proven.key.empty() || net::is_key_for(proven.bound_name, hello.name))) {
        socket_->ban(old);
        lose(old, "was silent, and is started again");
    }
    if (now() - began_ < options_.core.claim_wait) give_number_to(hello);
    auto greeted = roster_.greet(now(), connection, hello, proven);
    if (!greeted.ok()) {
        log_stranger(fmt::format("refused worker \"{}\": {}", hello.name, greeted.error().message));
        return refuse(connection, greeted.error().message, greeted.error().code == Errc::invalid);
    }
    const WorkerEntry& entry = **greeted;
    socket_->admit(connection);
    LOG_INFO("worker {} \"{}\" says hello: {} core(s), {}, {}", entry.worker.value, hello.name,
             hello.cores, spec::format_bytes(hello.memory_bytes), hello.backend);
    const ServedModel& model = options_.model;
    const wire::Welcome welcome{term_,
                                entry.worker,
                                model.spec,
                                model.hash,
                                model.hidden_size,
                                model.vocab_size,
                                options_.core.block_size,
                                engine::ops::to_string(model.kv_type),
                                options_.core.model};
    const wire::ProfileRequest profile{roster_.probe_peers(entry.worker)};
    share_keys();
    if (!send(connection, welcome).ok() || !send(connection, profile).ok()) {
        lose(connection, "was lost (it does not take its messages)");
    }
}

// A worker that has kept what it ran under an earlier coordinator goes before one that is new.
void CoordinatorServer::give_number_to(const wire::Hello& hello) {
    const std::string other = roster_.take_number(hello);
    if (other.empty()) return;
    refuse(other, "its number belongs to a worker that was here before; it gets another", false);
    socket_->ban(other);
    lose(other, "comes again with another number", true);
}

// Those of all that may join: links between workers that an earlier coordinator let in go on.
void CoordinatorServer::share_keys() {
    if (!options_.key.has_value()) return;
    wire::AllowKeys keys{roster_.public_keys()};
    for (const auto& [key, name] : allowed_) keys.keys.push_back(key);
    std::sort(keys.keys.begin(), keys.keys.end());
    keys.keys.erase(std::unique(keys.keys.begin(), keys.keys.end()), keys.keys.end());
    for (const std::string& connection : roster_.connections()) {
        const Status sent = send(connection, keys);
        if (!sent.ok()) LOG_WARN("keys: {}", sent.error().message);
    }
}

void CoordinatorServer::on_session_message(const std::string& connection, WorkerEntry& entry,
                                           wire::Message message) {
    const core::WorkerId worker = entry.worker;
    const auto to_core = [&](auto& from_worker) {
        if (!entry.joined) return cut_off(connection, "worked before it was let in");
        step(core::FromWorker{worker, std::move(from_worker)});
    };
    const auto unexpected = [&] {
        cut_off(connection,
                fmt::format("sent a {}, which no worker sends", wire::message_name(message)));
    };
    std::visit(
        base::Overloaded{
            [&](base::OneOf<core::TokensProduced, core::LayersReady, core::LayersFailed,
                            core::SequenceStuck, core::KvReserved, core::KvArrived, core::KvRefused,
                            core::PeerLost, core::StageTimes> auto& from_worker) {
                to_core(from_worker);
            },
            [&](core::WorkerReport& report) {
                if (entry.joined) to_core(report);  // reports begin with the Welcome
            },
            [&](core::Holding& holding) { on_holding(connection, entry, std::move(holding)); },
            [&](wire::ProfileReport& profile) { on_profile(entry, profile); },
            [&](wire::Ping& ping) {
                const net::Frame padding = padding_frame(ping.reply_bytes);
                const Status sent = send(connection, wire::Pong{ping.id}, padding);
                if (!sent.ok()) LOG_WARN("pong: {}", sent.error().message);
            },
            [&](wire::ManifestRequest& wanted) {
                if (!is_served(connection, wanted.model)) return;
                weights_.on_manifest_request(worker);
                send_all_weights();
            },
            [&](wire::ChunkRequest& chunk) {
                if (!is_served(connection, chunk.model)) return;
                weights_.on_chunk_request(now(), worker, chunk);
                send_all_weights();
            },
            [&](wire::TensorsReady& ready) { on_tensors_ready(connection, worker, ready); },
            [&](wire::Goodbye& bye) {
                if (bye.device_lost) return lose(connection, "was lost (" + bye.reason + ")");
                lose(connection, bye.reason.empty() ? "left" : "left (" + bye.reason + ")", true);
            },
            [&](base::OneOf<core::AssignLayers, core::StageInputs, core::FreeSequences,
                            core::ForkSequences, core::SwapSequences, core::ReserveKv, core::SendKv,
                            core::KvBlocks, wire::Hello, wire::Welcome, wire::Refused,
                            wire::ProfileRequest, wire::Manifest, wire::Chunk, wire::TensorHolder,
                            wire::TensorRequest, wire::TensorPiece, wire::Pong, wire::PeerHello,
                            wire::AllowKeys, wire::GatewayHello, wire::GatewayWelcome,
                            core::RequestNumbers, core::Submitted, core::Ended, core::MoveRequest,
                            core::RequestEvents, wire::GatewayView> auto&) { unexpected(); },
        },
        message);
}

// Who asks for the weights of a model that is not served here is cut off.
bool CoordinatorServer::is_served(const std::string& connection, core::ModelId model) {
    if (model == options_.core.model) return true;
    cut_off(connection, fmt::format("asked for weights of model {}, and model {} is served",
                                    model.value, options_.core.model.value));
    return false;
}

void CoordinatorServer::on_tensors_ready(const std::string& connection, core::WorkerId worker,
                                         const wire::TensorsReady& ready) {
    if (!is_served(connection, ready.model)) return;
    const Status told = weights_.on_ready(now(), worker, ready);
    if (!told.ok()) return cut_off(connection, "told of weights: " + told.error().message);
    send_all_weights();
}

std::optional<WeightServer::Peer> CoordinatorServer::weight_peer(core::WorkerId worker) const {
    const WorkerEntry* entry = roster_.find(roster_.connection_of(worker));
    if (entry == nullptr) return std::nullopt;
    const wire::Hello& hello = entry->hello;
    return WeightServer::Peer{{worker, hello.endpoint, hello.public_key}, hello.name};
}

void CoordinatorServer::on_holding(const std::string& connection, WorkerEntry& entry,
                                   core::Holding holding) {
    if (!entry.known || entry.joined || entry.holding.has_value()) {
        return cut_off(connection, "told what it has kept, and was not asked");
    }
    LOG_INFO("worker {} \"{}\" was here before, and has kept {} sequence(s)", entry.worker.value,
             entry.hello.name, holding.sequences.size());
    entry.holding = std::move(holding);
}

void CoordinatorServer::on_profile(WorkerEntry& entry, const wire::ProfileReport& report) {
    core::WorkerJoined joined = to_joined(entry, report);
    weights_.on_links(joined.links);
    if (entry.joined) return step(core::LinksMeasured{entry.worker, std::move(joined.links)});
    entry.joined = true;
    {
        const std::lock_guard lock(mutex_);
        endpoints_[entry.hello.name] = entry.hello.endpoint;
    }
    if (scaler_ != nullptr) scaler_->on_joined(entry.hello.name);
    step(joined);
}

void CoordinatorServer::cut_off(const std::string& connection, const std::string& why) {
    if (gateways_.is_here(connection)) return cut_off_gateway(connection, why);
    WorkerEntry* entry = roster_.find(connection);
    if (entry == nullptr) {
        log_stranger("cut off a connection: it " + why);
    } else {
        LOG_WARN("cut off worker {}: it {}", entry->hello.name, why);
    }
    socket_->ban(connection);
    lose(connection, "was cut off: it " + why);
}

void CoordinatorServer::lose(const std::string& connection, const std::string& reason, bool left) {
    const std::optional<WorkerEntry> gone = roster_.remove(connection);
    if (!gone.has_value()) return;
    to_workers_.erase(gone->worker);
    weights_.on_lost(now(), gone->worker);
    {
        const std::lock_guard lock(mutex_);
        endpoints_.erase(gone->hello.name);
    }
    if (gone->joined) step(core::WorkerLost{gone->worker, reason, left});
}

Status CoordinatorServer::send(const std::string& connection, const wire::Message& message,
                               const net::Frame& payload) {
    return socket_->send(connection, net::Frame::of(wire::encode(message)), payload);
}

void CoordinatorServer::send_all_weights() {
    for (const WeightServer::Send& one : weights_.take_sends()) {
        const std::string connection = roster_.connection_of(one.to);
        if (!connection.empty()) send_weights(connection, one.answer);
    }
}

void CoordinatorServer::send_weights(const std::string& connection, const WeightAnswer& answer) {
    // Nothing is copied, however slowly the worker takes it.
    const Status sent = send(connection, answer.message, answer.data);
    if (sent.ok() || sent.error().code != Errc::overloaded) return;
    if (owed_.size() < kMostOwed) {
        owed_.push_back({connection, answer});
    } else {
        lose(connection, "was lost (it does not take its weights)");
    }
}

// ---- actions
// --------------------------------------------------------------------------------------

void CoordinatorServer::perform() {
    // Losing a worker while sending makes new actions; each round loses at least one, so this ends.
    while (!actions_.empty()) {
        std::vector<core::CoordinatorAction> actions = std::exchange(actions_, {});
        for (core::CoordinatorAction& action : actions) {
            std::visit([this](auto& one) { carry_out(std::move(one)); }, action);
        }
        flush_workers();
    }
    flush_gateways();
    tell_stall_bound();
    keep_placement();
}

void CoordinatorServer::carry_out(core::SendToWorker action) {
    to_workers_[action.worker].add(std::move(action.message));
}

void CoordinatorServer::carry_out(core::PlanCluster question) {
    std::optional<NamedPlacement> chosen;
    {
        const std::lock_guard lock(mutex_);
        chosen.swap(chosen_);
    }
    planner_->ask(std::move(question), std::move(chosen));
}

void CoordinatorServer::carry_out(core::ProposeDrafts question) {
    drafts_->ask(std::move(question));
}

void CoordinatorServer::carry_out(const core::ForgetDrafts& ended) {
    drafts_->forget(ended.id);
}

void CoordinatorServer::carry_out(const core::AddWorker&) {
    add_worker();
}

void CoordinatorServer::carry_out(const core::WorkerDrained& drained) {
    on_drained(drained);
}

// Core has said why, and counts it as lost.
void CoordinatorServer::carry_out(const core::CutOffWorker& liar) {
    const std::string connection = roster_.connection_of(liar.worker);
    socket_->ban(connection);
    lose(connection, liar.reason);
}

void CoordinatorServer::carry_out(const core::MigrationEnded& over) {
    LOG_DEBUG("{}", core::describe(core::CoordinatorAction(over)));
}

void CoordinatorServer::carry_out(const core::Report& report) {
    if (report.warning) {
        LOG_WARN("{}", report.text);
    } else {
        LOG_INFO("{}", report.text);
    }
}

// Whoever has the request hears of it: a gateway, or a sink in this process.
template <typename Event, typename Tell>
void CoordinatorServer::tell(const Event& event, bool last, const Tell& tell_sink) {
    if (gateways_.has(event.id)) return gateways_.tell(event.id, event, last);
    sinks_.tell(event.id, last, tell_sink);
}

void CoordinatorServer::carry_out(const core::AcceptRequest& accepted) {
    tell(accepted, false, [](api::TokenSink& sink) { sink.on_accepted(); });
}

void CoordinatorServer::carry_out(const core::RejectRequest& rejection) {
    tell(rejection, true, [&](api::TokenSink& sink) { sink.on_reject(rejection); });
}

void CoordinatorServer::carry_out(const core::RequestRouted& routed) {
    tell(routed, false, [&](api::TokenSink& sink) { sink.on_routed(routed); });
}

void CoordinatorServer::carry_out(const core::StageTimed& timed) {
    gateways_.tell_all(timed);
    const std::lock_guard lock(mutex_);
    if (stage_watcher_) stage_watcher_(timed);
}

void CoordinatorServer::carry_out(const core::ScoreTokens& scored) {
    tell(scored, false, [&](api::TokenSink& sink) { sink.on_scored(scored.tokens); });
}

void CoordinatorServer::carry_out(const core::EmbedPrompt& embedded) {
    tell(embedded, false, [&](api::TokenSink& sink) { sink.on_embedding(embedded.values); });
}

void CoordinatorServer::carry_out(const core::StreamToken& token) {
    tell(token, false, [&](api::TokenSink& sink) { sink.on_token(token.choice, token.token); });
}

void CoordinatorServer::carry_out(const core::FinishChoice& ended) {
    tell(ended, false,
         [&](api::TokenSink& sink) { sink.on_choice_finish(ended.choice, ended.reason); });
}

void CoordinatorServer::carry_out(const core::FinishRequest& finish) {
    tell(finish, true, [&](api::TokenSink& sink) { sink.on_finish(finish.reason, finish.error); });
}

// With mutex_ held. It is not while that plan is on its way, or when it was dropped, or when what
// is in force was planned before a restart.
bool CoordinatorServer::is_last_plan_in_force() const {
    const core::RememberedPlacement* in_force = core_.placement_in_force();
    if (in_force == nullptr || !last_plan_.has_value()) return false;
    for (std::size_t i = 0; i < last_plan_->cluster.nodes.size(); ++i) {
        const std::string& name = last_plan_->cluster.nodes[i].name;
        const spec::LayerRange layers = last_plan_->report.placement.layers[i];
        const auto same = [&](const auto& holder) {
            return holder.worker == name && holder.layers == layers;
        };
        const auto& holders = in_force->holders;
        if (std::none_of(holders.begin(), holders.end(), same)) return false;
    }
    return true;
}

void CoordinatorServer::tell_stall_bound() {
    if (core_.epoch() == told_epoch_) return;
    told_epoch_ = core_.epoch();
    const std::lock_guard lock(mutex_);
    if (!is_last_plan_in_force()) return;
    std::string text = plan::describe_stalls(last_plan_->report.stalls, {});
    std::replace(text.begin(), text.end(), '\n', ';');
    while (text.ends_with(';')) text.pop_back();
    if (!text.empty()) LOG_INFO("if a worker is lost: {}", text);
}

void CoordinatorServer::keep_placement() {
    if (keeper_ == nullptr || closing_.load() || core_.epoch() == kept_epoch_) return;
    kept_epoch_ = core_.epoch();
    keeper_->keep(*core_.placement_in_force());
}

void CoordinatorServer::keep_drains() {
    if (keeper_ == nullptr || closing_.load()) return;
    std::vector<core::RememberedDrain> drains = core_.drains();
    if (drains == kept_drains_) return;
    keeper_->keep_drains(drains);
    kept_drains_ = std::move(drains);
}

void CoordinatorServer::flush_workers() {
    std::map<core::WorkerId, MessageMerger> all = std::exchange(to_workers_, {});
    for (auto& [worker, merger] : all) {
        const std::string connection = roster_.connection_of(worker);
        if (connection.empty()) continue;  // lost in this turn
        for (core::WorkerMessage& message : merger.take()) {
            const Status sent = std::visit(
                [&](auto& one) { return send(connection, wire::Message(std::move(one))); },
                message);
            if (sent.ok()) continue;
            socket_->ban(connection);
            lose(connection, fmt::format("was lost ({})", sent.error().message));
            break;
        }
    }
}

}  // namespace helix::node

#include "node/worker_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/overloaded.h"
#include "core/protocol/migration_rate.h"
#include "model/manifest.h"
#include "node/clock.h"
#include "node/grammar_filter.h"
#include "node/host_link.h"
#include "node/wire_weights.h"

namespace helix::node {
namespace {

using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr base::Duration kWorkerTickEvery = base::from_ms(100);
constexpr base::Duration kWelcomeWithin = base::from_ms(5000);
// A link that broke may come back within this time; then nobody has to go around it.
constexpr base::Duration kBrokenGrace = base::from_ms(500);
constexpr base::Duration kProbeAgain = base::from_ms(3000);
constexpr int kMostWorkerMessagesAtOnce = 4096;  // that are handled before the engine gets its turn
constexpr std::int64_t kTransferBytes = 32 << 20;  // of KV in one message, about

}  // namespace

WorkerSession::WorkerSession(const WorkerOptions& options, CoordinatorPlace place,
                             FindCoordinator find, SessionStart start, KeptModel& kept,
                             const net::Wakeup& wakeup, const std::atomic<bool>& stopping)
    : options_(options),
      place_(std::move(place)),
      find_(std::move(find)),
      incarnation_(start.incarnation),
      term_(start.term),
      kept_(kept),
      wakeup_(wakeup),
      stopping_(stopping) {}

WorkerSession::~WorkerSession() {
    kept_.fetcher.cancel("the worker leaves");
}

void WorkerSession::end(SessionEnd how, std::string reason) {
    if (!result_.has_value())
        result_ = SessionResult{how, std::move(reason), profiled_, term_.highest()};
}

SessionResult WorkerSession::run() {
    const Status opened = open();
    if (!opened.ok()) return {SessionEnd::lost, opened.error().message, false, term_.highest()};
    while (!result_.has_value()) loop();
    const bool leaves =
        result_->end == SessionEnd::stopped || result_->end == SessionEnd::no_device;
    if (leaves && !is_alone()) {
        coordinator_->set_linger(base::from_ms(500));
        send(wire::Goodbye{result_->reason, false, result_->end == SessionEnd::no_device});
    }
    kept_.fetcher.cancel(result_->reason);
    search_.reset();
    mover_.reset();
    engine_.reset();
    if (result_->end != SessionEnd::no_device) kept_.end();
    return *result_;
}

Status WorkerSession::open() {
    std::optional<net::KeyPair> keys;
    if (options_.key.has_value()) keys = options_.key->pair;
    PeerLinks::Options links{place_.context, keys, place_.listen_endpoint,
                             endpoint_host(place_.endpoint), options_.transport};
    TRY(peers_, PeerLinks::create(std::move(links)));
    last_tick_ = now();
    hello_ = make_hello();
    return call_coordinator();
}

// Says Hello to the coordinator at place_; its Welcome follows.
Status WorkerSession::call_coordinator() {
    std::optional<net::KeyPair> keys;
    if (options_.key.has_value()) keys = options_.key->pair;
    TRY(coordinator_, net::DealerSocket::connect(place_.context, place_.endpoint, keys,
                                                 place_.public_key, options_.transport));
    opened_ = now();
    return coordinator_->send(net::Frame::of(wire::encode(hello_)));
}

wire::Hello WorkerSession::make_hello() const {
    wire::Hello hello;
    hello.incarnation = incarnation_;
    hello.term = term_.highest();
    hello.name = options_.name;
    hello.host = options_.host.empty() ? machine_id() : options_.host;
    hello.type = options_.type;
    hello.region = options_.region;
    hello.role = options_.role;
    hello.cores = options_.threads > 0 ? options_.threads : base::usable_threads();
    if (kept_.offered_memory_bytes == 0) {
        const engine::DeviceMemory memory = options_.backend->memory();
        kept_.offered_memory_bytes = memory.offered_bytes;
        LOG_INFO("{:.1f} GB of memory may be used, by {}; {} threads",
                 static_cast<double>(memory.free_bytes) / 1e9, memory.bound,
                 base::usable_threads());
    }
    hello.memory_bytes =
        options_.memory_bytes > 0 ? options_.memory_bytes : kept_.offered_memory_bytes;
    hello.endpoint = peers_->endpoint();
    const std::size_t colon = hello.endpoint.rfind(':');
    if (options_.peer_port != 0) {
        hello.endpoint.replace(colon + 1, std::string::npos, std::to_string(options_.peer_port));
    }
    if (!options_.peer_host.empty()) {
        hello.endpoint =
            fmt::format("tcp://{}{}", options_.peer_host, hello.endpoint.substr(colon));
    }
    if (options_.key.has_value()) hello.public_key = options_.key->pair.public_key;
    hello.backend = options_.backend->name();
    hello.device = options_.backend->processors();
    hello.core_share = options_.backend->core_share(options_.threads);
    return hello;
}

// ---- one turn
// -------------------------------------------------------------------------------------

void WorkerSession::loop() {
    std::vector<net::ZmqSocket*> sockets;
    if (coordinator_ != nullptr) sockets.push_back(coordinator_.get());
    peers_->add_sockets(sockets);
    if (weight_links_ != nullptr) weight_links_->add_sockets(sockets);
    const base::TimePoint next_tick = last_tick_ + kWorkerTickEvery;
    net::wait(sockets, wakeup_.fd(), std::min(next_tick, wake_at_.value_or(next_tick)) - now());
    wakeup_.clear();
    if (stopping_.load()) return end(SessionEnd::stopped, "was stopped");
    if (search_ != nullptr) look_for_coordinator();
    receive_from_coordinator();
    take_coordinator_events();  // after what a closed connection has still said
    receive_from_peers();
    take_engine_events();
    exchange_weights();
    if (now() - last_tick_ >= kWorkerTickEvery) on_tick();
    if (wake_at_.has_value() && now() >= *wake_at_) {
        wake_at_.reset();
        step(core::WorkerTick{});
    }
    perform();
}

void WorkerSession::take_coordinator_events() {
    if (coordinator_ == nullptr) return;
    for (const net::LinkEvent& event : coordinator_->take_events()) {
        if (event.kind == net::LinkEventKind::disconnected && welcome_.has_value()) {
            return on_coordinator_gone("the coordinator is gone");
        }
        if (event.kind == net::LinkEventKind::refused) {
            return on_coordinator_gone("the coordinator refused the connection: " + event.detail);
        }
    }
}

void WorkerSession::on_tick() {
    last_tick_ = now();
    peers_->watch(last_tick_);
    if (profiled_) tell_links();
    const bool waits_for_welcome = coordinator_ != nullptr && (is_alone() || !welcome_.has_value());
    if (waits_for_welcome && last_tick_ - opened_ > kWelcomeWithin) {
        on_coordinator_gone(fmt::format("no answer from {}", place_.endpoint));
    }
    if (!welcome_.has_value()) return;
    if (is_alone() && last_tick_ - *alone_since_ > options_.coordinator_wait) {
        term_.forget();  // a coordinator of whatever term is better than none
        return end(SessionEnd::lost,
                   fmt::format("no coordinator for {:.0f} s", options_.coordinator_wait.seconds()));
    }
    if (probe_.has_value()) {
        probe_->on_time(last_tick_);
        if (probe_->done()) finish_probe();
    }
    step(core::WorkerTick{});
}

void WorkerSession::tell_links() {
    for (const core::WorkerId peer : peers_->take_mended()) step(core::PeerBroken{peer});
    for (core::Peer& peer : peers_->take_down(last_tick_, kBrokenGrace)) {
        if (const auto there = peers_->peer(peer.worker)) mover_->give_up(there->endpoint);
        step(core::PeerBroken{peer.worker, true, std::move(peer.endpoint)});
    }
    if (probe_.has_value() || last_tick_ - last_probe_ < kProbeAgain) return;
    last_probe_ = last_tick_;
    std::deque<std::int32_t> targets;
    for (const std::int32_t peer : unmeasured_) {
        if (peers_->works({static_cast<std::uint32_t>(peer)})) targets.push_back(peer);
    }
    if (!targets.empty()) probe(std::move(targets));
}

void WorkerSession::receive_from_coordinator() {
    for (int i = 0; i < kMostWorkerMessagesAtOnce && !result_.has_value(); ++i) {
        if (coordinator_ == nullptr) return;  // it has just left
        std::optional<net::Received> got = coordinator_->receive();
        if (!got.has_value()) break;
        auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), limits_);
        if (got->malformed || !message.ok()) {
            return on_coordinator_gone(
                "the coordinator sent something else than a message: " +
                (message.ok() ? "too many frames" : message.error().message));
        }
        on_message(std::move(*message), std::move(got->payload));
    }
}

void WorkerSession::receive_from_peers() {
    for (PeerLinks::Arrived& arrived : peers_->receive(limits_)) {
        std::visit(base::Overloaded{
                       [&](const wire::Ping& ping) {
                           const net::Frame padding = padding_frame(ping.reply_bytes);
                           peers_->reply(arrived.connection, wire::Pong{ping.id}, padding);
                       },
                       [&](const wire::Pong& pong) {
                           if (probe_.has_value()) probe_->on_pong(now(), pong.id);
                       },
                       [&](const wire::TensorRequest& request) {
                           kept_.shared.ask(arrived.connection, request);
                       },
                       [&](core::KvBlocks& blocks) {
                           if (!welcome_.has_value()) return;
                           add_blocks(std::move(blocks), std::move(arrived.payload));
                       },
                       [&](core::StageInputs& inputs) {
                           if (!welcome_.has_value()) return;
                           add_inputs(std::move(inputs), std::move(arrived.payload));
                       },
                   },
                   arrived.message);
    }
    if (probe_.has_value() && probe_->done()) finish_probe();
    // All that has arrived goes in together, so that it can be batched together.
    for (core::WorkerMessage& message : inbox_.take())
        step(core::MessageArrived{std::move(message)});
}

void WorkerSession::exchange_weights() {
    if (weight_links_ != nullptr) weight_links_->exchange();
    if (!is_alone()) {
        for (const wire::Message& request : kept_.fetcher.take_requests()) send(request);
    }
    for (const SharedTensors::Answer& answer : kept_.shared.take_answers()) {
        peers_->reply(answer.connection, answer.piece, answer.data);
    }
    if (kept_.shared.is_behind()) wakeup_.wake();
}

void WorkerSession::take_engine_events() {
    if (engine_ == nullptr) return;
    for (EngineEvent& event : engine_->take_events()) {
        std::visit(base::Overloaded{
                       [&](EngineProfiled& profiled) { on_profiled(profiled); },
                       [&](EngineLoaded& loaded) { on_loaded(std::move(loaded)); },
                       [&](EngineRan& ran) { on_ran(std::move(ran)); },
                   },
                   event);
    }
    for (const core::WorkerEvent& event : mover_->take_events()) step(event);
}

void WorkerSession::on_loaded(EngineLoaded loaded) {
    if (!loaded.pages.ok()) {
        if (loaded.lost) return end(SessionEnd::no_device, loaded.pages.error().message);
        return step(core::LayersNotLoaded{loaded.epoch, loaded.pages.error().message});
    }
    weight_links_->close();
    if (!loaded.layers.empty()) {
        const bool told = loaded.read_bytes > 0 && !loaded.read_from.empty();
        LOG_INFO(
            "layers {}-{} are loaded: {}, {:.2f} s", loaded.layers.begin, loaded.layers.end - 1,
            told ? loaded.read_from : fmt::format("{} bytes of weights read", loaded.read_bytes),
            loaded.took.seconds());
    }
    const std::string kv_format = loaded.backend->kv_format();
    const double page_bytes = loaded.backend->kv_travel_bytes();
    kv_bytes_per_s_ = options_.migration_bytes_per_s > 0
                          ? options_.migration_bytes_per_s
                          : core::most_migration_rate(loaded.backend->compute_threads());
    mover_->use(std::move(loaded.backend));
    step(core::LayersLoaded{loaded.epoch, *loaded.pages, loaded.swap_pages, kv_format, page_bytes,
                            kv_bytes_per_s_});
}

// ---- messages
// -------------------------------------------------------------------------------------

void WorkerSession::on_message(wire::Message message, net::Frame payload) {
    std::visit(
        base::Overloaded{
            [&](core::StageInputs& inputs) {
                if (welcome_.has_value()) add_inputs(std::move(inputs), std::move(payload));
            },
            [&](base::OneOf<core::AssignLayers, core::FreeSequences, core::ForkSequences,
                            core::SwapSequences, core::ReserveKv, core::SendKv> auto& for_core) {
                if (welcome_.has_value()) inbox_.add(std::move(for_core));
            },
            [&](wire::Welcome& welcome) { on_welcome(welcome); },
            [&](wire::Refused& refused) {
                const std::string reason = "the coordinator says: " + refused.reason;
                if (refused.final) return end(SessionEnd::refused, reason);
                on_coordinator_gone(reason);
            },
            [&](wire::ProfileRequest& profile) { on_profile_request(profile); },
            [&](wire::AllowKeys& allow) {
                peers_->allow({allow.keys.begin(), allow.keys.end()});
            },
            [&](wire::Manifest& manifest) { kept_.fetcher.on_manifest(std::move(manifest)); },
            [&](wire::Chunk& chunk) { kept_.fetcher.on_chunk(chunk, payload); },
            [&](wire::TensorHolder& holder) {
                if (holder.peer.has_value()) holder.peer = peers_->reachable(*holder.peer);
                kept_.fetcher.on_holder(std::move(holder));
            },
            [&](wire::Pong& pong) {
                if (probe_.has_value()) probe_->on_pong(now(), pong.id);
            },
            [&](wire::Goodbye& bye) {
                if (bye.dismissed) {
                    end(SessionEnd::dismissed, bye.reason);
                } else {
                    on_coordinator_gone("the coordinator leaves: " + bye.reason);
                }
            },
            [&](base::OneOf<
                core::TokensProduced, core::LayersReady, core::LayersFailed, core::SequenceStuck,
                core::WorkerReport, core::KvBlocks, core::KvReserved, core::KvArrived,
                core::KvRefused, core::PeerLost, core::StageTimes, core::Holding, wire::Hello,
                wire::ProfileReport, wire::ManifestRequest, wire::ChunkRequest, wire::TensorsReady,
                wire::TensorRequest, wire::TensorPiece, wire::Ping, wire::PeerHello,
                wire::GatewayHello, wire::GatewayWelcome, core::RequestNumbers, core::Submitted,
                core::Ended, core::MoveRequest, core::RequestEvents, wire::GatewayView> auto&) {
                end(SessionEnd::lost,
                    fmt::format("the coordinator sent a {}, which no worker expects",
                                wire::message_name(message)));
            },
        },
        message);
}

void WorkerSession::on_welcome(const wire::Welcome& welcome) {
    if (is_alone()) return on_next_welcome(welcome);
    if (welcome_.has_value()) return end(SessionEnd::lost, "the coordinator said Welcome twice");
    if (!term_.may_join(welcome.term)) {
        return end(SessionEnd::lost, describe_old_term(welcome.term));
    }
    term_.join(welcome.term);
    welcome_ = welcome;
    limits_ = {welcome.model.n_layers, welcome.hidden_size};
    core::WorkerConfig config;
    config.model = welcome.model_id;
    config.block_size = welcome.block_size;
    config.n_layers = welcome.model.n_layers;
    config.window = welcome.model.window;
    config.shared_kv_layers = welcome.model.shared_kv_layers;
    config.prefix_cache = options_.prefix_cache && !welcome.model.encoder;
    config.whole_prompts = welcome.model.encoder;
    if (find_) config.coordinator_wait = options_.coordinator_wait;
    const std::int64_t page_bytes =
        std::max<std::int64_t>(1, welcome.model.kv_bytes_per_token_layer * welcome.block_size);
    config.transfer_pages = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(kTransferBytes / page_bytes, 1, config.transfer_pages));
    worker_.emplace(welcome.worker, config);
    peers_->set_self(welcome.worker, incarnation_);
    engine::BackendRequest request{
        .model = welcome.model,
        .hidden_size = welcome.hidden_size,
        .vocab_size = welcome.vocab_size,
        .block_size = welcome.block_size,
        .kv_type = welcome.kv_type,
        .memory_bytes = hello_.memory_bytes,
        .swap_bytes = options_.swap_bytes,
        .threads = hello_.cores,
        .weights = [this] { return weights(); },
        .filter =
            [](std::shared_ptr<model::WeightSource> source) {
                return std::make_shared<GrammarFilter>(std::move(source));
            }};
    kept_.begin(welcome);
    engine_ = std::make_unique<EngineThread>(options_.backend, std::move(request), options_.speed,
                                             kept_, wakeup_);
    std::optional<net::KeyPair> keys;
    if (options_.key.has_value()) keys = options_.key->pair;
    mover_ = std::make_unique<KvMover>(
        KvMover::Options{place_.context, keys, options_.transport, welcome.worker, incarnation_},
        wakeup_);
    weight_links_ =
        std::make_unique<WeightLinks>(WeightLinks::Options{place_.context, keys, options_.transport,
                                                           welcome.worker, incarnation_},
                                      kept_.fetcher);
    tell_tensors();
    LOG_INFO("joined as worker {} \"{}\": {}, {} layers, {} threads in {} tensor parallel {}",
             welcome.worker.value, options_.name, welcome.model.name, welcome.model.n_layers,
             hello_.cores, options_.backend->ranks(),
             options_.backend->ranks() == 1 ? "rank" : "ranks");
}

void WorkerSession::tell_tensors() {
    std::vector<std::int32_t> held = kept_.shared.indices();
    if (held.empty()) return;
    send(
        wire::TensorsReady{welcome_->model_id, std::move(held), wire::TensorSource::earlier, true});
}

void WorkerSession::on_profile_request(const wire::ProfileRequest& request) {
    if (!welcome_.has_value()) return end(SessionEnd::lost, "asked to measure before the Welcome");
    if (profiled_) return measure_new_peers(request.peers);
    probe_peers_ = request.peers;
    report_ = {};
    engine_->profile();
}

void WorkerSession::on_profiled(const EngineProfiled& profiled) {
    const Result<engine::SelfProfile>& profile = profiled.profile;
    if (!profile.ok()) {
        // Error invalid means that the worker's options do not suit the model, so trying again
        // would not help.
        const bool final = profile.error().code == base::Errc::invalid;
        const std::string& why = profile.error().message;
        if (profiled.lost) return end(SessionEnd::no_device, why);
        send(wire::Goodbye{"cannot measure itself: " + why});
        return end(final ? SessionEnd::refused : SessionEnd::lost,
                   "cannot measure this machine: " + why);
    }
    report_.decode_s_per_layer = profile->decode_s_per_layer;
    report_.decode_batch_s_per_layer = profile->decode_batch_s_per_layer;
    report_.prefill_s_per_token_layer = profile->prefill_s_per_token_layer;
    const auto self = static_cast<std::int32_t>(welcome_->worker.value);
    std::deque<std::int32_t> targets{spec::kCoordinator};
    std::vector<core::Peer> peers;
    std::optional<HostLink> host;
    if (!options_.probe_same_host) host = host_link(options_.key.has_value());
    for (const wire::ProbePeer& peer : probe_peers_) {
        const auto other = static_cast<std::int32_t>(peer.worker.value);
        if (peer.host == hello_.host && host.has_value()) {
            report_.links.push_back({self, other, host->bandwidth_bytes_per_s, host->latency_s});
            report_.links.push_back({other, self, host->bandwidth_bytes_per_s, host->latency_s});
            continue;
        }
        targets.push_back(other);
        peers.push_back({peer.worker, peer.endpoint, peer.public_key});
    }
    peers_->connect(peers);
    unmeasured_.insert(targets.begin(), targets.end());
    unmeasured_.erase(spec::kCoordinator);
    probe(std::move(targets));
}

void WorkerSession::probe(std::deque<std::int32_t> targets) {
    const auto self = static_cast<std::int32_t>(welcome_->worker.value);
    probe_.emplace(self, std::move(targets),
                   [this](std::int32_t target, const wire::Ping& ping, std::uint32_t padding) {
                       const net::Frame frame = padding_frame(padding);
                       if (target == spec::kCoordinator) return send(ping, frame);
                       const core::WorkerId peer{static_cast<std::uint32_t>(target)};
                       const Status sent = peers_->send(now(), peer, ping, frame);
                       if (!sent.ok()) LOG_WARN("ping: {}", sent.error().message);
                   });
    probe_->start(now());
}

void WorkerSession::finish_probe() {
    std::vector<spec::LinkSpec> links = probe_->links();
    const bool any = !links.empty();
    for (const spec::LinkSpec& link : links) unmeasured_.erase(link.to);
    append_to(report_.links, std::move(links));
    probe_.reset();
    last_probe_ = now();
    if (profiled_) {
        if (any) send(report_);
        return;
    }
    LOG_INFO(
        "measured: {:.3f} ms per layer for one token, {:.3f} ms for 8, {:.4f} ms per prompt token",
        report_.decode_s_per_layer * 1e3, report_.decode_batch_s_per_layer * 1e3,
        report_.prefill_s_per_token_layer * 1e3);
    send(report_);
    profiled_ = true;
}

Result<std::shared_ptr<model::WeightSource>> WorkerSession::weights() {
    if (kept_.weights == nullptr) {
        TRY(auto opened, open_weights());
        kept_.weights = std::make_shared<model::CountedWeights>(std::move(opened));
    }
    return std::shared_ptr<model::WeightSource>(kept_.weights);
}

Result<std::shared_ptr<model::WeightSource>> WorkerSession::open_weights() {
    if (place_.weights != nullptr) return place_.weights;
    if (!options_.model_file.empty()) {
        const auto local = model::open_weights(options_.model_file, options_.model_options);
        const Status same = local.ok() ? options_.digests.check(**local, welcome_->model_hash)
                                       : Status(local.error());
        if (same.ok()) return *local;
        LOG_WARN("{}; the weights come from the coordinator", same.error().message);
    }
    TRY(std::unique_ptr<WireWeights> wire_weights,
        WireWeights::open(kept_, welcome_->model_hash, options_.cache_dir, options_.cache_limit));
    return std::shared_ptr<model::WeightSource>(std::move(wire_weights));
}

// ---- rows in and out
// ------------------------------------------------------------------------------

void WorkerSession::add_inputs(core::StageInputs inputs, net::Frame payload) {
    if (!payload.bytes.empty()) {
        const std::uint64_t buffer = next_buffer_++;
        for (core::StageInput& input : inputs.inputs) {
            if (input.payload.rows > 0) input.payload.buffer = buffer;
        }
        buffers_.emplace(buffer, std::move(payload));
    }
    inbox_.add(std::move(inputs));
}

void WorkerSession::add_blocks(core::KvBlocks blocks, net::Frame payload) {
    if (!payload.bytes.empty()) {
        blocks.payload.buffer = next_buffer_++;
        buffers_.emplace(blocks.payload.buffer, std::move(payload));
    }
    inbox_.add(std::move(blocks));
}

void WorkerSession::on_ran(EngineRan ran) {
    if (!ran.result.ok() && ran.lost) return end(SessionEnd::no_device, ran.result.error().message);
    if (!ran.result.ok()) {
        LOG_ERROR("batch {} failed: {}", ran.batch - core::kFirstBatch, ran.result.error().message);
        return step(core::BatchFailed{ran.batch, ran.result.error().message});
    }
    for (const core::FailedSequence& failed : ran.result->failed) {
        LOG_WARN("request {}: {}", failed.key.request.value, failed.reason);
    }
    buffers_.emplace(ran.batch, net::Frame::of(std::move(ran.result->output)));
    step(core::BatchFinished{ran.batch, std::move(ran.result->tokens), ran.took,
                             std::move(ran.result->failed), std::move(ran.result->scored),
                             std::move(ran.result->pooled)});
}

void WorkerSession::step(const core::WorkerEvent& event) {
    if (worker_.has_value()) worker_->step(now(), event, actions_);
}

void WorkerSession::perform() {
    std::vector<core::WorkerAction> actions = std::exchange(actions_, {});
    for (core::WorkerAction& action : actions) {
        std::visit([this](auto& one) { carry_out(std::move(one)); }, action);
    }
    if (!produced_.empty()) send(std::exchange(produced_, {}));
    flush_peers();
    for (const std::uint64_t buffer : released_) buffers_.erase(buffer);
    released_.clear();
}

void WorkerSession::carry_out(const core::ConnectPeers& action) {
    peers_->connect(action.peers);
    mover_->keep(peers_->endpoints());
}

void WorkerSession::carry_out(const core::LoadLayers& action) {
    engine_->load(action.epoch, action.layers);
}

void WorkerSession::carry_out(core::RunBatch action) {
    start_batch(std::move(action.plan));
}

void WorkerSession::carry_out(core::SendToPeer action) {
    append_to(to_peers_[action.peer].inputs, std::move(action.inputs.inputs));
}

void WorkerSession::carry_out(core::SendToCoordinator action) {
    std::visit(base::Overloaded{
                   [this](core::TokensProduced& produced) {
                       if (is_alone()) return;
                       append_to(produced_.tokens, std::move(produced.tokens));
                       append_to(produced_.scored, std::move(produced.scored));
                       append_to(produced_.embeddings, std::move(produced.embeddings));
                   },
                   [this](auto& message) { send(wire::Message(std::move(message))); },
               },
               action.message);
}

void WorkerSession::carry_out(const core::ReleaseBuffer& action) {
    released_.push_back(action.buffer);
}

void WorkerSession::carry_out(core::ExportKv action) {
    const std::optional<core::Peer> peer = peers_->peer(action.to);
    if (peer.has_value()) {
        peers_->look_after(now(), action.to);
        const double rate = migration_bytes_per_s(action.to);
        mover_->send(std::move(action), *peer, rate);
    } else {
        LOG_WARN("KV for worker {}, which is no peer", action.to.value);
        step(core::KvExported{action.transfer});
    }
}

void WorkerSession::carry_out(core::ImportKv action) {
    net::Frame frame = buffers_.at(action.buffer);
    mover_->receive(std::move(action), std::move(frame));
}

void WorkerSession::carry_out(const core::WakeAt& action) {
    wake_at_ = action.at;
}

double WorkerSession::migration_bytes_per_s(core::WorkerId to) const {
    double measured = 0;
    for (const spec::LinkSpec& link : report_.links) {
        const bool ours = link.from == static_cast<std::int32_t>(welcome_->worker.value) &&
                          link.to == static_cast<std::int32_t>(to.value);
        if (ours) measured = link.bandwidth_bytes_per_s;
    }
    return core::migration_rate(kv_bytes_per_s_, measured);
}

void WorkerSession::start_batch(core::BatchPlan plan) {
    std::map<std::uint64_t, net::Frame> needed;
    for (const core::BatchChunk& chunk : plan.chunks) {
        const std::uint64_t buffer = chunk.input.buffer;
        if (buffer != 0) needed.emplace(buffer, buffers_.at(buffer));
    }
    engine_->run(std::move(plan), std::move(needed));
}

void WorkerSession::flush_peers() {
    for (auto& [peer, inputs] : to_peers_) send_to_peer(peer, std::move(inputs));
    to_peers_.clear();
}

void WorkerSession::send_to_peer(core::WorkerId peer, core::StageInputs inputs) {
    const std::size_t row_bytes = static_cast<std::size_t>(limits_.hidden_size) * sizeof(float);
    net::Frame frame;
    std::vector<std::span<const std::byte>> pieces;
    bool contiguous = true;
    std::size_t bytes = 0;
    for (const core::StageInput& input : inputs.inputs) {
        const net::Frame& buffer = buffers_.at(input.payload.buffer);
        const std::size_t first = input.payload.first_row * row_bytes;
        const std::size_t size = input.payload.rows * row_bytes;
        CHECK(first + size <= buffer.bytes.size());
        pieces.push_back(buffer.bytes.subspan(first, size));
        if (pieces.size() > 1) {
            const auto& before = pieces[pieces.size() - 2];
            contiguous = contiguous && before.data() + before.size() == pieces.back().data();
        } else {
            frame.owner = buffer.owner;
        }
        bytes += size;
    }
    if (contiguous) {
        frame.bytes = {pieces.front().data(), bytes};
    } else {
        auto gathered = std::make_shared<std::vector<std::byte>>();
        gathered->reserve(bytes);
        for (const auto& piece : pieces)
            gathered->insert(gathered->end(), piece.begin(), piece.end());
        frame = {gathered, std::span<const std::byte>(*gathered)};
    }
    const Status sent = peers_->send(now(), peer, inputs, frame);
    if (sent.ok()) return;
    for (const core::StageInput& input : inputs.inputs) {
        send(core::SequenceStuck{input.key, core::StuckCause::failed,
                                 fmt::format("worker {}: {}", peer.value, sent.error().message)});
    }
}

void WorkerSession::send(const wire::Message& message, const net::Frame& payload) {
    if (is_alone()) return;
    const Status sent = coordinator_->send(net::Frame::of(wire::encode(message)), payload);
    if (!sent.ok()) {
        on_coordinator_gone(fmt::format("{} to the coordinator: {}", wire::message_name(message),
                                        sent.error().message));
    }
}

}  // namespace helix::node

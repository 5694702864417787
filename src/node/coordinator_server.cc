#include "node/coordinator_server.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/log.h"
#include "core/protocol/request_numbers.h"
#include "node/clock.h"

namespace helix::node {

using base::Ok;
using base::Result;
using base::Status;

namespace {

constexpr base::Duration kPlanLimit = base::from_ms(3000);

// The host in the form that libzmq wants, which looks up no names to listen on.
std::string bind_host(const std::string& host) {
    if (host == "localhost") return "127.0.0.1";
    return host.find(':') != std::string::npos ? "[" + host + "]" : host;
}

std::vector<core::RememberedDrain> drains_to_take_up(const CoordinatorOptions& options,
                                                     const PlacementKeeper& keeper) {
    std::vector<core::RememberedDrain> drains = keeper.drains();
    std::erase_if(drains, [&](const core::RememberedDrain& drain) {
        const auto& needed = options.planned_workers;
        if (std::find(needed.begin(), needed.end(), drain.worker) == needed.end()) return false;
        LOG_WARN(
            "worker {} was drained before the restart; the placement that was given has layers "
            "for it: it is used again",
            drain.worker);
        return true;
    });
    return drains;
}

core::CoordinatorConfig core_config(const CoordinatorOptions& options,
                                    const PlacementKeeper* keeper) {
    core::CoordinatorConfig config = options.core;
    if (keeper != nullptr && !options.planner) config.remembered = keeper->remembered();
    if (keeper != nullptr) config.remembered_drains = drains_to_take_up(options, *keeper);
    if (options.draft_model == nullptr) config.speculation.draft_tokens = 0;
    config.n_layers = options.model.spec.n_layers;
    config.window = options.model.spec.window;
    config.shared_kv_layers = options.model.spec.shared_kv_layers;
    config.context_length = options.model.spec.context_length;
    if (options.model.spec.encoder) {
        config.encoder = true;
        config.prefix_cache = false;
        // An embedding counts as one token behind its text, which needs no position.
        ++config.context_length;
    }
    config.vocab_size = options.model.vocab_size;
    return config;
}

}  // namespace

CoordinatorServer::CoordinatorServer(CoordinatorOptions options,
                                     std::unique_ptr<PlacementKeeper> keeper)
    : options_(std::move(options)),
      keeper_(std::move(keeper)),
      core_(core_config(options_, keeper_.get())) {
    if (keeper_ != nullptr) kept_drains_ = keeper_->drains();
    static std::atomic<std::uint64_t> next{0};
    const std::uint64_t number = next.fetch_add(1);
    inproc_endpoint_ = fmt::format("inproc://helix-coordinator-{}", number);
    zap_domain_ = fmt::format("coordinator-{}", number);
    const std::int64_t calendar_us = base::calendar_us();
    next_request_ = core::first_request(calendar_us).value;
    term_ = options_.term > 0 ? options_.term : static_cast<std::uint64_t>(calendar_us);
    limits_ = {options_.model.spec.n_layers, options_.model.hidden_size};
}

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(CoordinatorOptions options) {
    TRY_VOID(net::check_key_needed(options.listen_host, options.key.has_value(), options.insecure));
    std::unique_ptr<PlacementKeeper> keeper;
    if (!options.state.empty()) {
        TRY(keeper, PlacementKeeper::open(options.state, options.model));
    }
    std::unique_ptr<CoordinatorServer> server(
        new CoordinatorServer(std::move(options), std::move(keeper)));
    TRY_VOID(server->open());
    server->thread_ = std::thread([raw = server.get()] { raw->run(); });
    server->start_local_workers();
    return server;
}

Status CoordinatorServer::open() {
    TRY(context_, net::ZmqContext::create());
    std::optional<net::KeyPair> keys;
    if (options_.key.has_value()) {
        keys = options_.key->pair;
        join_info_.public_key = keys->public_key;
        TRY_VOID(open_key_check());
    }
    TRY(socket_, net::RouterSocket::create(context_, keys, zap_domain_, options_.transport));
    const std::string host = bind_host(options_.listen_host);
    TRY(const std::string bound,
        socket_->bind(fmt::format("tcp://{}:{}", host, options_.listen_port)));
    TRY(const Address address, parse_address(bound.substr(std::string("tcp://").size())));
    join_info_.cluster_port = address.port;
    TRY_VOID(socket_->bind(inproc_endpoint_));
    ReplanFunction planner = planner_for(options_.model.spec, kPlanLimit);
    if (options_.planner) {
        planner = [given = options_.planner](const spec::ClusterSpec& cluster,
                                             const spec::Placement&) { return given(cluster); };
    }
    planner_ = std::make_unique<PlannerThread>(std::move(planner),
                                               named_planner_for(options_.model.spec), wakeup_);
    if (options_.draft_model != nullptr) {
        drafts_ = std::make_unique<DraftProposer>(std::move(options_.draft_model), wakeup_);
    }
    began_ = now();
    last_tick_ = began_;
    return Ok{};
}

Status CoordinatorServer::open_key_check() {
    const std::string path = options_.key->allow_path;
    list_watch_.emplace(path);
    TRY_VOID(read_allow_list());  // a bad list is an error now, not when the first one knocks
    context_->allow(zap_domain_, [path](std::string_view key) {
        // The list is read anew for each connection, since workers are added while we serve.
        const auto allowed = net::read_allow_list(path);
        if (!allowed.ok()) {
            LOG_ERROR("{}", allowed.error().message);
            return false;
        }
        for (const net::AllowedWorker& worker : *allowed) {
            if (worker.public_key == key) return true;
        }
        return false;
    });
    return Ok{};
}

Status CoordinatorServer::read_allow_list() {
    TRY(const auto list, net::read_allow_list(options_.key->allow_path));
    allowed_.clear();
    for (const net::AllowedWorker& worker : list) allowed_[worker.public_key] = worker.name;
    return Ok{};
}

void CoordinatorServer::start_local_workers() {
    if (options_.local_workers.empty()) return;
    local_place_.context = context_;
    local_place_.endpoint = inproc_endpoint_;
    local_place_.weights = options_.model.weights;
    const std::string host = bind_host(options_.listen_host);
    local_place_.listen_endpoint = fmt::format("tcp://{}:0", host);
    const bool every = host == "*" || host == "0.0.0.0" || host == "[::]";
    std::vector<WorkerOptions> workers = options_.local_workers;
    for (WorkerOptions& worker : workers) {
        if (options_.key.has_value()) {
            worker.key =
                net::WorkerKey{worker.name, options_.key->pair, options_.key->pair.public_key};
        }
        if (every && worker.peer_host.empty()) worker.peer_host = "*";
    }
    local_workers_ = std::make_unique<HostWorkers>(std::move(workers));
    local_thread_ = std::thread([this] {
        const Status ended = local_workers_->run(local_place_);
        if (!ended.ok()) LOG_ERROR("a worker in this process: {}", ended.error().message);
    });
}

CoordinatorServer::~CoordinatorServer() {
    closing_.store(true);
    if (local_workers_ != nullptr) local_workers_->stop();
    if (local_thread_.joinable()) local_thread_.join();
    stopping_.store(true);
    wakeup_.wake();
    if (thread_.joinable()) thread_.join();
    planner_.reset();
    drafts_.reset();
    scaler_.reset();
    sinks_.finish_all("the server is shutting down");
    if (context_ != nullptr) context_->forget(zap_domain_);
}

// ---- other threads
// --------------------------------------------------------------------------------

core::RequestId CoordinatorServer::submit(core::Request request,
                                          std::shared_ptr<api::TokenSink> sink) {
    request.id = core::RequestId{next_request_.fetch_add(1)};
    const core::RequestId id = request.id;
    sinks_.add(id, std::move(sink));
    {
        const std::lock_guard lock(mutex_);
        submissions_.emplace_back(core::Submitted{std::move(request)});
    }
    wakeup_.wake();
    return id;
}

void CoordinatorServer::move(core::RequestId id, core::Pipeline to) {
    {
        const std::lock_guard lock(mutex_);
        submissions_.emplace_back(core::MoveRequest{id, std::move(to)});
    }
    wakeup_.wake();
}

void CoordinatorServer::end(core::RequestId id, core::FinishReason reason) {
    sinks_.drop(id);
    {
        const std::lock_guard lock(mutex_);
        submissions_.emplace_back(core::Ended{id, reason});
    }
    wakeup_.wake();
}

void CoordinatorServer::end_choice(core::RequestId id, std::int32_t choice,
                                   core::FinishReason reason) {
    {
        const std::lock_guard lock(mutex_);
        submissions_.emplace_back(core::Ended{id, reason, choice});
    }
    wakeup_.wake();
}

void CoordinatorServer::drain(const core::DrainWorker& event) {
    {
        const std::lock_guard lock(mutex_);
        submissions_.emplace_back(event);
    }
    wakeup_.wake();
}

base::Status CoordinatorServer::place(const std::map<std::string, spec::LayerRange>& layers) {
    if (options_.planner) {
        return base::Error{base::Errc::denied,
                           "the server was started with --placement, which decides where layers "
                           "go; start it without to change that"};
    }
    {
        const std::lock_guard lock(mutex_);
        chosen_ = layers;
        submissions_.emplace_back(core::PlanAnew{});
    }
    wakeup_.wake();
    return base::Ok{};
}

void CoordinatorServer::watch_stages(StageWatcher watcher) {
    const std::lock_guard lock(mutex_);
    stage_watcher_ = std::move(watcher);
}

core::ClusterView CoordinatorServer::view() {
    const std::lock_guard lock(mutex_);
    return view_;
}

std::optional<api::PlanFigures> CoordinatorServer::plan_figures() {
    const std::lock_guard lock(mutex_);
    return plan_figures_;
}

std::int64_t CoordinatorServer::capacity_tokens() {
    const std::lock_guard lock(mutex_);
    return view_.capacity_tokens;
}

std::optional<CoordinatorServer::LastPlan> CoordinatorServer::last_plan() const {
    const std::lock_guard lock(mutex_);
    return last_plan_;
}

void CoordinatorServer::provide_nodes(std::unique_ptr<NodeProvider> provider) {
    const std::lock_guard lock(mutex_);
    provider_ = std::move(provider);
}

void CoordinatorServer::serve_gateways(GatewayFacts facts) {
    const std::lock_guard lock(mutex_);
    gateway_facts_ = std::move(facts);
}

std::string CoordinatorServer::worker_endpoint(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = endpoints_.find(name);
    return found == endpoints_.end() ? "" : found->second;
}

}  // namespace helix::node

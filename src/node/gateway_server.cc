#include "node/gateway_server.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "model/manifest.h"
#include "node/clock.h"
#include "node/wire_manifest.h"
#include "wire/codec.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

namespace {

constexpr base::Duration kGatewayTickEvery = base::from_ms(50);
constexpr std::size_t kMessagesAtOnce = 256;
constexpr std::chrono::seconds kSayEvery(10);

// "http://HOST:PORT", where host is put for a HOST of "*".
std::string reachable_url(const std::string& url, const std::string& host) {
    constexpr std::string_view kEvery = "://*:";
    const std::size_t at = url.find(kEvery);
    if (at == std::string::npos) return url;
    const bool v6 = host.find(':') != std::string::npos;
    return url.substr(0, at) + "://" + (v6 ? "[" + host + "]" : host) +
           url.substr(at + kEvery.size() - 1);
}

std::string model_words(const wire::GatewayWelcome& welcome) {
    return fmt::format("{} ({}, KV as {})",
                       welcome.names.empty() ? welcome.model.name : welcome.names.front(),
                       base::to_hex(welcome.model_hash).substr(0, 12), welcome.kv_type);
}

// What clients were told of the model, and are not told anew.
bool told_alike(const wire::GatewayWelcome& one, const wire::GatewayWelcome& other) {
    return one.names == other.names && one.chat_template == other.chat_template &&
           one.tool_parser == other.tool_parser &&
           one.model.context_length == other.model.context_length;
}

}  // namespace

GatewayServer::GatewayServer(GatewayOptions options, std::unique_ptr<GatewayLink> link)
    : options_(std::move(options)),
      link_(std::move(link)),
      requests_(options_.rules, wire::check_request, now()) {}

Result<std::unique_ptr<GatewayServer>> GatewayServer::start(GatewayOptions options) {
    TRY(auto link, GatewayLink::create(options.link));
    std::unique_ptr<GatewayServer> server(new GatewayServer(std::move(options), std::move(link)));
    server->thread_ = std::thread([raw = server.get()] { raw->run(); });
    return server;
}

GatewayServer::~GatewayServer() {
    stopping_.store(true);
    wakeup_.wake();
    if (thread_.joinable()) thread_.join();
    sinks_.finish_all("the gateway is shutting down");
}

// ---- other threads
// --------------------------------------------------------------------------------

Result<GatewayServer::Model> GatewayServer::wait_for_model() {
    while (true) {
        Model model;
        std::uint64_t asked = 0;
        {
            std::unique_lock lock(mutex_);
            const auto known = [&] { return there_ || waiting_ended_ || ended_.has_value(); };
            while (!changed_.wait_for(lock, kSayEvery, known)) {
                LOG_INFO("no coordinator yet at {}; still looking",
                         fmt::join(options_.link.join, ", "));
            }
            if (ended_.has_value()) return *ended_;
            if (waiting_ended_) return Error{Errc::unavailable, "it was stopped"};
            model.welcome = *first_;
            asked = coordinators_;
        }
        auto manifest = fetch_manifest(fetcher_, model.welcome.model_hash);
        if (manifest.ok()) {
            TRY(model.file, model::open_manifest(*manifest));
            const std::lock_guard lock(mutex_);
            if (ended_.has_value()) return *ended_;
            model_known_ = true;
            return model;
        }
        const std::lock_guard lock(mutex_);
        const bool same = there_ && asked == coordinators_;
        if (same && !waiting_ended_) return manifest.error();  // else the next one is asked
    }
}

void GatewayServer::stop_waiting() {
    {
        const std::lock_guard lock(mutex_);
        waiting_ended_ = true;
    }
    fetcher_.cancel("it was stopped");
    changed_.notify_all();
}

core::RequestId GatewayServer::submit(core::Request request, std::shared_ptr<api::TokenSink> sink) {
    core::RequestId id;
    {
        const std::lock_guard lock(mutex_);
        id = requests_.submit(std::move(request));
        sinks_.add(id, std::move(sink));
    }
    wakeup_.wake();
    return id;
}

void GatewayServer::end(core::RequestId id, core::FinishReason reason) {
    sinks_.drop(id);
    {
        const std::lock_guard lock(mutex_);
        requests_.end(id, reason);
    }
    wakeup_.wake();
}

void GatewayServer::end_choice(core::RequestId id, std::int32_t choice, core::FinishReason reason) {
    {
        const std::lock_guard lock(mutex_);
        requests_.end_choice(id, choice, reason);
    }
    wakeup_.wake();
}

void GatewayServer::move(core::RequestId id) {
    {
        const std::lock_guard lock(mutex_);
        requests_.move(id);
    }
    wakeup_.wake();
}

void GatewayServer::watch_stages(StageWatcher watcher) {
    const std::lock_guard lock(watcher_mutex_);
    stage_watcher_ = std::move(watcher);
}

core::ClusterView GatewayServer::view() {
    core::ClusterView view;
    view.taken = now();
    const std::lock_guard lock(mutex_);
    view.serving = there_ && view_.serving && !requests_.queue_is_full();
    view.capacity_tokens = view_.capacity_tokens;
    view.waiting = view_.waiting;
    view.running = view_.running;
    return view;
}

std::string GatewayServer::why_not_ready() {
    const std::lock_guard lock(mutex_);
    if (requests_.queue_is_full()) {
        return "As many requests wait for a coordinator as may: no more are taken.";
    }
    return there_ ? "" : "No coordinator is there.";
}

std::int64_t GatewayServer::capacity_tokens() {
    const std::lock_guard lock(mutex_);
    return view_.capacity_tokens;
}

std::string GatewayServer::coordinator_url() const {
    const std::lock_guard lock(mutex_);
    return url_;
}

std::optional<Error> GatewayServer::ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
}

// ---- the loop
// -------------------------------------------------------------------------------------

void GatewayServer::run() {
    while (!stopping_.load()) {
        wait_for_events();
        receive();
        link_->on_time(now());
        note_link();
        for (wire::Message& request : fetcher_.take_requests()) {
            to_send_.push_back(std::move(request));
        }
        if (now() - last_tick_ >= kGatewayTickEvery) {
            last_tick_ = now();
            const std::lock_guard lock(mutex_);
            requests_.on_tick(last_tick_);
        }
        send();
        note_link();
        tell();
    }
    link_->leave("it is shutting down");
    fetcher_.cancel("the gateway is shutting down");
}

void GatewayServer::wait_for_events() {
    net::ZmqSocket* socket = link_->socket();
    const std::span<net::ZmqSocket* const> sockets(&socket, socket != nullptr ? 1 : 0);
    base::TimePoint until = last_tick_ + kGatewayTickEvery;
    if (!link_->there()) until = std::min(until, link_->next_time());
    net::wait(sockets, wakeup_.fd(), until - now());
    wakeup_.clear();
}

void GatewayServer::receive() {
    for (GatewayLink::Arrived& arrived : link_->receive(now())) {
        const Status taken = on_message(std::move(arrived));
        if (taken.ok()) continue;
        link_->close(now(), "the coordinator makes no sense: it " + taken.error().message);
        return;
    }
}

// The error says how the coordinator breaks the protocol.
Status GatewayServer::on_message(GatewayLink::Arrived arrived) {
    return std::visit(
        base::Overloaded{
            [&](const wire::GatewayWelcome& welcome) -> Status {
                if (had_coordinator_) return base::invalid("said GatewayWelcome twice");
                on_welcome(welcome);
                return Ok{};
            },
            [&](core::RequestEvents& events) -> Status {
                const std::lock_guard lock(mutex_);
                return requests_.on_events(now(), std::move(events));
            },
            [&](const core::RequestNumbers& numbers) -> Status {
                const std::lock_guard lock(mutex_);
                requests_.on_numbers(numbers);
                return Ok{};
            },
            [&](const wire::GatewayView& view) -> Status {
                const std::lock_guard lock(mutex_);
                view_ = view;
                return Ok{};
            },
            [&](wire::Manifest& manifest) -> Status {
                fetcher_.on_manifest(std::move(manifest));
                return Ok{};
            },
            [&](const wire::Chunk& chunk) -> Status {
                fetcher_.on_chunk(chunk, arrived.payload);
                return Ok{};
            },
            [&](const auto&) -> Status {
                return base::invalid(fmt::format("sent a {}, which no gateway expects",
                                                 wire::message_name(arrived.message)));
            },
        },
        arrived.message);
}

void GatewayServer::on_welcome(const wire::GatewayWelcome& welcome) {
    bool other = false;
    {
        const std::lock_guard lock(mutex_);
        if (!first_.has_value()) first_ = welcome;
        other = first_->model_hash != welcome.model_hash || first_->kv_type != welcome.kv_type;
        if (!other && !told_alike(*first_, welcome)) {
            LOG_WARN(
                "the coordinator tells the model's names, context or chat template otherwise than "
                "the first one did: clients are told of them when the gateway is started again");
        }
        url_ = reachable_url(welcome.http_endpoint, link_->host());
    }
    if (other) {
        return end_for_good(base::invalid(fmt::format(
            "the gateway serves {}, and the coordinator serves {} now: answers cannot go on, and "
            "the gateway has to be started again",
            model_words(*first_), model_words(welcome))));
    }
    fetcher_.begin(welcome.model_id);
    const std::lock_guard lock(mutex_);
    had_coordinator_ = true;
    there_ = true;
    ++coordinators_;
    requests_.on_coordinator();
    changed_.notify_all();
}

// Passes on that the coordinator is gone, or that none will ever be there.
void GatewayServer::note_link() {
    if (const auto& hopeless = link_->hopeless(); hopeless.has_value()) end_for_good(*hopeless);
    if (!had_coordinator_ || link_->there()) return;
    had_coordinator_ = false;
    to_send_.clear();
    {
        const std::lock_guard lock(mutex_);
        there_ = false;
        requests_.on_coordinator_gone(now());
    }
    fetcher_.cancel("the coordinator is gone");
}

void GatewayServer::end_for_good(const Error& error) {
    bool tell_caller = false;
    {
        const std::lock_guard lock(mutex_);
        if (ended_.has_value()) return;
        ended_ = error;
        tell_caller = model_known_;
        requests_.close(error.message);
        changed_.notify_all();
    }
    link_->leave(error.message);
    fetcher_.cancel(error.message);
    if (tell_caller && options_.on_end) options_.on_end();
}

void GatewayServer::send() {
    while (link_->there()) {
        if (to_send_.empty()) {
            const std::lock_guard lock(mutex_);
            for (core::GatewayMessage& message : requests_.take_messages(kMessagesAtOnce)) {
                std::visit([&](auto& one) { to_send_.emplace_back(std::move(one)); }, message);
            }
        }
        if (to_send_.empty()) return;
        if (!link_->send(now(), to_send_.front()).ok()) return;  // later, or never
        to_send_.pop_front();
    }
}

// ---- clients
// --------------------------------------------------------------------------------------

void GatewayServer::tell() {
    std::vector<core::RequestEvent> told;
    {
        const std::lock_guard lock(mutex_);
        told = requests_.take_told();
    }
    for (core::RequestEvent& event : told) tell(std::move(event));
}

void GatewayServer::tell(core::RequestEvent event) {
    const auto to_sink = [&](core::RequestId id, bool last, const auto& say) {
        sinks_.tell(id, last, say);
    };
    std::visit(
        base::Overloaded{
            [&](const core::AcceptRequest& one) {
                to_sink(one.id, false, [](api::TokenSink& sink) { sink.on_accepted(); });
            },
            [&](const core::RejectRequest& one) {
                to_sink(one.id, true, [&](api::TokenSink& sink) { sink.on_reject(one); });
            },
            [&](const core::RequestRouted& one) {
                to_sink(one.id, false, [&](api::TokenSink& sink) { sink.on_routed(one); });
            },
            [&](const core::StreamToken& one) {
                to_sink(one.id, false,
                        [&](api::TokenSink& sink) { sink.on_token(one.choice, one.token); });
            },
            [&](const core::ScoreTokens& one) {
                to_sink(one.id, false, [&](api::TokenSink& sink) { sink.on_scored(one.tokens); });
            },
            [&](const core::EmbedPrompt& one) {
                to_sink(one.id, false,
                        [&](api::TokenSink& sink) { sink.on_embedding(one.values); });
            },
            [&](const core::FinishChoice& one) {
                to_sink(one.id, false, [&](api::TokenSink& sink) {
                    sink.on_choice_finish(one.choice, one.reason);
                });
            },
            [&](const core::FinishRequest& one) {
                to_sink(one.id, true,
                        [&](api::TokenSink& sink) { sink.on_finish(one.reason, one.error); });
            },
            [&](const core::StageTimed& one) {
                const std::lock_guard lock(watcher_mutex_);
                if (stage_watcher_) stage_watcher_(one);
            },
        },
        event);
}

}  // namespace helix::node

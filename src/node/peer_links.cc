#include "node/peer_links.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "node/clock.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

namespace {

// The time within which a link that was opened must be connected; each further try has twice as
// long.
constexpr base::Duration kConnectWithin = base::from_ms(2000);
constexpr base::Duration kConnectAtMost = base::from_ms(8000);

// What peers may say of their own accord; none: it is something else.
std::optional<PeerLinks::PeerMessage> unasked_from_peer(wire::Message message) {
    using Unasked = std::optional<PeerLinks::PeerMessage>;
    return std::visit(
        base::Overloaded{
            [](base::OneOf<core::StageInputs, core::KvBlocks, wire::TensorRequest, wire::Ping> auto&
                   one) -> Unasked { return PeerLinks::PeerMessage(std::move(one)); },
            [](auto&) -> Unasked { return std::nullopt; },
        },
        message);
}

}  // namespace

std::string endpoint_host(const std::string& endpoint) {
    constexpr std::string_view kScheme = "tcp://";
    if (!endpoint.starts_with(kScheme)) return "";
    const std::size_t colon = endpoint.rfind(':');
    if (colon < kScheme.size()) return "";
    return endpoint.substr(kScheme.size(), colon - kScheme.size());
}

Result<std::unique_ptr<PeerLinks>> PeerLinks::create(Options options) {
    static std::atomic<std::uint64_t> next{0};
    std::unique_ptr<PeerLinks> links(new PeerLinks(std::move(options)));
    const Options& set = links->options_;
    links->domain_ = fmt::format("worker-{}", next.fetch_add(1));
    TRY(links->listener_,
        net::RouterSocket::create(set.context, set.keys, links->domain_, set.transport));
    TRY(links->endpoint_, links->listener_->bind(set.listen_endpoint));
    return links;
}

PeerLinks::~PeerLinks() {
    options_.context->forget(domain_);
}

void PeerLinks::set_self(core::WorkerId self, std::uint64_t incarnation) {
    self_ = self;
    incarnation_ = incarnation;
}

void PeerLinks::allow(std::set<std::string> keys) {
    if (!options_.keys.has_value()) return;
    for (const auto& [connection, peer] : greeted_) {
        if (!keys.contains(peer.key)) listener_->ban(connection);
    }
    options_.context->allow(domain_, [keys = std::move(keys)](std::string_view key) {
        return keys.contains(std::string(key));
    });
}

void PeerLinks::connect(const std::vector<core::Peer>& peers) {
    std::map<core::WorkerId, Link> next;
    for (const core::Peer& peer : peers) {
        if (peer.worker == self_) continue;
        const auto old = links_.find(peer.worker);
        if (old != links_.end() && old->second.peer == peer) {
            next.emplace(peer.worker, std::move(old->second));
            links_.erase(old);
        } else {
            next.emplace(peer.worker, Link{peer});
        }
    }
    for (const auto& [worker, link] : links_) {
        if (link.told_down) mended_.insert(worker);
    }
    links_ = std::move(next);
}

core::Peer PeerLinks::reachable(core::Peer peer) const {
    if (endpoint_host(peer.endpoint) == "*") {
        peer.endpoint.replace(peer.endpoint.find('*'), 1, options_.coordinator_host);
    }
    return peer;
}

std::optional<core::Peer> PeerLinks::peer(core::WorkerId worker) const {
    const auto found = links_.find(worker);
    if (found == links_.end()) return std::nullopt;
    return reachable(found->second.peer);
}

std::set<std::string> PeerLinks::endpoints() const {
    std::set<std::string> all;
    for (const auto& [worker, link] : links_) all.insert(reachable(link.peer).endpoint);
    return all;
}

Status PeerLinks::open(Link& link, base::TimePoint now) {
    const core::Peer peer = reachable(link.peer);
    TRY(link.socket, net::DealerSocket::connect(options_.context, peer.endpoint, options_.keys,
                                                peer.public_key, options_.transport));
    link.opened = now;
    link.connected = false;
    if (link.patience.ns == 0) link.patience = kConnectWithin;
    return link.socket->send(
        net::Frame::of(wire::encode(wire::PeerHello{wire::kProtocolVersion, self_, incarnation_})));
}

Status PeerLinks::send(base::TimePoint now, core::WorkerId peer, const wire::Message& message,
                       const net::Frame& payload) {
    const auto found = links_.find(peer);
    if (found == links_.end()) {
        return Error{Errc::unavailable, fmt::format("worker {} is no peer", peer.value)};
    }
    Link& link = found->second;
    if (link.broken_since.has_value()) return Ok{};
    if (link.socket == nullptr) TRY_VOID(open(link, now));
    return link.socket->send(net::Frame::of(wire::encode(message)), payload);
}

void PeerLinks::receive_from_listener(const wire::SessionLimits& limits,
                                      std::vector<Arrived>& arrived) {
    while (std::optional<net::Received> got = listener_->receive()) {
        auto message = got->malformed
                           ? Result<wire::Message>(base::invalid("wrong number of frames"))
                           : wire::decode(got->header.bytes, got->payload.bytes.size(), limits);
        const auto known = greeted_.find(got->from);
        if (message.ok() && known == greeted_.end()) {
            const auto* hello = std::get_if<wire::PeerHello>(&*message);
            if (hello == nullptr || hello->protocol != wire::kProtocolVersion) {
                message = base::invalid("expected a PeerHello of this version first");
            } else {
                greeted_[got->from] = {hello->worker, got->public_key};
                listener_->admit(got->from);
                continue;
            }
        }
        std::optional<PeerMessage> for_us;
        if (message.ok()) {
            const char* const name = wire::message_name(*message);
            for_us = unasked_from_peer(std::move(*message));
            if (!for_us.has_value()) message = base::invalid(fmt::format("{} from a peer", name));
        }
        if (!message.ok()) {
            if (strangers_log_.take(node::now())) {
                LOG_WARN("cut off a peer: {}", message.error().message);
            }
            listener_->ban(got->from);
            continue;
        }
        arrived.push_back(
            {std::move(*for_us), std::move(got->payload), got->from, known->second.worker});
    }
}

std::vector<PeerLinks::Arrived> PeerLinks::receive(const wire::SessionLimits& limits) {
    std::vector<Arrived> arrived;
    receive_from_listener(limits, arrived);
    for (auto& [worker, link] : links_) {
        while (link.socket != nullptr) {
            std::optional<net::Received> got = link.socket->receive();
            if (!got.has_value()) break;
            auto message = wire::decode(got->header.bytes, got->payload.bytes.size(), limits);
            if (!message.ok() || got->malformed || !std::holds_alternative<wire::Pong>(*message)) {
                LOG_WARN("worker {} answered something else than a Pong; ignored", worker.value);
                continue;
            }
            arrived.push_back({std::get<wire::Pong>(*message), {}, {}, worker});
        }
    }
    return arrived;
}

void PeerLinks::reply(const std::string& connection, const wire::Message& message,
                      const net::Frame& payload) {
    const Status sent = listener_->send(connection, net::Frame::of(wire::encode(message)), payload);
    if (!sent.ok()) LOG_DEBUG("answer to a peer: {}", sent.error().message);
}

void PeerLinks::look_after(base::TimePoint now, core::WorkerId worker) {
    const auto found = links_.find(worker);
    if (found == links_.end() || found->second.socket != nullptr) return;
    const Status opened = open(found->second, now);
    if (!opened.ok()) LOG_WARN("worker {}: {}", worker.value, opened.error().message);
}

void PeerLinks::watch(base::TimePoint now) {
    for (const net::LinkEvent& event : listener_->take_events()) {
        if (event.kind == net::LinkEventKind::disconnected) greeted_.erase(event.connection);
        if (event.kind == net::LinkEventKind::refused && strangers_log_.take(now)) {
            LOG_WARN("refused a peer at {}", event.detail);
        }
    }
    if (const std::string more = strangers_log_.take_summary(now); !more.empty()) {
        LOG_WARN("peers refused or cut off, {}", more);
    }
    for (auto& [worker, link] : links_) {
        if (link.socket != nullptr) watch(link, now);
    }
}

void PeerLinks::watch(Link& link, base::TimePoint now) {
    bool broke = false;
    for (const net::LinkEvent& event : link.socket->take_events()) {
        if (event.kind == net::LinkEventKind::connected) {
            link.connected = true;
            continue;
        }
        if (!link.broken_since.has_value()) {
            LOG_WARN("the link to worker {} broke: {}", link.peer.worker.value, event.detail);
            link.broken_since = now;
        }
        broke = true;
    }
    if (!link.connected && now - link.opened >= link.patience) {
        if (!link.broken_since.has_value()) {
            LOG_WARN("no link to worker {}: {} does not answer", link.peer.worker.value,
                     reachable(link.peer).endpoint);
            link.broken_since = link.opened;
        }
        link.patience = std::min(link.patience + link.patience, kConnectAtMost);
        broke = true;
    }
    if (broke) {
        reopen(link, now);
    } else if (link.connected && link.broken_since.has_value()) {
        LOG_INFO("the link to worker {} is back", link.peer.worker.value);
        link.broken_since.reset();
        link.patience = kConnectWithin;
        link.told_down = false;
        mended_.insert(link.peer.worker);
    }
}

// Whatever waited in the old socket belongs to requests that go on elsewhere, and the other side
// wants to be greeted on each connection.
void PeerLinks::reopen(Link& link, base::TimePoint now) {
    const Status opened = open(link, now);
    if (!opened.ok()) LOG_WARN("worker {}: {}", link.peer.worker.value, opened.error().message);
}

std::vector<core::Peer> PeerLinks::take_down(base::TimePoint now, base::Duration grace) {
    std::vector<core::Peer> down;
    for (auto& [worker, link] : links_) {
        if (!link.broken_since.has_value() || link.told_down) continue;
        if (now - *link.broken_since <= grace) continue;
        link.told_down = true;
        down.push_back(link.peer);
    }
    return down;
}

std::vector<core::WorkerId> PeerLinks::take_mended() {
    const std::set<core::WorkerId> mended = std::exchange(mended_, {});
    return {mended.begin(), mended.end()};
}

bool PeerLinks::works(core::WorkerId worker) const {
    const auto found = links_.find(worker);
    return found != links_.end() && found->second.connected &&
           !found->second.broken_since.has_value();
}

void PeerLinks::add_sockets(std::vector<net::ZmqSocket*>& sockets) const {
    sockets.push_back(listener_.get());
    for (const auto& [worker, link] : links_) {
        if (link.socket != nullptr) sockets.push_back(link.socket.get());
    }
}

}  // namespace helix::node

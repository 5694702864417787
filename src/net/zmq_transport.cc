#include "net/zmq_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace helix::net {
namespace {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

constexpr int kRefusedEvents = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
constexpr std::size_t kMostEvents = 4096;      // events that nobody has taken yet
constexpr std::size_t kCopyBelowBytes = 1024;  // smaller frames are cheaper to copy than to share

Error zmq_error(const std::string& what) {
    const int error = zmq_errno();
    if (error == EAGAIN) return {Errc::overloaded, what + ": the peer does not take its messages"};
    if (error == EHOSTUNREACH) return {Errc::unavailable, what + ": the peer is gone"};
    return {Errc::io, fmt::format("{}: {}", what, zmq_strerror(error))};
}

// A received message, owned by shared_ptr.
struct MessageOwner {
    MessageOwner() { zmq_msg_init(&message); }
    ~MessageOwner() { zmq_msg_close(&message); }
    MessageOwner(const MessageOwner&) = delete;
    MessageOwner& operator=(const MessageOwner&) = delete;
    zmq_msg_t message;
};

Frame to_frame(std::shared_ptr<MessageOwner> owner) {
    const auto* data = static_cast<const std::byte*>(zmq_msg_data(&owner->message));
    const std::size_t size = zmq_msg_size(&owner->message);
    // libzmq hands out parts of its receive buffer, but rows must be aligned to be read as floats.
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(double) != 0) {
        auto copy = std::make_shared<std::vector<std::byte>>(data, data + size);
        return {copy, std::span<const std::byte>(*copy)};
    }
    return {std::move(owner), {data, size}};
}

void release_frame(void* /*data*/, void* hint) {
    delete static_cast<Frame*>(hint);
}

bool fill_message(zmq_msg_t& message, const Frame& frame) {
    if (frame.bytes.size() < kCopyBelowBytes) {
        if (zmq_msg_init_size(&message, frame.bytes.size()) != 0) return false;
        if (!frame.bytes.empty()) {
            std::memcpy(zmq_msg_data(&message), frame.bytes.data(), frame.bytes.size());
        }
        return true;
    }
    auto kept = std::make_unique<Frame>(frame);
    void* data = const_cast<std::byte*>(frame.bytes.data());  // libzmq only reads it
    if (zmq_msg_init_data(&message, data, frame.bytes.size(), release_frame, kept.get()) != 0)
        return false;
    kept.release();
    return true;
}

Status send_one(void* socket, const Frame& frame, int flags) {
    zmq_msg_t message;
    if (!fill_message(message, frame)) return zmq_error("send");
    if (zmq_msg_send(&message, socket, flags | ZMQ_DONTWAIT) < 0) {
        const Error error = zmq_error("send");
        zmq_msg_close(&message);
        return error;
    }
    return Ok{};
}

std::string next_monitor_name() {
    static std::atomic<std::uint64_t> next{0};
    return fmt::format("inproc://helix-monitor-{}", next.fetch_add(1));
}

}  // namespace

// ---- ZmqSocket
// ------------------------------------------------------------------------------------

ZmqSocket::ZmqSocket(std::shared_ptr<ZmqContext> context, int type, const TransportOptions& options)
    : context_(std::move(context)), socket_(zmq_socket(context_->handle(), type)) {
    if (socket_ == nullptr) return;
    const int linger_ms = 0;
    const int ttl_ms = options.heartbeat_timeout_ms;
    const int reconnect_ms = 100;
    const int reconnect_max_ms = 1000;
    const int ipv6 = 1;
    // These options take these types and cannot fail on a new socket.
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket_, ZMQ_IPV6, &ipv6, sizeof ipv6);
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &options.high_water, sizeof options.high_water);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &options.high_water, sizeof options.high_water);
    zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &options.max_frame_bytes,
                   sizeof options.max_frame_bytes);
    zmq_setsockopt(socket_, ZMQ_HEARTBEAT_IVL, &options.heartbeat_interval_ms, sizeof(int));
    zmq_setsockopt(socket_, ZMQ_HEARTBEAT_TIMEOUT, &options.heartbeat_timeout_ms, sizeof(int));
    zmq_setsockopt(socket_, ZMQ_HEARTBEAT_TTL, &ttl_ms, sizeof ttl_ms);
    zmq_setsockopt(socket_, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof reconnect_ms);
    zmq_setsockopt(socket_, ZMQ_RECONNECT_IVL_MAX, &reconnect_max_ms, sizeof reconnect_max_ms);
}

ZmqSocket::~ZmqSocket() {
    close();
}

void ZmqSocket::close() {
    if (monitor_ != nullptr) {
        zmq_socket_monitor(socket_, nullptr, 0);
        zmq_close(std::exchange(monitor_, nullptr));
    }
    if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
}

Status ZmqSocket::set_option(int option, const void* value, std::size_t size) {
    if (zmq_setsockopt(socket_, option, value, size) == 0) return Ok{};
    return zmq_error(fmt::format("socket option {}", option));
}

Status ZmqSocket::set_text(int option, const std::string& value) {
    return set_option(option, value.data(), value.size());
}

Status ZmqSocket::start_monitor(int events) {
    const std::string name = next_monitor_name();
    if (zmq_socket_monitor(socket_, name.c_str(), events) != 0) return zmq_error("monitor");
    monitor_ = zmq_socket(context_->handle(), ZMQ_PAIR);
    if (monitor_ == nullptr || zmq_connect(monitor_, name.c_str()) != 0)
        return zmq_error("monitor");
    return Ok{};
}

void ZmqSocket::drain_monitor() {
    while (monitor_ != nullptr) {
        MessageOwner event;
        if (zmq_msg_recv(&event.message, monitor_, ZMQ_DONTWAIT) < 0) return;
        MessageOwner address;
        if (zmq_msg_recv(&address.message, monitor_, ZMQ_DONTWAIT) < 0) return;
        if (zmq_msg_size(&event.message) != sizeof(std::uint16_t) + sizeof(std::uint32_t)) continue;
        // The event's value is a descriptor of libzmq, which names nothing: it may be another
        // connection's by now.
        std::uint16_t kind = 0;
        std::memcpy(&kind, zmq_msg_data(&event.message), sizeof kind);
        std::string where(static_cast<const char*>(zmq_msg_data(&address.message)),
                          zmq_msg_size(&address.message));
        if (events_.size() >= kMostEvents) continue;
        if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            on_event(LinkEventKind::connected, std::move(where));
        } else if (kind == ZMQ_EVENT_DISCONNECTED) {
            on_event(LinkEventKind::disconnected, std::move(where));
        } else if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
            on_event(LinkEventKind::refused, where + ": the key was refused");
        } else {
            on_event(LinkEventKind::refused, where + ": the handshake failed");
        }
    }
}

std::vector<LinkEvent> ZmqSocket::take_events() {
    drain_monitor();
    return std::exchange(events_, {});
}

std::optional<Received> ZmqSocket::receive_frames(bool has_identity) {
    std::vector<Frame> frames;
    Received received;
    while (true) {
        auto owner = std::make_shared<MessageOwner>();
        if (zmq_msg_recv(&owner->message, socket_, ZMQ_DONTWAIT) < 0) return std::nullopt;
        const bool more = zmq_msg_more(&owner->message) != 0;
        if (!more) {
            const char* address = zmq_msg_gets(&owner->message, "Peer-Address");
            last_address_ = address == nullptr ? "" : address;
            const char* user = zmq_msg_gets(&owner->message, "User-Id");
            if (user != nullptr) received.public_key = user;
        }
        // One frame more than our messages have is enough to see that it is none of ours.
        if (frames.size() < 4) frames.push_back(to_frame(std::move(owner)));
        if (!more) break;
    }
    std::size_t next = 0;
    if (has_identity) {
        const auto id = frames[next++].bytes;
        received.from.assign(reinterpret_cast<const char*>(id.data()), id.size());
    }
    const std::size_t body = frames.size() - next;
    received.malformed = body < 1 || body > 2;
    if (body >= 1) received.header = std::move(frames[next]);
    if (body >= 2) received.payload = std::move(frames[next + 1]);
    return received;
}

Status ZmqSocket::send_frames(const std::string* identity, const Frame& header,
                              const Frame& payload) {
    if (identity != nullptr) {
        if (zmq_send(socket_, identity->data(), identity->size(), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
            return zmq_error("send");
        }
    }
    // Once the first part is taken, libzmq takes the others of the same message.
    const bool has_payload = !payload.bytes.empty();
    TRY_VOID(send_one(socket_, header, has_payload ? ZMQ_SNDMORE : 0));
    if (has_payload) TRY_VOID(send_one(socket_, payload, 0));
    return Ok{};
}

// ---- RouterSocket
// ---------------------------------------------------------------------------------

Result<std::unique_ptr<RouterSocket>> RouterSocket::create(std::shared_ptr<ZmqContext> context,
                                                           const std::optional<KeyPair>& keys,
                                                           const std::string& domain,
                                                           const TransportOptions& options) {
    std::unique_ptr<RouterSocket> router(new RouterSocket(std::move(context), ZMQ_ROUTER, options));
    if (router->socket_ == nullptr) return zmq_error("create a socket");
    const int yes = 1;
    TRY_VOID(router->set_option(ZMQ_ROUTER_MANDATORY, &yes, sizeof yes));
    if (keys.has_value()) {
        TRY_VOID(router->set_option(ZMQ_CURVE_SERVER, &yes, sizeof yes));
        TRY_VOID(router->set_text(ZMQ_CURVE_PUBLICKEY, keys->public_key));
        TRY_VOID(router->set_text(ZMQ_CURVE_SECRETKEY, keys->secret_key));
    }
    TRY_VOID(router->set_text(ZMQ_ZAP_DOMAIN, domain));
    TRY_VOID(router->start_monitor(kRefusedEvents));
    router->options_ = options;
    router->domain_ = domain;
    return router;
}

RouterSocket::~RouterSocket() {
    context_->guard(domain_, {});
    close();  // closes before the gate, which passes on what was said last
}

Result<std::string> RouterSocket::bind(const std::string& endpoint) {
    if (endpoint.starts_with("tcp://")) return bind_tcp(endpoint);
    if (zmq_bind(socket_, endpoint.c_str()) != 0) return zmq_error("listen on " + endpoint);
    return endpoint;
}

// libzmq listens only for this process, the gate for all others.
Result<std::string> RouterSocket::bind_tcp(const std::string& endpoint) {
    if (gate_ != nullptr) return base::invalid("listen on " + endpoint + ": it listens already");
    const int backlog = 1024;
    const int ipv6 = 0;  // addresses as the gate writes them
    TRY_VOID(set_option(ZMQ_IPV6, &ipv6, sizeof ipv6));
    TRY_VOID(set_option(ZMQ_BACKLOG, &backlog, sizeof backlog));
    if (zmq_bind(socket_, "tcp://127.0.0.1:*") != 0) return zmq_error("listen on " + endpoint);
    std::array<char, 512> text = {};
    std::size_t size = text.size();
    if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) {
        return zmq_error("listen on " + endpoint);
    }
    const std::string inner(text.data());
    GateOptions gate;
    gate.limits.max_frame_bytes = options_.max_frame_bytes;
    gate.limits.max_message_bytes = 2 * options_.max_frame_bytes;
    gate.max_peers =
        options_.max_peers > 0 ? options_.max_peers : peers_for(raise_open_file_limit());
    gate.stranger_bytes = options_.stranger_bytes;
    gate.stranger_timeout = base::from_ms(options_.stranger_timeout_ms);
    const int port = std::atoi(inner.substr(inner.rfind(':') + 1).c_str());
    TRY(gate_, ZmqGate::open(endpoint, static_cast<std::uint16_t>(port), gate));
    context_->guard(domain_,
                    [raw = gate_.get()](std::string_view address) { return raw->enters(address); });
    gate_->start();
    return gate_->endpoint();
}

// Notes where the last message came from. False if it did not come through the gate, or came from a
// peer that is forgotten.
bool RouterSocket::take_note(const std::string& connection) {
    if (last_address_.empty()) return true;  // in this process
    const auto found = address_of_.find(connection);
    if (found != address_of_.end()) return found->second == last_address_;
    if (gate_ == nullptr || !gate_->knows(last_address_)) return false;
    address_of_[connection] = last_address_;
    connection_of_[last_address_] = connection;
    return true;
}

std::optional<Received> RouterSocket::receive() {
    while (true) {
        std::optional<Received> received = receive_frames(true);
        if (!received.has_value()) {
            settle_ended();
            return std::nullopt;
        }
        if (take_note(received->from) && !banned_.contains(received->from)) return received;
    }
}

// Once it is known that a peer has ended, all that it said has come when nothing more can be
// received.
void RouterSocket::settle_ended() {
    if (gate_ == nullptr) return;
    for (std::string& address : gate_->take_ended()) ending_.push_back(std::move(address));
    if (ending_.empty()) return;
    int events = 0;
    std::size_t size = sizeof events;
    const bool known = zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0;
    if (!known || (events & ZMQ_POLLIN) != 0) return;
    for (const std::string& address : std::exchange(ending_, {})) {
        gate_->forget(address);
        const auto found = connection_of_.find(address);
        if (found == connection_of_.end()) continue;
        events_.push_back({LinkEventKind::disconnected, found->second, "its connection ended"});
        banned_.erase(found->second);
        address_of_.erase(found->second);
        connection_of_.erase(found);
    }
}

std::vector<LinkEvent> RouterSocket::take_events() {
    settle_ended();
    return ZmqSocket::take_events();
}

Status RouterSocket::send(const std::string& connection, const Frame& header,
                          const Frame& payload) {
    return send_frames(&connection, header, payload);
}

void RouterSocket::admit(const std::string& connection) {
    const auto found = address_of_.find(connection);
    if (found != address_of_.end()) gate_->admit(found->second);
}

void RouterSocket::ban(const std::string& connection) {
    const auto found = address_of_.find(connection);
    if (found == address_of_.end()) return;  // closed already, or in this process
    banned_.insert(connection);
    gate_->close(found->second);
}

void RouterSocket::on_event(LinkEventKind kind, std::string detail) {
    events_.push_back({kind, {}, std::move(detail)});
}

// ---- DealerSocket
// ---------------------------------------------------------------------------------

Result<std::unique_ptr<DealerSocket>> DealerSocket::connect(std::shared_ptr<ZmqContext> context,
                                                            const std::string& endpoint,
                                                            const std::optional<KeyPair>& keys,
                                                            const std::string& server_key,
                                                            const TransportOptions& options) {
    std::unique_ptr<DealerSocket> dealer(new DealerSocket(std::move(context), ZMQ_DEALER, options));
    if (dealer->socket_ == nullptr) return zmq_error("create a socket");
    if (!server_key.empty()) {
        if (!keys.has_value()) {
            return Error{Errc::denied, endpoint + " demands a key; give one with --key"};
        }
        TRY_VOID(dealer->set_text(ZMQ_CURVE_SERVERKEY, server_key));
        TRY_VOID(dealer->set_text(ZMQ_CURVE_PUBLICKEY, keys->public_key));
        TRY_VOID(dealer->set_text(ZMQ_CURVE_SECRETKEY, keys->secret_key));
    }
    TRY_VOID(dealer->start_monitor(kRefusedEvents | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                   ZMQ_EVENT_DISCONNECTED));
    if (zmq_connect(dealer->socket_, endpoint.c_str()) != 0)
        return zmq_error("connect to " + endpoint);
    return dealer;
}

std::optional<Received> DealerSocket::receive() {
    return receive_frames(false);
}

Status DealerSocket::send(const Frame& header, const Frame& payload) {
    return send_frames(nullptr, header, payload);
}

void DealerSocket::set_linger(base::Duration linger) {
    const int linger_ms = static_cast<int>(linger.ms());
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
}

void DealerSocket::on_event(LinkEventKind kind, std::string detail) {
    events_.push_back({kind, {}, std::move(detail)});
}

// ---- waiting
// --------------------------------------------------------------------------------------

Wakeup::Wakeup() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    CHECK(fd_ >= 0);
}

Wakeup::~Wakeup() {
    ::close(fd_);
}

void Wakeup::wake() const {
    const std::uint64_t one = 1;
    // If the pipe is full a wake-up is already waiting.
    [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void Wakeup::clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
}

void wait(std::span<ZmqSocket* const> sockets, int wakeup_fd, base::Duration timeout) {
    std::vector<zmq_pollitem_t> items;
    items.reserve(3 * sockets.size() + 1);
    for (const ZmqSocket* socket : sockets) {
        items.push_back({socket->socket_, 0, ZMQ_POLLIN, 0});
        if (socket->monitor_ != nullptr) items.push_back({socket->monitor_, 0, ZMQ_POLLIN, 0});
        if (socket->event_fd() >= 0) items.push_back({nullptr, socket->event_fd(), ZMQ_POLLIN, 0});
    }
    if (wakeup_fd >= 0) items.push_back({nullptr, wakeup_fd, ZMQ_POLLIN, 0});
    const auto timeout_ms =
        static_cast<long>(timeout.ns <= 0 ? 0 : (timeout.ns + 999'999) / 1'000'000);
    zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms);
}

}  // namespace helix::net

#include "net/zmq_gate.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/bound_socket.h"

namespace helix::net {

using base::Errc;
using base::Error;
using base::Ok;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kScratchBytes = std::size_t{256} << 10U;
constexpr int kReadsAtOnce = 8;  // reads of one peer before the others have their turn
constexpr int kTickMs = 250;
constexpr base::Duration kPause = base::from_ms(100);  // pause when descriptors are short
constexpr base::Duration kLastWords =
    base::from_seconds(2);                             // for what libzmq has said last to a peer
constexpr base::Duration kGrace = base::from_ms(500);  // the same, when the gate itself ends
constexpr std::uint64_t kListener = ~std::uint64_t{0};
constexpr std::uint64_t kWake = kListener - 1;
constexpr std::uint32_t kNumbers = std::uint32_t{1} << 22U;  // 127.64.0.0 to 127.127.255.255

base::TimePoint now() {
    return {std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

Error failed(const std::string& what) {
    return {Errc::io, fmt::format("{}: {}", what, std::strerror(errno))};
}

void close_fd(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
}

void signal(int event) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
}

void clear(int event) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event, &count, sizeof count);
}

std::uint32_t host_address(std::uint32_t number) {
    return (std::uint32_t{127} << 24U) | (std::uint32_t{64} << 16U) | number;
}

std::string text_of(std::uint32_t number) {
    const std::uint32_t a = host_address(number);
    return fmt::format("{}.{}.{}.{}", a >> 24U, (a >> 16U) & 255U, (a >> 8U) & 255U, a & 255U);
}

std::string describe(const sockaddr_storage& address, socklen_t size) {
    char host[NI_MAXHOST] = {};
    char port[NI_MAXSERV] = {};
    if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                      sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "?";
    }
    if (address.ss_family == AF_INET6) return fmt::format("[{}]:{}", host, port);
    return fmt::format("{}:{}", host, port);
}

// Makes a socket that listens on this address.
Result<int> listen_on(const addrinfo& address) {
    TRY(int fd, bound_socket(address.ai_addr, address.ai_addrlen));
    if (::listen(fd, SOMAXCONN) == 0) return fd;
    const int error = errno;
    close_fd(fd);
    return Error{Errc::io, std::strerror(error)};
}

// A connection to libzmq, coming from this number's address; it may not be complete yet.
int connect_inner(std::uint32_t number, std::uint16_t port) {
    int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in from = {};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(host_address(number));
    sockaddr_in to = from;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) == 0;
    if (bound &&
        (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS)) {
        return fd;
    }
    close_fd(fd);
    return -1;
}

}  // namespace

struct ZmqGate::Peer {
    // One of the two sides of a peer's connection.
    struct Side {
        int fd = -1;
        bool ended = false;      // nothing more comes from it
        bool watched = true;     // by epoll
        std::uint32_t mask = 0;  // what epoll waits for
        std::string pending;     // bytes still to be sent to this side
    };
    Peer(std::uint32_t n, const ZmtpLimits& limits) : number(n), meter(limits) {}
    ~Peer() {
        close_fd(outer.fd);
        close_fd(inner.fd);
    }
    std::uint32_t number;
    Side outer;  // to the network
    Side inner;  // to libzmq
    std::string from;
    ZmtpMeter meter;
    std::int64_t passed_bytes = 0;
    bool admitted = false;
    bool leaving = false;           // libzmq has closed its side
    base::TimePoint deadline = {};  // of a stranger, or of one that libzmq has left
};

Result<std::unique_ptr<ZmqGate>> ZmqGate::open(const std::string& endpoint,
                                               std::uint16_t inner_port,
                                               const GateOptions& options) {
    std::unique_ptr<ZmqGate> gate(new ZmqGate(options));
    gate->inner_port_ = inner_port;
    TRY_VOID(gate->listen(endpoint));
    return gate;
}

void ZmqGate::start() {
    thread_ = std::thread([this] { run(); });
}

ZmqGate::ZmqGate(const GateOptions& options) : options_(options), scratch_(kScratchBytes) {}

Status ZmqGate::listen(const std::string& endpoint) {
    constexpr std::string_view kScheme = "tcp://";
    const std::size_t colon = endpoint.rfind(':');
    if (!endpoint.starts_with(kScheme) || colon < kScheme.size()) {
        return base::invalid("listen on " + endpoint + ": expected tcp://HOST:PORT");
    }
    std::string host = endpoint.substr(kScheme.size(), colon - kScheme.size());
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const std::string port = endpoint.substr(colon + 1) == "*" ? "0" : endpoint.substr(colon + 1);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    Result<int> made = Error{};
    // To listen on every address, the one of IPv6 takes IPv4 along where there is IPv6.
    for (const char* name : {host == "*" ? "::" : host.c_str(), host == "*" ? "0.0.0.0" : ""}) {
        if (*name == '\0' || made.ok()) continue;
        const int error = ::getaddrinfo(name, port.c_str(), &hints, &found);
        if (error != 0) {
            return Error{Errc::io, fmt::format("listen on {}: {}", endpoint, gai_strerror(error))};
        }
        made = listen_on(*found);
        ::freeaddrinfo(found);
    }
    if (!made.ok()) {
        return Error{Errc::io, fmt::format("listen on {}: {}", endpoint, made.error().message)};
    }
    listener_ = *made;
    sockaddr_storage bound = {};
    socklen_t size = sizeof bound;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
    endpoint_ = "tcp://" + describe(bound, size);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    wake_event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ended_event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (epoll_ < 0 || wake_event_ < 0 || ended_event_ < 0) return failed("listen on " + endpoint);
    for (const auto& [fd, token] :
         {std::pair(listener_, kListener), std::pair(wake_event_, kWake)}) {
        epoll_event event = {};
        event.events = EPOLLIN;
        event.data.u64 = token;
        if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
            return failed("listen on " + endpoint);
        }
    }
    return Ok{};
}

ZmqGate::~ZmqGate() {
    stopping_ = true;
    if (thread_.joinable()) {
        signal(wake_event_);
        thread_.join();
    }
    peers_.clear();
    close_fd(listener_);
    close_fd(epoll_);
    close_fd(wake_event_);
    close_fd(ended_event_);
}

// ---- other threads
// --------------------------------------------------------------------------------

bool ZmqGate::knows(std::string_view address) const {
    const std::lock_guard lock(mutex_);
    return known_.contains(address);
}

std::optional<std::string> ZmqGate::enters(std::string_view address) {
    const std::lock_guard lock(mutex_);
    const auto found = not_entered_.find(address);
    if (found == not_entered_.end()) return {};
    std::string from = std::move(found->second);
    not_entered_.erase(found);
    return from;
}

void ZmqGate::forget(std::string_view address) {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(address); found != known_.end()) known_.erase(found);
}

void ZmqGate::admit(std::string_view address) {
    {
        const std::lock_guard lock(mutex_);
        commands_.push_back({std::string(address), false});
    }
    signal(wake_event_);
}

void ZmqGate::close(std::string_view address) {
    {
        const std::lock_guard lock(mutex_);
        commands_.push_back({std::string(address), true});
    }
    signal(wake_event_);
}

std::vector<std::string> ZmqGate::take_ended() {
    clear(ended_event_);
    const std::lock_guard lock(mutex_);
    return std::exchange(ended_, {});
}

// ---- the gate's thread
// ----------------------------------------------------------------------------

void ZmqGate::run() {
    std::vector<epoll_event> events(256);
    base::TimePoint stop_at = {};
    while (true) {
        if (stopping_ && stop_at == base::TimePoint{}) {
            stop_at = now() + kGrace;
            close_fd(listener_);  // epoll forgets it
        }
        if (stopping_ && (peers_.empty() || now() >= stop_at)) return;
        const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kTickMs);
        for (int i = 0; i < n; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            if (event.data.u64 == kWake) {
                clear(wake_event_);
            } else if (event.data.u64 == kListener) {
                if (!stopping_) accept_all();
            } else {
                on_event(event.data.u64, event.events);
            }
        }
        take_commands();
        check_deadlines(now());
    }
}

void ZmqGate::take_commands() {
    std::vector<Command> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const Command& command : commands) {
        in_addr address = {};
        if (::inet_pton(AF_INET, command.address.c_str(), &address) != 1) continue;
        const std::uint32_t number = ntohl(address.s_addr) - host_address(0);
        const auto found = peers_.find(number);
        if (found == peers_.end()) continue;
        if (command.close) {
            end(number);
            continue;
        }
        Peer& peer = *found->second;
        peer.admitted = true;
        if (!peer.leaving) peer.deadline = {};
        pump_in(peer);
        if (peers_.contains(number)) watch(peer);
    }
}

void ZmqGate::warn(const std::string& text) {
    if (log_.take(now())) LOG_WARN("{}: {}", endpoint_, text);
}

void ZmqGate::accept_all() {
    take_commands();  // who was admitted before these came gives them no room
    for (int i = 0; i < 64; ++i) {
        sockaddr_storage from = {};
        socklen_t size = sizeof from;
        int outer = ::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &size,
                              SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (outer < 0 && (errno == EMFILE || errno == ENFILE)) {
            // Turns away whoever waits, with the descriptor that was kept for this.
            warn("no file descriptor is left for another peer");
            spare_.release();
            outer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (outer >= 0) {
                spare_.take_over(outer);
                return;
            }
            if (spare_.take()) return;
            accept_after_ = now() + kPause;
            ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
            listening_ = false;
            return;
        }
        if (outer < 0) return;
        accept_one(outer, describe(from, size));
    }
}

void ZmqGate::accept_one(int outer, const std::string& from) {
    if (peers_.size() >= options_.max_peers && !make_room()) {
        warn(fmt::format("{} is turned away: {} peers are here", from, peers_.size()));
        ::close(outer);
        return;
    }
    while (peers_.contains(next_number_ % kNumbers)) ++next_number_;
    const std::uint32_t number = next_number_++ % kNumbers;
    auto peer = std::make_unique<Peer>(number, options_.limits);
    const int yes = 1;
    ::setsockopt(outer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    peer->outer.fd = outer;
    peer->from = from;
    peer->deadline = now() + options_.stranger_timeout;
    {
        const std::lock_guard lock(mutex_);
        known_.insert(text_of(number));
        not_entered_.emplace(text_of(number), from);
    }
    peer->inner.fd = connect_inner(number, inner_port_);
    bool watched = peer->inner.fd >= 0;
    for (Peer::Side* side : {&peer->outer, &peer->inner}) {
        epoll_event event = {};
        event.events = side->mask =
            EPOLLIN | EPOLLOUT;  // the first event decides what is waited for
        event.data.u64 = std::uint64_t{number} * 2 + (side == &peer->inner ? 1 : 0);
        watched = watched && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, side->fd, &event) == 0;
    }
    if (!watched) warn(fmt::format("{} is turned away: {}", from, std::strerror(errno)));
    peers_.emplace(number, std::move(peer));
    if (!watched) end(number);
}

// Closes the stranger that has been here longest; false if there is none.
bool ZmqGate::make_room() {
    for (const auto& [number, peer] : peers_) {
        if (peer->admitted) continue;
        cut_off(*peer, "others want to come in");
        return true;
    }
    return false;
}

void ZmqGate::on_event(std::uint64_t token, std::uint32_t events) {
    const auto number = static_cast<std::uint32_t>(token / 2);
    const auto found = peers_.find(number);
    if (found == peers_.end()) return;
    Peer& peer = *found->second;
    const bool inner = token % 2 == 1;
    Peer::Side& side = inner ? peer.inner : peer.outer;
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0 && side.watched) {
        // epoll would report this again and again. What is left to read is read when the other side
        // takes it.
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, side.fd, nullptr);
        side.watched = false;
        if (inner) leave(peer);
    }
    pump_in(peer);
    if (!peers_.contains(number)) return;
    pump_out(peer);
    if (!peers_.contains(number)) return;
    watch(peer);
}

// libzmq has closed its side. What it said last may still go out for a moment.
void ZmqGate::leave(Peer& peer) {
    if (std::exchange(peer.leaving, true)) return;
    peer.deadline = now() + kLastWords;
}

namespace {

// Sends what is pending, then data, and keeps the rest. False if nobody takes it any more.
bool send_on(int fd, std::string& pending, std::string_view data) {
    while (!pending.empty() || !data.empty()) {
        const std::string_view next = pending.empty() ? data : std::string_view(pending);
        const ssize_t n = ::send(fd, next.data(), next.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
        if (n < 0) break;
        if (pending.empty()) {
            data.remove_prefix(static_cast<std::size_t>(n));
        } else {
            pending.erase(0, static_cast<std::size_t>(n));
            if (pending.empty()) pending.shrink_to_fit();
        }
    }
    pending += data;
    return true;
}

}  // namespace

void ZmqGate::pump_in(Peer& peer) {
    Peer::Side& from = peer.outer;
    Peer::Side& to = peer.inner;
    if (!send_on(to.fd, to.pending, {})) to.pending.clear();
    for (int i = 0; to.pending.empty() && !from.ended; ++i) {
        if (i == kReadsAtOnce && from.watched) return;  // epoll comes back to it
        std::size_t most = scratch_.size();
        if (!peer.admitted) {
            const std::int64_t left = options_.stranger_bytes - peer.passed_bytes;
            if (left <= 0) return;
            most = std::min(most, static_cast<std::size_t>(left));
        }
        const ssize_t n = ::recv(from.fd, scratch_.data(), most, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            from.ended = true;
            // libzmq reads what is left, hands it over, and then closes its side.
            ::shutdown(to.fd, SHUT_WR);
            return;
        }
        const auto size = static_cast<std::size_t>(n);
        const Status metered = peer.meter.pass(std::as_bytes(std::span(scratch_.data(), size)));
        if (!metered.ok()) return cut_off(peer, metered.error().message);
        peer.passed_bytes += n;
        // That libzmq has closed, the end of its side tells.
        if (!send_on(to.fd, to.pending, {scratch_.data(), size})) to.pending.clear();
    }
}

void ZmqGate::pump_out(Peer& peer) {
    Peer::Side& from = peer.inner;
    Peer::Side& to = peer.outer;
    if (!send_on(to.fd, to.pending, {})) to.pending.clear();
    for (int i = 0; to.pending.empty() && !from.ended; ++i) {
        if (i == kReadsAtOnce && from.watched) return;  // epoll comes back to it
        const ssize_t n = ::recv(from.fd, scratch_.data(), scratch_.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        // It is not connected yet, or there is nothing to read.
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return;
        if (n <= 0) {
            from.ended = true;
            leave(peer);
            break;
        }
        if (!send_on(to.fd, to.pending, {scratch_.data(), static_cast<std::size_t>(n)})) {
            to.pending.clear();
        }
    }
    if (from.ended && to.pending.empty()) end(peer.number);
}

void ZmqGate::watch(Peer& peer) {
    const bool held = !peer.admitted && peer.passed_bytes >= options_.stranger_bytes;
    const auto set = [&](Peer::Side& side, bool reads, bool inner) {
        std::uint32_t mask = 0;
        if (reads) mask |= EPOLLIN;
        if (inner) mask |= EPOLLRDHUP;
        if (!side.pending.empty()) mask |= EPOLLOUT;
        if (!side.watched || mask == side.mask) return;
        side.mask = mask;
        epoll_event event = {};
        event.events = mask;
        event.data.u64 = std::uint64_t{peer.number} * 2 + (inner ? 1 : 0);
        ::epoll_ctl(epoll_, EPOLL_CTL_MOD, side.fd, &event);
    };
    set(peer.outer, !peer.outer.ended && !held && peer.inner.pending.empty(), false);
    set(peer.inner, !peer.inner.ended && peer.outer.pending.empty(), true);
}

void ZmqGate::cut_off(Peer& peer, std::string_view why) {
    warn(fmt::format("{} is cut off: {}", peer.from, why));
    end(peer.number);
}

// Takes the peer out of peers_. Both descriptors are ours, and nobody else knows their numbers.
void ZmqGate::end(std::uint32_t number) {
    peers_.erase(number);
    {
        const std::lock_guard lock(mutex_);
        not_entered_.erase(text_of(number));
        ended_.push_back(text_of(number));
    }
    signal(ended_event_);
}

void ZmqGate::check_deadlines(base::TimePoint time) {
    std::vector<std::uint32_t> late;
    for (const auto& [number, peer] : peers_) {
        if (peer->deadline != base::TimePoint{} && time >= peer->deadline) late.push_back(number);
    }
    for (const std::uint32_t number : late) end(number);
    if (!listening_ && time >= accept_after_ && !stopping_) {
        spare_.take();
        epoll_event event = {};
        event.events = EPOLLIN;
        event.data.u64 = kListener;
        listening_ = ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) == 0;
    }
    if (const std::string more = log_.take_summary(time); !more.empty()) {
        LOG_WARN("{}: peers turned away or cut off, {}", endpoint_, more);
    }
}

}  // namespace helix::net

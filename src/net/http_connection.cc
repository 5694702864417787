#include "net/http_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace helix::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// The most that is received and not parsed; less while a request is handled, when it belongs to the
// next one. The rest stays in the socket.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10U;
constexpr std::size_t kReadAheadHandlingBytes = std::size_t{16} << 10U;
constexpr base::Duration kLinger = base::from_seconds(2);
constexpr base::Duration kForever = {};
// An answer that comes this soon needs no look whether its client is still there.
constexpr std::chrono::milliseconds kProbeAfter{200};
constexpr const char* kTooMany = "too many connections";
constexpr const char* kTooLong = "the request took too long to arrive";

std::string address_of(const asio::ip::tcp::socket& socket) {
    error_code ec;
    const auto endpoint = socket.remote_endpoint(ec);
    if (ec) return "unknown";
    const asio::ip::address address = endpoint.address();
    if (address.is_v6() && address.to_v6().is_v4_mapped()) {
        return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
    }
    return address.to_string();
}

}  // namespace

void empty(std::string& buffer) {
    constexpr std::size_t kKeptBytes = std::size_t{16} << 10U;
    buffer.clear();
    if (buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

std::string_view HttpLoop::date() {
    return clock.at(std::chrono::duration_cast<std::chrono::seconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count());
}

std::shared_ptr<MemoryBudget> HttpLoop::bodies_of(const std::string& peer) {
    if (bodies_from.size() >= forget_bodies_at) {
        std::erase_if(bodies_from, [](const auto& one) { return one.second.expired(); });
        forget_bodies_at = 2 * bodies_from.size() + 64;
    }
    std::weak_ptr<MemoryBudget>& known = bodies_from[peer];
    std::shared_ptr<MemoryBudget> budget = known.lock();
    if (budget == nullptr) {
        budget = std::make_shared<MemoryBudget>(bodies_share_bytes(), bodies);
        known = budget;
    }
    return budget;
}

std::string HttpLoop::last_answer(int status, std::string_view message, const HttpRequest& asked) {
    const std::string id = fmt::format("req_{:016x}", ids.next());
    const HttpResponse page = error_page({status, message, asked.path, id});
    ResponseHead head;
    head.status = page.status;
    head.content_type = page.content_type;
    head.headers = &page.headers;
    head.date = date();
    head.request_id = id;
    head.content_length = page.body.size();
    head.keep_alive = false;
    return asked.method == "HEAD" ? format_head(head) : format_head(head) + page.body;
}

HttpConnection::HttpConnection(HttpLoop& loop, asio::ip::tcp::socket socket)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(address_of(socket_.tcp())),
      wake_(loop.io, Clock::time_point::max()),
      write_progress_(Clock::now()) {
    error_code ec;
    HttpSocket::Socket& tcp = socket_.tcp();
    tcp.non_blocking(true, ec);
    tcp.set_option(asio::ip::tcp::no_delay(true), ec);
    if (loop_.options.send_buffer_bytes > 0) {
        tcp.set_option(asio::socket_base::send_buffer_size(loop_.options.send_buffer_bytes), ec);
    }
    if (loop_.tls) socket_.begin_tls(loop_.tls->accept(tcp.native_handle()));
}

void HttpConnection::start() {
    if (!socket_.has_tls()) return converse(false);
    enter(Phase::handshake, loop_.options.handshake_timeout);
    spawn([this] { return shake_hands(false); });
}

template <typename Coroutine>
void HttpConnection::spawn(Coroutine coroutine) {
    asio::co_spawn(loop_.io, std::move(coroutine),
                   [self = shared_from_this()](const std::exception_ptr& error) {
                       if (error) self->fail(error, false);
                   });
}

void HttpConnection::start_refusing() {
    if (!socket_.has_tls()) return converse(true);
    enter(Phase::handshake, kLinger);
    spawn([this] { return shake_hands(true); });
}

// A client that speaks without TLS is told so when its request is known.
HttpConnection::Awaitable<void> HttpConnection::shake_hands(bool refusing) {
    const auto self = shared_from_this();
    for (bool first = true; !closed_; first = false) {
        error_code ec;
        co_await socket_.tcp().async_wait(socket_.wait(),
                                          asio::redirect_error(asio::use_awaitable, ec));
        if (closed_) co_return;
        plain_ = first && socket_.begins_plain();
        if (plain_) break;
        socket_.handshake(ec);
        if (!ec) break;
        if (ec == asio::error::would_block) continue;
        LOG_DEBUG("http: the TLS handshake with {} failed: {}", peer_, socket_.why());
        co_return close();
    }
    converse(refusing);
}

void HttpConnection::converse(bool refusing) {
    enter(Phase::idle, loop_.options.header_timeout);
    spawn([this] { return read_loop(); });
    if (!refusing) return spawn([this] { return serve(); });
    tell_refused(503, kTooMany);
    spawn([this] { return refuse(503, kTooMany, {}); });
}

void HttpConnection::enter(Phase phase, base::Duration limit) {
    phase_ = phase;
    phase_since_ = Clock::now();
    deadline_ = limit == kForever ? Clock::time_point::max()
                                  : phase_since_ + std::chrono::nanoseconds(limit.ns);
}

void HttpConnection::check_deadline(Clock::time_point now) {
    if (closed_) return;
    if (write_waiting_ &&
        now - write_progress_ > std::chrono::nanoseconds(loop_.options.write_timeout.ns)) {
        if (exchange_) exchange_->too_slow_ = true;
        close();
        return;
    }
    if (phase_ == Phase::body && too_slow(now)) {
        enter(Phase::linger, kLinger);
        const HttpServerOptions& o = loop_.options;
        const std::string why =
            fmt::format("at least {} bytes of a body must arrive in {} s", o.body_progress_bytes,
                        o.body_progress_interval.seconds());
        tell_refused(408, why);
        spawn([this, why, asked = asked()] { return refuse(408, why, asked); });
        return;
    }
    if (read_closed_ && now - probed_at_ > std::chrono::nanoseconds(loop_.options.probe.ns)) {
        probe_client(now);
    }
    if (now < deadline_) return;
    if (phase_ == Phase::header || phase_ == Phase::body) {
        enter(Phase::linger, kLinger);
        tell_refused(408, kTooLong);
        spawn([this, asked = asked()] { return refuse(408, kTooLong, asked); });
        return;
    }
    close();
}

void HttpConnection::close() {
    if (closed_) return;
    closed_ = true;
    error_code ec;
    // The end of an answer that was broken off must not look like its proper end.
    if (socket_.has_tls() && !exchange_ && sent_ == out_.size()) socket_.end_sending();
    socket_.tcp().close(ec);
    wake();
    if (exchange_) {
        exchange_->connection_ = nullptr;
        if (!exchange_->done_ && exchange_->gone_) {
            // It is not called from inside the call that found out, which may be the exchange's own
            // write().
            asio::post(loop_.io, std::move(exchange_->gone_));
        }
        exchange_->gone_ = nullptr;
        exchange_->drained_ = nullptr;
        if (!exchange_->done_) exchange_->tell_end();
        exchange_.reset();
    }
    loop_.connections.erase(shared_from_this());
}

void HttpConnection::wake() {
    wake_.cancel();
}

HttpConnection::Awaitable<void> HttpConnection::wait_for_wake() {
    error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Reads all the time, also while an answer streams: that is how a client that goes away is noticed.
// The end of what it sends may mean that it waits for its answer, or that it has left. A socket
// that is closed at the other end answers whatever is sent with a reset, which ends this.
HttpConnection::Awaitable<void> HttpConnection::read_loop() {
    const auto self = shared_from_this();
    bool blocked = true;
    auto wait = HttpSocket::Socket::wait_read;
    while (!closed_) {
        const std::size_t most =
            phase_ == Phase::handling ? kReadAheadHandlingBytes : kReadAheadBytes;
        if (in_.size() >= most) {
            co_await wait_for_wake();
            continue;
        }
        error_code ec;
        if (blocked || !socket_.has_read_ahead()) {
            co_await socket_.tcp().async_wait(wait, asio::redirect_error(asio::use_awaitable, ec));
        }
        if (closed_) co_return;
        const std::size_t room = std::min(most - in_.size(), loop_.scratch.size());
        const std::size_t n = ec ? 0 : socket_.read_some(loop_.scratch.data(), room, ec);
        blocked = ec == asio::error::would_block;
        wait = blocked ? socket_.wait() : HttpSocket::Socket::wait_read;
        if (blocked) continue;
        if (ec) {
            read_closed_ = true;
            wake();
            if (phase_ == Phase::linger || ec != asio::error::eof) close();
            break;
        }
        if (phase_ != Phase::linger) in_.append(loop_.scratch.data(), n);
        wake();
    }
    if (closed_) co_return;
    read_closed_at_ = Clock::now();
    probe_client(read_closed_at_);
    error_code reset;
    co_await socket_.tcp().async_wait(asio::socket_base::wait_error,
                                      asio::redirect_error(asio::use_awaitable, reset));
    close();
}

// The system itself asks a silent client now and then, for answers into which nothing can be put.
void HttpConnection::keep_probing() {
    const int seconds = std::max(1, static_cast<int>(loop_.options.probe.seconds()));
    const int fd = socket_.tcp().native_handle();
    const int on = 1;
    const int probes = 3;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

// Sends what changes no answer: before it an interim one, within it a zero before the digits of the
// next chunk's size.
void HttpConnection::probe_client(Clock::time_point now) {
    if (closed_ || !exchange_ || exchange_->done_) return;
    if (!exchange_->started_ && now - read_closed_at_ < kProbeAfter) return;
    probed_at_ = now;
    keep_probing();
    if (!exchange_->started_) {
        if (!http_1_0_) send("HTTP/1.1 102 Processing\r\n\r\n");
    } else if (exchange_->chunked_ && !exchange_->size_begun_) {
        exchange_->size_begun_ = true;
        send("0");
    }
}

HttpConnection::Awaitable<void> HttpConnection::serve() {
    const auto self = shared_from_this();
    while (!closed_ && !loop_.stopping) {
        HttpRequest request;
        if (!co_await read_request(request)) {
            if (phase_ == Phase::linger) co_return;  // refuse() closes
            break;
        }
        co_await serve_one(std::move(request));
        if (!keep_alive_) {
            if (!closed_) co_await linger();
            break;
        }
        enter(Phase::idle, loop_.options.idle_timeout);
    }
    close();
}

std::string HttpConnection::new_request_id() {
    return fmt::format("req_{:016x}", loop_.ids.next());
}

HttpConnection::Awaitable<void> HttpConnection::serve_one(HttpRequest request) {
    enter(Phase::handling, kForever);
    exchange_ = std::make_shared<HttpExchange>(this, std::move(request));
    const std::shared_ptr<HttpExchange> exchange = exchange_;
    try {
        loop_.handler(exchange);
    } catch (...) {
        fail(std::current_exception(), true);
    }
    while (!closed_ && !exchange->done_) co_await wait_for_wake();
    co_await drain_writes();
    if (exchange_) exchange_->connection_ = nullptr;
    exchange_.reset();
}

HttpConnection::Awaitable<void> HttpConnection::drain_writes() {
    while (!closed_ && sent_ < out_.size()) co_await wait_for_wake();
}

void HttpConnection::fail(const std::exception_ptr& error, bool serving) noexcept {
    if (closed_) return;
    keep_alive_ = false;
    try {
        if (!answer_failure(error)) return close();
        if (serving) return;  // serve() ends the connection
        enter(Phase::linger, kLinger);
        wake();
        spawn([this]() -> Awaitable<void> {
            co_await drain_writes();
            co_await linger();
            close();
        });
    } catch (...) {
        // Not even that worked: sends the answer that was made ahead, which takes no memory.
        error_code ec;
        const bool begun = exchange_ && exchange_->started_;
        if (!begun && sent_ == out_.size()) {
            socket_.write_some(loop_.failed_answer.data(), loop_.failed_answer.size(), ec);
        }
        socket_.tcp().shutdown(asio::ip::tcp::socket::shutdown_both, ec);
        deadline_ = Clock::time_point::min();  // the next tick closes
    }
}

bool HttpConnection::answer_failure(const std::exception_ptr& error) {
    int status = 500;
    try {
        std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
        status = 503;
        LOG_ERROR("http: out of memory");
    } catch (const std::exception& e) {
        LOG_ERROR("http: {}", e.what());
    }
    const bool begun = exchange_ && exchange_->started_;
    if (begun || phase_ == Phase::linger || phase_ == Phase::handshake) return false;
    send(status == 503 ? loop_.failed_answer
                       : loop_.last_answer(500, "internal error",
                                           exchange_ ? exchange_->request() : HttpRequest()));
    if (!exchange_) return true;
    // Whoever has taken on the request learns that nobody waits for it any more.
    if (exchange_->gone_) asio::post(loop_.io, std::exchange(exchange_->gone_, nullptr));
    exchange_->started_ = true;
    exchange_->status_ = status;
    exchange_->finish();
    return true;
}

// Answers something that is no request, and ends the connection with it.
HttpConnection::Awaitable<void> HttpConnection::refuse(int status, std::string message,
                                                       HttpRequest asked) {
    const auto self = shared_from_this();
    keep_alive_ = false;
    enter(Phase::linger, kLinger);
    send(loop_.last_answer(status, message, asked));
    co_await drain_writes();
    co_await linger();
    close();
}

// A close with unread input resets the connection and may lose our last answer, so this says that
// we are done and reads on for a moment.
HttpConnection::Awaitable<void> HttpConnection::linger() {
    enter(Phase::linger, kLinger);
    empty(in_);
    wake();  // there is room to read on
    if (!closed_) socket_.end_sending();
    while (!closed_ && !read_closed_) co_await wait_for_wake();
}

void HttpConnection::send(std::string_view bytes) {
    if (closed_) return;
    if (sent_ == out_.size()) {
        out_.clear();
        sent_ = 0;
    }
    out_ += bytes;
    if (!write_waiting_) write_some();
    if (!closed_ && out_.size() - sent_ > loop_.options.max_queued_bytes && exchange_ &&
        exchange_->started_ && !exchange_->done_) {
        LOG_DEBUG("request {}: the client reads too slowly, disconnected",
                  exchange_->request().request_id);
        exchange_->too_slow_ = true;
        close();
    }
}

void HttpConnection::write_some() {
    while (sent_ < out_.size()) {
        error_code ec;
        const std::size_t n = socket_.write_some(out_.data() + sent_, out_.size() - sent_, ec);
        sent_ += n;
        if (n > 0) write_progress_ = Clock::now();
        if (ec == asio::error::would_block) {
            if (!write_waiting_) write_progress_ = Clock::now();
            write_waiting_ = true;
            socket_.tcp().async_wait(socket_.wait(),
                                     [self = shared_from_this()](const error_code& failed) {
                                         self->write_waiting_ = false;
                                         if (self->closed_) return;
                                         if (failed) return self->close();
                                         self->write_some();
                                     });
            break;
        }
        if (ec) return close();
    }
    if (sent_ == out_.size()) {
        empty(out_);
        sent_ = 0;
        if (!exchange_ || exchange_->done_) wake();
        if (exchange_ && exchange_->drained_) {
            asio::post(loop_.io, std::exchange(exchange_->drained_, nullptr));
        }
    } else if (sent_ > out_.size() / 2) {
        out_.erase(0, sent_);
        sent_ = 0;
    }
}

ResponseHead HttpConnection::head_for(const HttpExchange& exchange, int status,
                                      std::string_view content_type) const {
    ResponseHead head;
    head.status = status;
    head.content_type = content_type;
    head.request_id = exchange.request().request_id;
    head.date = loop_.date();
    head.allow_origin = exchange.allow_origin_;
    const bool last = read_closed_ && in_.empty();
    head.keep_alive = keep_alive_ && !last && !loop_.stopping;
    return head;
}

}  // namespace helix::net

#include "net/http_connection.h"

#include <fmt/format.h>

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
// A buffer that is empty and larger than this is given back.
constexpr std::size_t kKeptBytes = std::size_t{16} << 10U;
constexpr base::Duration kLinger = base::from_seconds(2);
constexpr base::Duration kForever = {};
constexpr double kLeastRate = 1e6;  // bytes a second at which large bodies have to come
constexpr const char* kTooMany = "too many connections";
constexpr const char* kTooLong = "the request took too long to arrive";

HttpParserLimits parser_limits(const HttpServerOptions& options) {
    HttpParserLimits limits;
    limits.max_header_bytes = options.max_header_bytes;
    return limits;
}

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

void empty(std::string& buffer) {
    buffer.clear();
    if (buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

}  // namespace

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

std::string HttpLoop::last_answer(int status, std::string_view message, std::string_view path) {
    const std::string id = fmt::format("req_{:016x}", ids.next());
    const HttpResponse page = error_page({status, message, path, id});
    ResponseHead head;
    head.status = page.status;
    head.content_type = page.content_type;
    head.headers = &page.headers;
    head.date = date();
    head.request_id = id;
    head.content_length = page.body.size();
    head.keep_alive = false;
    return format_head(head) + page.body;
}

HttpConnection::HttpConnection(HttpLoop& loop, asio::ip::tcp::socket socket)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(address_of(socket_)),
      wake_(loop.io, Clock::time_point::max()),
      write_progress_(Clock::now()) {
    error_code ec;
    socket_.non_blocking(true, ec);
    socket_.set_option(asio::ip::tcp::no_delay(true), ec);
    if (loop_.options.send_buffer_bytes > 0) {
        socket_.set_option(asio::socket_base::send_buffer_size(loop_.options.send_buffer_bytes),
                           ec);
    }
}

void HttpConnection::start() {
    enter(Phase::idle, loop_.options.header_timeout);
    spawn([this] { return read_loop(); });
    spawn([this] { return serve(); });
}

template <typename Coroutine>
void HttpConnection::spawn(Coroutine coroutine) {
    asio::co_spawn(loop_.io, std::move(coroutine),
                   [self = shared_from_this()](const std::exception_ptr& error) {
                       if (error) self->fail(error, false);
                   });
}

void HttpConnection::start_refusing() {
    tell_refused(503, kTooMany);
    spawn([this] { return read_loop(); });
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
        spawn([this, why, path = arriving_path()] { return refuse(408, why, path); });
        return;
    }
    if (now < deadline_) return;
    if (phase_ == Phase::header || phase_ == Phase::body) {
        enter(Phase::linger, kLinger);
        tell_refused(408, kTooLong);
        spawn([this, path = arriving_path()] { return refuse(408, kTooLong, path); });
        return;
    }
    close();
}

bool HttpConnection::too_slow(Clock::time_point now) {
    const HttpServerOptions& o = loop_.options;
    if (now - body_mark_at_ < std::chrono::nanoseconds(o.body_progress_interval.ns)) return false;
    if (body_received_ - body_mark_ < o.body_progress_bytes) return true;
    body_mark_ = body_received_;
    body_mark_at_ = now;
    return false;
}

void HttpConnection::close() {
    if (closed_) return;
    closed_ = true;
    error_code ec;
    socket_.close(ec);
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
HttpConnection::Awaitable<void> HttpConnection::read_loop() {
    const auto self = shared_from_this();
    while (!closed_) {
        const std::size_t most =
            phase_ == Phase::handling ? kReadAheadHandlingBytes : kReadAheadBytes;
        if (in_.size() >= most) {
            co_await wait_for_wake();
            continue;
        }
        error_code ec;
        co_await socket_.async_wait(asio::socket_base::wait_read,
                                    asio::redirect_error(asio::use_awaitable, ec));
        if (closed_) co_return;
        const std::size_t room = std::min(most - in_.size(), loop_.scratch.size());
        const std::size_t n =
            ec ? 0 : socket_.read_some(asio::buffer(loop_.scratch.data(), room), ec);
        if (ec == asio::error::would_block) continue;
        if (ec) {
            read_closed_ = true;
            wake();
            const bool answered = exchange_ && exchange_->done_;
            if ((phase_ == Phase::handling && !answered) || phase_ == Phase::linger) close();
            co_return;
        }
        if (phase_ != Phase::linger) in_.append(loop_.scratch.data(), n);
        wake();
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

// A request on its way in.
struct HttpConnection::Arriving {
    explicit Arriving(HttpConnection& c)
        : connection(c), parser(parser_limits(c.loop_.options), c.peer_) {
        connection.arriving_ = this;
    }
    ~Arriving() { connection.arriving_ = nullptr; }
    Arriving(const Arriving&) = delete;
    Arriving& operator=(const Arriving&) = delete;

    HttpConnection& connection;
    HttpParser parser;
    std::string body;
    std::shared_ptr<MemoryBudget::Share> share;  // what the body takes; null until there is one
    std::shared_ptr<SpooledBody> file;           // if not null it takes the body
    bool has_head = false;
    bool done = false;
};

std::optional<HttpConnection::Refusal> HttpConnection::on_head(Arriving& in) {
    const HttpRequest& head = in.parser.head();
    const std::uint64_t limit = body_limit(head);
    const std::uint64_t length = in.parser.content_length().value_or(0);
    in.has_head = true;
    in.parser.allow_body(limit);
    if (length <= limit) {
        auto file = body_file(head);
        if (!file.ok()) return Refusal{500, file.error().message};
        in.file = std::move(file).value();
    }
    if (in.file == nullptr) {
        in.parser.allow_body(std::min<std::uint64_t>(limit, loop_.bodies_share_bytes()));
    }
    enter(Phase::body, loop_.options.body_timeout +
                           base::from_seconds(static_cast<double>(length) / kLeastRate));
    body_received_ = 0;
    body_mark_ = 0;
    body_mark_at_ = phase_since_;
    return {};
}

std::optional<HttpConnection::Refusal> HttpConnection::keep_piece(Arriving& in) {
    const std::string_view piece = in.parser.piece();
    body_received_ += piece.size();
    if (in.file != nullptr) {
        // The file is in the page cache, so this copies what one read brought and does not wait.
        if (in.share == nullptr) {
            in.share = std::make_shared<MemoryBudget::Share>(loop_.body_files);
        }
        if (!in.share->grow_to(body_received_)) {
            return Refusal{507, fmt::format("the uploads that are here fill the {} bytes that they "
                                            "may take on disk; try again later",
                                            loop_.body_files->limit_bytes())};
        }
        const base::Status kept = in.file->append(piece);
        if (!kept.ok()) return Refusal{500, kept.error().message};
        return {};
    }
    if (in.share == nullptr) {
        in.share = std::make_shared<MemoryBudget::Share>(loop_.bodies_of(peer_));
    }
    const std::size_t needed = in.body.size() + piece.size();
    if (needed > in.body.capacity()) {
        // The string reserves what the share was charged for: twice as much each time, or all that
        // is announced.
        const std::uint64_t most = in.parser.content_length().value_or(2 * in.body.capacity());
        std::size_t bytes = std::max<std::size_t>(needed, std::min(2 * in.body.capacity(), most));
        if (!in.share->grow_to(bytes)) bytes = needed;
        if (!in.share->grow_to(bytes)) {
            const MemoryBudget& yours = in.share->budget();
            const bool all = !yours.lacks(bytes - in.share->bytes());
            return Refusal{429, fmt::format("the requests {} fill the {} bytes of memory for their "
                                            "bodies; try again later",
                                            all ? "that are here" : "from your address",
                                            (all ? *loop_.bodies : yours).limit_bytes())};
        }
        std::string larger;  // a string that grows takes more than it is asked for
        larger.reserve(bytes);
        larger += in.body;
        in.body = std::move(larger);
    }
    in.body += piece;
    return {};
}

std::optional<HttpConnection::Refusal> HttpConnection::parse_received(Arriving& in) {
    if (phase_ == Phase::idle) enter(Phase::header, loop_.options.header_timeout);
    std::string_view data = in_;
    std::optional<Refusal> refusal;
    for (bool more = true; more && !refusal;) {
        switch (in.parser.step(data)) {
            case HttpParser::Step::more:
                more = false;
                break;
            case HttpParser::Step::head:
                refusal = on_head(in);
                break;
            case HttpParser::Step::body:
                refusal = keep_piece(in);
                break;
            case HttpParser::Step::done:
                in.done = true;
                more = false;
                break;
            case HttpParser::Step::refused:
                refusal = in.parser.refusal();
                break;
        }
    }
    in_.erase(0, in_.size() - data.size());
    if (in_.empty()) empty(in_);
    wake();  // there is room to read on
    return refusal;
}

HttpConnection::Awaitable<bool> HttpConnection::read_request(HttpRequest& request) {
    Arriving in(*this);
    bool continued = false;
    while (!in.done) {
        if (!in_.empty()) {
            std::optional<Refusal> refusal = parse_received(in);
            if (refusal) {
                tell_refused(refusal->status, refusal->why);
                in.body = {};  // others may use its memory while the refusal is on its way
                in.share.reset();
                in.file.reset();
                co_await refuse(refusal->status, std::move(refusal->why), arriving_path());
                co_return false;
            }
            if (in.done) break;
            if (in.has_head && !continued && in.parser.expects_continue()) {
                continued = true;
                send("HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
        if (read_closed_ || closed_) co_return false;
        co_await wait_for_wake();
        // A time-out is being answered, or we are stopping.
        if (closed_ || phase_ == Phase::linger) co_return false;
    }
    if (in.file != nullptr) {
        const base::Status sealed = in.file->seal();
        if (!sealed.ok()) {
            std::string why = sealed.error().message;
            tell_refused(500, why);
            co_await refuse(500, std::move(why), arriving_path());
            co_return false;
        }
    }
    http_1_0_ = in.parser.http_1_0();
    keep_alive_ = in.parser.keep_alive();
    request = in.parser.take_head();
    request.body = std::move(in.body);
    request.body_share = std::move(in.share);
    request.body_file = std::move(in.file);
    const std::string_view given = request.header("x-request-id");
    request.request_id = is_plain_word(given) ? std::string(given) : new_request_id();
    co_return true;
}

std::uint64_t HttpConnection::body_limit(const HttpRequest& head) const {
    return loop_.options.body_limit ? loop_.options.body_limit(head) : loop_.options.max_body_bytes;
}

base::Result<std::shared_ptr<SpooledBody>> HttpConnection::body_file(
    const HttpRequest& head) const {
    if (!loop_.options.body_folder) return std::shared_ptr<SpooledBody>();
    const std::string folder = loop_.options.body_folder(head);
    if (folder.empty()) return std::shared_ptr<SpooledBody>();
    return SpooledBody::create(folder);
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
    if (read_closed_ && !exchange->done_) close();
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
            socket_.write_some(asio::buffer(loop_.failed_answer), ec);
        }
        socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ec);
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
    if (begun || phase_ == Phase::linger) return false;
    send(status == 503 ? loop_.failed_answer
                       : loop_.last_answer(500, "internal error",
                                           exchange_ ? std::string_view(exchange_->request().path)
                                                     : std::string_view()));
    if (!exchange_) return true;
    // Whoever has taken on the request learns that nobody waits for it any more.
    if (exchange_->gone_) asio::post(loop_.io, std::exchange(exchange_->gone_, nullptr));
    exchange_->started_ = true;
    exchange_->status_ = status;
    exchange_->finish();
    return true;
}

void HttpConnection::tell_refused(int status, std::string_view message) const {
    if (!loop_.options.on_refused) return;
    HttpRefused what{peer_, {}, {}, status, message};
    if (arriving_ != nullptr && arriving_->has_head) {
        what.method = arriving_->parser.head().method;
        what.path = arriving_->parser.head().path;
    }
    loop_.options.on_refused(what);
}

std::string HttpConnection::arriving_path() const {
    const bool known = arriving_ != nullptr && arriving_->has_head;
    return known ? arriving_->parser.head().path : std::string();
}

// Answers something that is no request, and ends the connection with it.
HttpConnection::Awaitable<void> HttpConnection::refuse(int status, std::string message,
                                                       std::string path) {
    const auto self = shared_from_this();
    keep_alive_ = false;
    enter(Phase::linger, kLinger);
    send(loop_.last_answer(status, message, path));
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
    error_code ec;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
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
        const std::size_t n =
            socket_.write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_), ec);
        sent_ += n;
        if (n > 0) write_progress_ = Clock::now();
        if (ec == asio::error::would_block) {
            if (!write_waiting_) write_progress_ = Clock::now();
            write_waiting_ = true;
            socket_.async_wait(asio::socket_base::wait_write,
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
    head.keep_alive = keep_alive_ && !loop_.stopping;
    return head;
}

// ---- HttpExchange
// -----------------------------------------------------------------------------------

std::size_t HttpExchange::queued_bytes() const {
    return open() && connection_ != nullptr ? connection_->out_.size() - connection_->sent_ : 0;
}

void HttpExchange::respond(const HttpResponse& response) {
    if (!open()) return;
    CHECK(!started_);
    started_ = true;
    status_ = response.status;
    if (request_.method != "HEAD") body_bytes_ = response.body.size();
    if (connection_ == nullptr) {
        finish();
        std::exchange(answer_, nullptr)(response);
        return;
    }
    ResponseHead head = connection_->head_for(*this, response.status, response.content_type);
    connection_->keep_alive_ = head.keep_alive;
    headers_.insert(headers_.end(), response.headers.begin(), response.headers.end());
    head.headers = &headers_;
    head.content_length = response.body.size();
    std::string text = format_head(head);
    if (request_.method != "HEAD") text += response.body;
    finish();
    connection_->send(text);
}

void HttpExchange::begin_stream(int status, std::string_view content_type,
                                const HttpHeaders& headers, std::optional<std::uint64_t> length) {
    if (!open()) return;
    CHECK(!started_ && connection_ != nullptr);
    started_ = true;
    status_ = status;
    chunked_ = !connection_->http_1_0_ && !length;
    ResponseHead head = connection_->head_for(*this, status, content_type);
    connection_->keep_alive_ = head.keep_alive && (chunked_ || length);
    headers_.insert(headers_.end(), headers.begin(), headers.end());
    head.headers = &headers_;
    head.framing = chunked_ ? Framing::chunked : Framing::close;
    if (length) {
        head.framing = Framing::length;
        head.content_length = *length;
        left_ = request_.method == "HEAD" ? 0 : *length;
    }
    connection_->send(format_head(head));
}

void HttpExchange::write(std::string_view data) {
    if (!open() || data.empty()) return;
    CHECK(started_);
    body_bytes_ += data.size();
    if (left_) {
        CHECK(data.size() <= *left_);
        *left_ -= data.size();
    }
    if (!chunked_) return connection_->send(data);
    std::string chunk;
    chunk.reserve(data.size() + 16);
    append_chunk(chunk, data);
    connection_->send(chunk);
}

void HttpExchange::end_stream() {
    if (!open()) return;
    CHECK(started_);
    if (left_.value_or(0) > 0) return connection_->close();
    finish();
    if (chunked_) connection_->send("0\r\n\r\n");
    if (connection_ != nullptr) connection_->wake();
}

void HttpExchange::on_drained(std::function<void()> callback) {
    if (!open()) return;
    CHECK(connection_ != nullptr);
    if (queued_bytes() > 0) {
        drained_ = std::move(callback);
    } else {
        asio::post(connection_->loop_.io, std::move(callback));
    }
}

void HttpExchange::finish() {
    done_ = true;
    gone_ = nullptr;
    drained_ = nullptr;
    if (connection_ != nullptr) connection_->wake();
    tell_end();
}

void HttpExchange::count(std::string_view name, std::int64_t more) {
    for (auto& [known, value] : counts_) {
        if (known == name) {
            value += more;
            return;
        }
    }
    counts_.emplace_back(name, more);
}

void HttpExchange::tell_end() {
    if (const auto ended = std::exchange(ended_, nullptr)) ended(*this);
}

void HttpExchange::abandon() {
    CHECK(connection_ == nullptr);
    answer_ = nullptr;
    tell_end();
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
}

}  // namespace helix::net

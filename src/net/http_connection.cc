#include "net/http_connection.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace helix::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// Of a client that sends its next request early; the rest stays in the socket.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10U;
constexpr base::Duration kLinger = base::from_seconds(2);
constexpr base::Duration kForever = {};
constexpr double kLeastRate = 1e6;  // bytes a second, of large bodies

using Parser = http::request_parser<http::string_body>;

int status_of(const error_code& ec) {
    if (ec == http::error::header_limit) return 431;
    return 400;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
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

// Without its body.
HttpRequest head_of(const Parser::value_type& message) {
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const std::size_t question = target.find('?');
    request.path = percent_decode(std::string_view(target).substr(0, question));
    if (question != std::string::npos) request.query = target.substr(question + 1);
    for (const auto& field : message) {
        request.headers.emplace_back(lower(std::string(field.name_string())),
                                     std::string(field.value()));
    }
    return request;
}

}  // namespace

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
    asio::co_spawn(
        loop_.io, [self = shared_from_this()] { return self->read_loop(); }, asio::detached);
    asio::co_spawn(
        loop_.io, [self = shared_from_this()] { return self->serve(); }, asio::detached);
}

void HttpConnection::start_refusing() {
    asio::co_spawn(
        loop_.io, [self = shared_from_this()] { return self->read_loop(); }, asio::detached);
    asio::co_spawn(
        loop_.io, [self = shared_from_this()] { return self->refuse(503, "too many connections"); },
        asio::detached);
}

void HttpConnection::enter(Phase phase, base::Duration limit) {
    phase_ = phase;
    deadline_ = limit == kForever ? Clock::time_point::max()
                                  : Clock::now() + std::chrono::nanoseconds(limit.ns);
}

void HttpConnection::check_deadline(Clock::time_point now) {
    if (closed_) return;
    if (write_waiting_ &&
        now - write_progress_ > std::chrono::nanoseconds(loop_.options.write_timeout.ns)) {
        if (exchange_) exchange_->too_slow_ = true;
        close();
        return;
    }
    if (now < deadline_) return;
    if (phase_ == Phase::header || phase_ == Phase::body) {
        deadline_ = Clock::time_point::max();
        asio::co_spawn(
            loop_.io,
            [self = shared_from_this()] {
                return self->refuse(408, "the request took too long to arrive");
            },
            asio::detached);
        return;
    }
    close();
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
            // Not from inside the call that found out: that may be the exchange's own write().
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
        if (phase_ == Phase::handling && in_.size() >= kReadAheadBytes) {
            co_await wait_for_wake();
            continue;
        }
        error_code ec;
        co_await socket_.async_wait(asio::socket_base::wait_read,
                                    asio::redirect_error(asio::use_awaitable, ec));
        if (closed_) co_return;
        const std::size_t n = ec ? 0 : socket_.read_some(asio::buffer(loop_.scratch), ec);
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
    Parser parser;
    HttpRequest request;
    std::uint64_t limit = 0;            // of the body, once the head is there
    std::shared_ptr<SpooledBody> file;  // that takes the body; null = the parser keeps it
    bool more = false;                  // is what was received before worth another look?
};

std::optional<HttpConnection::Refusal> HttpConnection::read_head(Arriving& in) {
    in.request = head_of(in.parser.get());
    in.request.peer = peer_;
    in.limit = body_limit(in.request);
    const std::uint64_t length = in.parser.content_length().value_or(0);
    if (length > in.limit) return too_large(in.limit);
    auto file = body_file(in.request);
    if (!file.ok()) return Refusal{500, file.error().message};
    in.file = std::move(file).value();
    in.parser.body_limit(in.limit);
    in.parser.eager(true);
    enter(Phase::body, loop_.options.body_timeout +
                           base::from_seconds(static_cast<double>(length) / kLeastRate));
    return {};
}

std::optional<HttpConnection::Refusal> HttpConnection::parse_received(Arriving& in) {
    if (phase_ == Phase::idle) enter(Phase::header, loop_.options.header_timeout);
    error_code ec;
    in_.erase(0, in.parser.put(asio::buffer(in_), ec));
    in.more = !ec;
    if (ec == http::error::body_limit) return too_large(in.limit);
    if (ec && ec != http::error::need_more) return Refusal{status_of(ec), ec.message()};
    if (in.file != nullptr) {
        // The file is in the page cache: that is a copy of what one read brought, no wait.
        const base::Status kept = in.file->append(in.parser.get().body());
        if (!kept.ok()) return Refusal{500, kept.error().message};
        in.parser.get().body().clear();
    }
    if (in.parser.is_header_done() && !in.parser.eager()) return read_head(in);
    return {};
}

HttpConnection::Awaitable<bool> HttpConnection::read_request(HttpRequest& request) {
    Arriving in;
    Parser& parser = in.parser;
    parser.header_limit(static_cast<std::uint32_t>(loop_.options.max_header_bytes));
    // Until the head says what it is for. ("None" is taken for zero here.)
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    bool continued = false;
    while (!parser.is_done()) {
        if (!in_.empty()) {
            std::optional<Refusal> refusal = parse_received(in);
            if (refusal) {
                co_await refuse(refusal->status, std::move(refusal->why));
                co_return false;
            }
            if (parser.is_done()) break;
            const bool expects =
                parser.is_header_done() && !continued &&
                lower(std::string(parser.get()[http::field::expect])) == "100-continue";
            if (expects) {
                continued = true;
                send("HTTP/1.1 100 Continue\r\n\r\n");
            }
            if (in.more && !in_.empty()) continue;
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
            co_await refuse(500, std::move(why));
            co_return false;
        }
    }
    http_1_0_ = parser.get().version() < 11;
    keep_alive_ = parser.get().keep_alive() && !http_1_0_;
    request = std::move(in.request);
    request.body = std::move(parser.get().body());
    request.body_file = std::move(in.file);
    const std::string_view given = request.header("x-request-id");
    request.request_id = is_plain_word(given) ? std::string(given) : new_request_id();
    co_return true;
}

HttpConnection::Refusal HttpConnection::too_large(std::uint64_t limit) {
    return {413, fmt::format("at most {} bytes are taken here", limit)};
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
    } catch (const std::exception& e) {
        LOG_ERROR("request {}: {}", exchange->request().request_id, e.what());
        if (exchange->open() && !exchange->started()) {
            exchange->respond(loop_.error_page(500, "internal error"));
        }
        close();
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

// An answer to something that is no request; the connection ends with it.
HttpConnection::Awaitable<void> HttpConnection::refuse(int status, std::string message) {
    const auto self = shared_from_this();
    const HttpResponse page = loop_.error_page(status, message);
    keep_alive_ = false;
    ResponseHead head;
    head.status = page.status;
    head.content_type = page.content_type;
    head.headers = &page.headers;
    const std::string id = new_request_id();
    head.request_id = id;
    head.content_length = page.body.size();
    head.keep_alive = false;
    enter(Phase::linger, kLinger);
    send(format_head(head) + page.body);
    co_await drain_writes();
    co_await linger();
    close();
}

// A close with unread input resets the connection and may take our last answer with it: so say that
// we are done and read on for a moment.
HttpConnection::Awaitable<void> HttpConnection::linger() {
    enter(Phase::linger, kLinger);
    in_.clear();
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
        out_.clear();
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
    head.headers = &response.headers;
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
    head.headers = &headers;
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

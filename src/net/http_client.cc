// clang-format off
#include "net/asio_coroutines.h"
// clang-format on
#include "net/http_client.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/rfc2818_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <exception>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

// g++ 12 inlines one half only of the pair with which asio allocates a coroutine's frame.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace helix::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using base::Errc;
using base::Error;
using boost::system::error_code;

namespace {

constexpr std::size_t kMostIdle = 4096;

bool is_port(std::string_view text) {
    if (text.empty() || text.size() > 5) return false;
    std::uint32_t value = 0;
    for (const char c : text) {
        if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
        value = value * 10 + static_cast<std::uint32_t>(c - '0');
    }
    return value >= 1 && value <= 65535;
}

// A connection, and what was read beyond the last answer.
struct Connection {
    explicit Connection(asio::io_context& io) : stream(io) {}
    beast::tcp_stream stream;
    std::optional<asio::ssl::stream<beast::tcp_stream&>> tls;
    beast::flat_buffer read_ahead;
    bool used = false;
};
using ConnectionPointer = std::unique_ptr<Connection>;

}  // namespace

base::Result<HttpTarget> parse_http_url(std::string_view url) {
    const auto bad = [&](std::string_view why) {
        return base::invalid(fmt::format(
            "'{}': {}; expected http://HOST:PORT, like http://127.0.0.1:8080", url, why));
    };
    std::string_view rest = url;
    HttpTarget target;
    target.tls = rest.starts_with("https://");
    if (target.tls) target.port = "443";
    if (target.tls || rest.starts_with("http://")) rest.remove_prefix(rest.find("//") + 2);
    if (rest.find("://") != std::string_view::npos) return bad("that is no HTTP address");
    const std::size_t slash = rest.find('/');
    if (slash != std::string_view::npos) {
        target.prefix = rest.substr(slash);
        while (target.prefix.ends_with('/')) target.prefix.pop_back();
        rest = rest.substr(0, slash);
    }
    const std::size_t bracket = rest.find(']');
    const std::size_t colon = rest.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        if (!is_port(rest.substr(colon + 1))) return bad("the port is no number from 1 to 65535");
        target.port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
    }
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    if (rest.empty()) return bad("the host is missing");
    target.host = rest;
    return target;
}

struct HttpClient::Impl {
    explicit Impl(HttpTarget t) : target(std::move(t)), alarm(io) {}

    base::Status resolve() {
        tcp::resolver resolver(io);
        error_code ec;
        endpoints = resolver.resolve(target.host, target.port, ec);
        if (!ec) return base::Ok{};
        return Error{Errc::unavailable, fmt::format("{}: {}", target.host, ec.message())};
    }

    // Makes what connections with TLS begin with.
    base::Status trust() {
        error_code ec;
        tls_context.emplace(asio::ssl::context::tls_client);
        SSL_CTX_set_min_proto_version(tls_context->native_handle(), TLS1_2_VERSION);
        tls_context->set_default_verify_paths(ec);
        tls_context->set_verify_mode(asio::ssl::verify_peer, ec);
        if (!ec) return base::Ok{};
        return Error{Errc::internal, fmt::format("OpenSSL cannot be used: {}", ec.message())};
    }

    std::string place() const { return target.host + ":" + target.port; }

    asio::awaitable<void> run(HttpCall call);
    template <typename Stream>
    asio::awaitable<base::Status> exchange(Stream& stream, HttpCall& call,
                                           ConnectionPointer& connection, bool& heard);
    asio::awaitable<base::Status> shake_hands(Connection& connection);
    asio::awaitable<base::Status> connect(Connection& connection);
    base::Error failed(const char* doing, const error_code& ec) const;

    asio::io_context io{1};
    HttpTarget target;
    tcp::resolver::results_type endpoints;
    std::optional<asio::ssl::context> tls_context;
    asio::steady_timer alarm;
    std::vector<ConnectionPointer> idle;
    std::size_t open = 0;
    std::uint64_t alarm_number = 0;  // of the last run_until
    bool stop = false;
};

Error HttpClient::Impl::failed(const char* doing, const error_code& ec) const {
    if (ec == beast::error::timeout) {
        return {Errc::overloaded, fmt::format("{}: no end within the time limit", place())};
    }
    if (ec == http::error::end_of_stream || ec == http::error::partial_message) {
        return {Errc::io, fmt::format("{}: the connection ended in the middle", place())};
    }
    if (ec == http::error::body_limit) return {Errc::io, fmt::format("{}: a long answer", place())};
    return {Errc::io, fmt::format("{}: {}: {}", place(), doing, ec.message())};
}

asio::awaitable<base::Status> HttpClient::Impl::connect(Connection& connection) {
    error_code ec;
    co_await connection.stream.async_connect(endpoints,
                                             asio::redirect_error(asio::use_awaitable, ec));
    if (ec == beast::error::timeout) co_return failed("connecting", ec);
    if (ec) co_return Error{Errc::unavailable, fmt::format("{}: {}", place(), ec.message())};
    connection.stream.socket().set_option(tcp::no_delay(true), ec);
    if (tls_context) co_return co_await shake_hands(connection);
    co_return base::Ok{};
}

asio::awaitable<base::Status> HttpClient::Impl::shake_hands(Connection& connection) {
    error_code ec;
    auto& tls = connection.tls.emplace(connection.stream, *tls_context);
    const bool is_address = (asio::ip::make_address(target.host, ec), !ec);
    if (!is_address)
        SSL_ctrl(tls.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 target.host.data());
    tls.set_verify_callback(asio::ssl::rfc2818_verification(target.host), ec);
    co_await tls.async_handshake(asio::ssl::stream_base::client,
                                 asio::redirect_error(asio::use_awaitable, ec));
    if (!ec) co_return base::Ok{};
    if (ec == beast::error::timeout) co_return failed("connecting", ec);
    const bool untrusted =
        SSL_get_verify_result(tls.native_handle()) != X509_V_OK ||
        ERR_GET_REASON(static_cast<unsigned long>(ec.value())) == SSL_R_CERTIFICATE_VERIFY_FAILED;
    co_return Error{
        Errc::unavailable,
        untrusted ? fmt::format("{}: its certificate is not trusted, or is not for {} "
                                "(SSL_CERT_FILE=FILE in the environment trusts those in FILE)",
                                place(), target.host)
                  : fmt::format("{}: no TLS: {}", place(), ec.message())};
}

// One try on one connection. Sets heard when something of the answer has come.
template <typename Stream>
asio::awaitable<base::Status> HttpClient::Impl::exchange(Stream& stream, HttpCall& call,
                                                         ConnectionPointer& connection,
                                                         bool& heard) {
    http::request<http::string_body> request{http::string_to_verb(call.method),
                                             target.prefix + call.path, 11};
    request.set(http::field::host, place());
    if (!call.body.empty()) request.set(http::field::content_type, "application/json");
    for (const auto& [name, value] : call.headers) request.set(name, value);
    request.body() = call.body;
    request.prepare_payload();
    error_code ec;
    const auto token = [&ec] { return asio::redirect_error(asio::use_awaitable, ec); };
    co_await http::async_write(stream, request, token());
    if (ec) co_return failed("sending", ec);

    http::response_parser<http::buffer_body> parser;
    parser.body_limit(call.most_body_bytes);
    if (call.method == "HEAD") parser.skip(true);
    co_await http::async_read_header(stream, connection->read_ahead, parser, token());
    if (ec) co_return failed("reading", ec);
    heard = true;
    if (call.on_head) call.on_head(static_cast<int>(parser.get().result_int()));
    if (call.on_header) {
        for (const auto& field : parser.get()) {
            const auto name = field.name_string();
            const auto value = field.value();
            call.on_header({name.data(), name.size()}, {value.data(), value.size()});
        }
    }
    std::array<char, 4096> piece;
    while (!parser.is_done()) {
        parser.get().body().data = piece.data();
        parser.get().body().size = piece.size();
        co_await http::async_read_some(stream, connection->read_ahead, parser, token());
        if (ec == http::error::need_buffer) ec = {};
        const std::size_t size = piece.size() - parser.get().body().size;
        if (size > 0 && call.on_body) call.on_body({piece.data(), size});
        if (ec) co_return failed("reading", ec);
    }
    if (!parser.keep_alive()) connection.reset();
    co_return base::Ok{};
}

asio::awaitable<void> HttpClient::Impl::run(HttpCall call) {
    base::Status status = base::Ok{};
    bool again = true;
    while (again) {
        again = false;
        ConnectionPointer connection;
        if (idle.empty()) {
            connection = std::make_unique<Connection>(io);
        } else {
            connection = std::move(idle.back());
            idle.pop_back();
        }
        if (call.limit.count() > 0) {
            connection->stream.expires_after(call.limit);
        } else {
            connection->stream.expires_never();
        }
        bool heard = false;
        if (!connection->used) status = co_await connect(*connection);
        if (connection->used || status.ok()) {
            // g++ 12 awaits both sides of a "?:".
            if (connection->tls) {
                status = co_await exchange(*connection->tls, call, connection, heard);
            } else {
                status = co_await exchange(connection->stream, call, connection, heard);
            }
            // The server may have closed a kept connection meanwhile; then nothing of the request
            // was served and it may be sent again.
            again = !status.ok() && !heard && connection->used &&
                    status.error().code != Errc::overloaded;
        }
        if (status.ok() && connection != nullptr && idle.size() < kMostIdle) {
            connection->used = true;
            idle.push_back(std::move(connection));
        }
    }
    --open;
    if (call.on_end) call.on_end(status);
}

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpClient::~HttpClient() = default;

base::Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpTarget target) {
    auto impl = std::make_unique<Impl>(std::move(target));
    TRY_VOID(impl->resolve());
    if (impl->target.tls) TRY_VOID(impl->trust());
    return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));
}

void HttpClient::start(HttpCall call) {
    ++impl_->open;
    asio::co_spawn(
        impl_->io,
        [impl = impl_.get(), c = std::move(call)]() mutable { return impl->run(std::move(c)); },
        // An exception here is a bug of ours or lack of memory; neither may be swallowed.
        [](const std::exception_ptr& exception) {
            if (exception) std::rethrow_exception(exception);
        });
}

void HttpClient::run_until(Clock::time_point until) {
    impl_->stop = false;
    impl_->io.restart();
    impl_->alarm.expires_at(until);
    impl_->alarm.async_wait([impl = impl_.get(), number = ++impl_->alarm_number](error_code ec) {
        if (!ec && number == impl->alarm_number) impl->stop = true;
    });
    while (!impl_->stop) impl_->io.run_one();
}

void HttpClient::stop_running() {
    impl_->stop = true;
}

void HttpClient::wake() {
    asio::post(impl_->io, [impl = impl_.get()] { impl->stop = true; });
}

std::size_t HttpClient::open_calls() const {
    return impl_->open;
}

base::Result<HttpAnswer> http_call(HttpClient& client, HttpCall call) {
    HttpAnswer answer;
    base::Status end = base::Ok{};
    bool over = false;
    call.on_head = [&](int status) { answer.status = status; };
    call.on_body = [&](std::string_view bytes) { answer.body += bytes; };
    call.on_end = [&](const base::Status& status) {
        end = status;
        over = true;
        client.stop_running();
    };
    client.start(std::move(call));
    while (!over) client.run_until(HttpClient::Clock::now() + std::chrono::seconds(1));
    TRY_VOID(std::move(end));
    return answer;
}

}  // namespace helix::net

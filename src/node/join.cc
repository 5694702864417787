#include "node/join.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "net/key.h"
#include "spec/bounded_json.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;

// One GET, step by step, until an end or an error is noted.
class JoinQuestion {
  public:
    JoinQuestion(const Address& address, std::chrono::milliseconds timeout)
        : address_(address), resolver_(io_), stream_(io_), timeout_(timeout) {
        parser_.body_limit(64U << 10U);
    }

    Result<http::response<http::string_body>> ask() {
        resolver_.async_resolve(
            address_.host, std::to_string(address_.port),
            [this](beast::error_code error, const tcp::resolver::results_type& found) {
                on_resolved(error, found);
            });
        io_.run_for(timeout_);
        if (answered_) return parser_.release();
        return Error{Errc::unavailable,
                     fmt::format("{}:{} does not answer over HTTP ({})", address_.host,
                                 address_.port, error_ ? error_.message() : "time-out")};
    }

  private:
    void on_resolved(beast::error_code error, const tcp::resolver::results_type& found) {
        if (failed(error)) return;
        stream_.async_connect(
            found, [this](beast::error_code e, const tcp::endpoint&) { on_connected(e); });
    }

    void on_connected(beast::error_code error) {
        if (failed(error)) return;
        request_ = {http::verb::get, "/helix/join", 11};
        request_.set(http::field::host, address_.host);
        http::async_write(stream_, request_, [this](beast::error_code e, std::size_t) {
            if (failed(e)) return;
            http::async_read(stream_, buffer_, parser_,
                             [this](beast::error_code read_error, std::size_t) {
                                 answered_ = !failed(read_error);
                             });
        });
    }

    bool failed(beast::error_code error) {
        error_ = error;
        return static_cast<bool>(error);
    }

    Address address_;
    boost::asio::io_context io_;
    tcp::resolver resolver_;
    beast::tcp_stream stream_;
    std::chrono::milliseconds timeout_;
    http::request<http::empty_body> request_;
    beast::flat_buffer buffer_;
    http::response_parser<http::string_body> parser_;
    beast::error_code error_;
    bool answered_ = false;
};

}  // namespace

std::string to_json(const JoinInfo& info) {
    return nlohmann::json{{"cluster_port", info.cluster_port}, {"public_key", info.public_key}}
        .dump();
}

Result<JoinInfo> parse_join_info(const std::string& json) {
    const nlohmann::json value = spec::bounded_json_or_discarded(json);
    const bool good = value.is_object() && value.contains("cluster_port") &&
                      value.contains("public_key") && value["cluster_port"].is_number_unsigned() &&
                      value["public_key"].is_string();
    if (!good) return base::invalid("expected an object with cluster_port and public_key");
    JoinInfo info;
    const auto port = value["cluster_port"].get<std::uint64_t>();
    info.public_key = value["public_key"].get<std::string>();
    if (port < 1 || port > 65535)
        return base::invalid(fmt::format("cluster_port {} is no port", port));
    if (!info.public_key.empty() && !net::is_z85_key(info.public_key)) {
        return base::invalid("public_key is no key");
    }
    info.cluster_port = static_cast<std::uint16_t>(port);
    return info;
}

Result<Address> parse_address(const std::string& given) {
    constexpr std::string_view kScheme = "http://";
    if (given.starts_with("https://")) {
        return base::invalid(
            fmt::format("\"{}\": a coordinator speaks HTTP without TLS; write HOST:PORT", given));
    }
    std::string text = given.starts_with(kScheme) ? given.substr(kScheme.size()) : given;
    if (text.size() != given.size()) text = text.substr(0, text.find('/'));
    const std::size_t colon = text.rfind(':');
    Address address;
    if (colon != std::string::npos) {
        address.host = text.substr(0, colon);
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, address.port);
        if (error != std::errc() || rest != end) address.port = 0;
    }
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
        address.host = address.host.substr(1, address.host.size() - 2);
    }
    if (address.host.empty() || address.port == 0) {
        return base::invalid(fmt::format("\"{}\": expected HOST:PORT", given));
    }
    return address;
}

Result<JoinInfo> ask_join_info(const Address& address, int timeout_ms) {
    JoinQuestion question(address, std::chrono::milliseconds(timeout_ms));
    TRY(const auto response, question.ask());
    const std::string where = fmt::format("http://{}:{}/helix/join", address.host, address.port);
    if (response.result() != http::status::ok) {
        return Error{Errc::not_found, fmt::format("{} answers {}: no Helix coordinator", where,
                                                  static_cast<unsigned>(response.result_int()))};
    }
    auto info = parse_join_info(response.body());
    if (!info.ok()) return Error{Errc::not_found, where + ": " + info.error().message};
    return info;
}

Result<std::string> local_address_towards(const Address& address) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    const int failed =
        ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
    if (failed != 0) {
        return Error{Errc::unavailable,
                     fmt::format("{}: {}", address.host, ::gai_strerror(failed))};
    }
    std::array<char, 256> host = {};
    bool known = false;
    const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    // Connecting a datagram socket sends nothing; it only chooses the route.
    if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
        sockaddr_storage self = {};
        socklen_t size = sizeof self;
        auto* as_address = reinterpret_cast<sockaddr*>(&self);
        known = ::getsockname(fd, as_address, &size) == 0 &&
                ::getnameinfo(as_address, size, host.data(), host.size(), nullptr, 0,
                              NI_NUMERICHOST) == 0;
    }
    if (fd >= 0) ::close(fd);
    ::freeaddrinfo(found);
    if (!known) return Error{Errc::unavailable, fmt::format("no route to {}", address.host)};
    return std::string(host.data());
}

}  // namespace helix::node

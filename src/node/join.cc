#include "node/join.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "net/http_client.h"
#include "net/key.h"
#include "spec/bounded_json.h"

namespace helix::node {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr std::uint64_t kLongestAnswer = 64U << 10U;  // bytes

// One GET of /helix/join. Whoever answers there need not be a coordinator, so a long answer is not
// read to its end.
Result<net::HttpAnswer> ask(const Address& address, std::chrono::milliseconds timeout) {
    TRY(const auto client,
        net::HttpClient::create({address.host, std::to_string(address.port), ""}));
    return net::http_call(
        *client, {.path = "/helix/join", .limit = timeout, .most_body_bytes = kLongestAnswer});
}

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
            fmt::format("\"{}\": a worker joins without TLS, by keys; write HOST:PORT", given));
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
    const auto answer = ask(address, std::chrono::milliseconds(timeout_ms));
    if (!answer.ok()) {
        return Error{Errc::unavailable,
                     fmt::format("{}:{} does not answer over HTTP ({})", address.host, address.port,
                                 answer.error().message)};
    }
    const std::string where = fmt::format("http://{}:{}/helix/join", address.host, address.port);
    if (answer->status != 200) {
        return Error{Errc::not_found,
                     fmt::format("{} answers {}: no Helix coordinator", where, answer->status)};
    }
    auto info = parse_join_info(answer->body);
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

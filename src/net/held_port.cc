#include "net/held_port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace helix::net {

using boost::asio::ip::tcp;

base::Result<HeldPort> HeldPort::hold(const std::string& address, std::uint16_t port) {
    const auto failed = [&](int error) {
        return refused(address, port, std::generic_category().message(error));
    };
    boost::system::error_code ec;
    tcp::endpoint endpoint(boost::asio::ip::make_address(address, ec), port);
    if (ec) return refused(address, port, ec.message());
    const int fd =
        ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failed(errno);
    HeldPort held(fd, port, endpoint.protocol() == tcp::v6());
    const int yes = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    auto size = static_cast<socklen_t>(endpoint.size());
    if (::bind(fd, endpoint.data(), size) != 0) return failed(errno);
    size = static_cast<socklen_t>(endpoint.capacity());
    if (::getsockname(fd, endpoint.data(), &size) != 0) return failed(errno);
    held.port_ = endpoint.port();
    return held;
}

base::Error HeldPort::refused(const std::string& address, std::uint16_t port,
                              const std::string& why) {
    return {base::Errc::io, fmt::format("cannot listen for HTTP on {}:{}: {}", address, port, why)};
}

HeldPort::~HeldPort() {
    if (socket_ >= 0) ::close(socket_);
}

HeldPort::HeldPort(HeldPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_), is_ipv6_(other.is_ipv6_) {}

HeldPort& HeldPort::operator=(HeldPort&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(port_, other.port_);
    std::swap(is_ipv6_, other.is_ipv6_);
    return *this;
}

int HeldPort::take_socket() {
    CHECK(socket_ >= 0);
    return std::exchange(socket_, -1);
}

}  // namespace helix::net

#include "net/held_port.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "net/bound_socket.h"

namespace helix::net {

using boost::asio::ip::tcp;

base::Result<std::shared_ptr<HeldPort>> HeldPort::hold(const std::string& address,
                                                       std::uint16_t port) {
    boost::system::error_code ec;
    tcp::endpoint endpoint(boost::asio::ip::make_address(address, ec), port);
    if (ec) return refused(address, port, ec.message());
    const auto fd = bound_socket(endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    if (!fd.ok()) return refused(address, port, fd.error().message);
    std::shared_ptr<HeldPort> held(new HeldPort(*fd, port, endpoint.protocol() == tcp::v6()));
    auto size = static_cast<socklen_t>(endpoint.capacity());
    if (::getsockname(*fd, endpoint.data(), &size) != 0) {
        return refused(address, port, std::generic_category().message(errno));
    }
    held->port_ = endpoint.port();
    return held;
}

base::Error HeldPort::refused(const std::string& address, std::uint16_t port,
                              const std::string& why) {
    return {base::Errc::io, fmt::format("cannot listen for HTTP on {}:{}: {}", address, port, why)};
}

HeldPort::~HeldPort() {
    if (socket_ >= 0) ::close(socket_);
}

int HeldPort::take_socket() {
    CHECK(socket_ >= 0);
    return std::exchange(socket_, -1);
}

}  // namespace helix::net

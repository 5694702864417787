#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace helix::net {

// A TCP address where nobody is answered yet: a bound socket that does not listen. A program that
// opens several ports takes the named ones first, so that none of those that may be any free port
// is put there; and one that prepares for long knows at once that somebody listens on its port.
// Another program that names the same port may hold it as well until one of them listens; the other
// is told when it would listen, too.
class HeldPort {
  public:
    // address is a number, of IPv4 or IPv6; port 0 takes one that is free.
    // Errors: io, where the address is not this machine's or another program listens there.
    static base::Result<std::shared_ptr<HeldPort>> hold(const std::string& address,
                                                        std::uint16_t port);
    ~HeldPort();
    HeldPort(const HeldPort&) = delete;
    HeldPort& operator=(const HeldPort&) = delete;

    // The error of an address where one cannot listen.
    static base::Error refused(const std::string& address, std::uint16_t port,
                               const std::string& why);

    std::uint16_t port() const { return port_; }
    bool is_ipv6() const { return is_ipv6_; }
    // Gives the socket away, once.
    int take_socket();

  private:
    HeldPort(int socket, std::uint16_t port, bool is_ipv6)
        : socket_(socket), port_(port), is_ipv6_(is_ipv6) {}

    int socket_;  // -1 once it was given away
    std::uint16_t port_;
    bool is_ipv6_;
};

}  // namespace helix::net

#include "net/bound_socket.h"

#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace helix::net {

base::Result<int> bound_socket(const sockaddr* address, socklen_t size) {
    const int yes = 1;
    const int no = 0;
    const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        (address->sa_family != AF_INET6 ||
         ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) &&
        ::bind(fd, address, size) == 0) {
        return fd;
    }
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return base::Error{base::Errc::io, std::generic_category().message(error)};
}

}  // namespace helix::net

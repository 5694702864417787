#pragma once

#include <sys/socket.h>

#include "base/result.h"

namespace helix::net {

// A new TCP socket that is bound to this address and does not listen yet; the caller closes it. It
// does not block, and programs that are started do not inherit it. An address is free again as soon
// as nobody listens there, and every address of IPv6 takes those of IPv4 along.
// Errors: io, where the system refuses it; the message is what the system says and nothing else.
base::Result<int> bound_socket(const sockaddr* address, socklen_t size);

}  // namespace helix::net

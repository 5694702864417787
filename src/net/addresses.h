#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/result.h"

// Addresses as people write and read them.

namespace helix::net {

// An address as a number, like "192.0.2.7"; "" when it is none of IPv4 or IPv6.
std::string number_of(const sockaddr* address);

// A host as it is written before ":PORT" and in URLs, which is in brackets for IPv6 addresses.
std::string url_host(const std::string& host);

// The numeric address of a host that is to be listened on. Numbers stay as they are; names are
// looked up, IPv4 first.
base::Result<std::string> resolve_listen_host(const std::string& host);

bool is_every_address(const std::string& host);  // "0.0.0.0", "::", "*"

// The addresses under which others reach what listens on host: that one, or if it means every
// address those of this machine's interfaces that are up, without loopback; 127.0.0.1 if there are
// none. Best first.
std::vector<std::string> reachable_addresses(const std::string& host);

// The addresses with those last that a machine gave itself because nobody gave it one (IPv4
// link-local, 169.254.0.0/16): where it has others, machines elsewhere hardly reach these.
std::vector<std::string> best_first(std::vector<std::string> addresses);

}  // namespace helix::net

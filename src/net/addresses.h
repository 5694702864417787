#pragma once

#include <string>
#include <vector>

#include "base/result.h"

// Addresses as people write and read them.

namespace helix::net {

// A host as it stands before ":PORT" and in URLs: IPv6 addresses in brackets.
std::string url_host(const std::string& host);

// The number of a host that is to be listened on: numbers stay, names are looked up, IPv4 first.
base::Result<std::string> resolve_listen_host(const std::string& host);

bool is_every_address(const std::string& host);  // "0.0.0.0", "::", "*"

// Under which addresses others reach what listens on host: that one, or for every address those of
// this machine's interfaces that are up, without loopback. Where there are none: 127.0.0.1.
std::vector<std::string> reachable_addresses(const std::string& host);

}  // namespace helix::net

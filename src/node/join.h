#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace helix::node {

// What a coordinator tells whoever wants to join: GET /helix/join.
struct JoinInfo {
    std::uint16_t cluster_port = 0;
    std::string public_key;  // Z85, empty without CURVE
};

std::string to_json(const JoinInfo& info);
base::Result<JoinInfo> parse_join_info(const std::string& json);

struct Address {
    std::string host;
    std::uint16_t port = 0;
};
// Parses "host:port" or "[v6]:port", also in "http://host:port/...".
base::Result<Address> parse_address(const std::string& given);

// Asks at the coordinator's HTTP address. Error not_found when something else answers there,
// unavailable when nobody does. Takes at most timeout_ms.
base::Result<JoinInfo> ask_join_info(const Address& address, int timeout_ms);

// This machine's address on the way to host; "127.0.0.1" when that is this machine.
base::Result<std::string> local_address_towards(const Address& address);

}  // namespace helix::node

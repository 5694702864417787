#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "net/key.h"
#include "node/join.h"

namespace helix::node {

// Whom one who joins trusts, and how it can come by a key.
struct JoinTrust {
    std::optional<net::WorkerKey> key;
    bool insecure = false;  // a network without keys will do
    bool may_pair = false;  // its command has --pair
};

// A coordinator's cluster port, as one who joins reaches it.
struct CoordinatorAddress {
    std::string endpoint;    // "tcp://host:port"
    std::string public_key;  // Z85, empty = without CURVE
    std::string local_host;  // this machine's address on the way there, as endpoints have it
};

// Finds the cluster port of the coordinator at an address, which is its HTTP address or the cluster
// port itself. For one thread.
class CoordinatorFinder {
  public:
    // Error invalid: join is not HOST:PORT.
    static base::Result<CoordinatorFinder> create(const std::string& join, JoinTrust trust);

    // Takes up to two seconds. Error denied or invalid: trying again without changing something is
    // useless.
    base::Result<CoordinatorAddress> find();
    const Address& address() const { return address_; }

  private:
    CoordinatorFinder(Address address, JoinTrust trust)
        : address_(std::move(address)), trust_(std::move(trust)) {}
    base::Result<std::string> find_public_key(const std::string& offered) const;

    Address address_;
    JoinTrust trust_;
    bool asked_over_http_ = false;  // HTTP was answered, so what we join is the HTTP address
};

}  // namespace helix::node

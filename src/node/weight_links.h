#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/protocol/messages.h"
#include "net/zmq_transport.h"
#include "node/weight_fetcher.h"

namespace helix::node {

// Connections to the workers that tensors are fetched from, apart from those of rows, so that no
// row waits behind them. They end at the same sockets and are admitted like those. Owned by the
// worker's loop.
class WeightLinks {
  public:
    struct Options {
        std::shared_ptr<net::ZmqContext> context;
        std::optional<net::KeyPair> keys;
        net::TransportOptions transport;
        core::WorkerId self;
        std::uint64_t incarnation = 0;
    };
    WeightLinks(Options options, WeightFetcher& fetcher);

    // Sends what the fetcher wants of other workers, and hands in what has come.
    void exchange();
    // Closes all connections; the next request opens one.
    void close() { links_.clear(); }
    void add_sockets(std::vector<net::ZmqSocket*>& sockets) const;

  private:
    struct Link {
        core::Peer peer;
        std::unique_ptr<net::DealerSocket> socket;
    };
    base::Status send(const WeightFetcher::PeerRequest& wanted);
    // Why the link is of no more use, if it is not.
    std::optional<std::string> receive(core::WorkerId worker, const Link& link);

    Options options_;
    WeightFetcher& fetcher_;
    std::map<core::WorkerId, Link> links_;
};

}  // namespace helix::node

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/result.h"
#include "base/time.h"
#include "core/protocol/term.h"
#include "net/key.h"
#include "net/zmq_transport.h"
#include "node/coordinator_finder.h"
#include "wire/codec.h"

namespace helix::node {

struct GatewayLinkOptions {
    std::string name;               // of the gateway, as coordinators know it
    std::vector<std::string> join;  // HOST:PORT each; tried in turn, from the first on
    std::optional<net::WorkerKey> key;
    bool insecure = false;
    net::TransportOptions transport;
};

// A gateway's connection to the one coordinator that it has at a time. When it breaks, the
// addresses are tried in turn, from the one that was good last on, until one has a coordinator that
// welcomes us and is of no lower term than any that did. Used by one thread.
class GatewayLink {
  public:
    // Error invalid: an address is none.
    static base::Result<std::unique_ptr<GatewayLink>> create(GatewayLinkOptions options);

    // A coordinator has welcomed us, and its connection has not broken.
    bool there() const { return there_; }
    // The host that the coordinator is reached at; where there is none, that is tried.
    const std::string& host() const { return finders_[at_].address().host; }
    // Set while every address says what makes trying again useless, and none was ever good.
    const std::optional<base::Error>& hopeless() const { return hopeless_; }

    // Tries the next address when that is due, which takes up to two seconds, and gives up what
    // does not answer.
    void on_time(base::TimePoint now);
    base::TimePoint next_time() const;
    struct Arrived {
        wire::Message message;
        net::Frame payload;
    };
    // What has come, in order: a GatewayWelcome first of all. A connection that has broken ends
    // here.
    std::vector<Arrived> receive(base::TimePoint now);
    // Error overloaded: not now. Any other error has ended the connection.
    base::Status send(base::TimePoint now, const wire::Message& message);
    // Ends the connection, for a reason that is told in the log.
    void close(base::TimePoint now, const std::string& reason);
    // Says good-bye and ends it for good.
    void leave(const std::string& reason);
    // What wait() is to look at, if anything.
    net::ZmqSocket* socket() const { return socket_.get(); }

  private:
    GatewayLink(GatewayLinkOptions options, std::shared_ptr<net::ZmqContext> context,
                std::vector<CoordinatorFinder> finders)
        : options_(std::move(options)),
          context_(std::move(context)),
          finders_(std::move(finders)) {}
    base::Status open(base::TimePoint now);
    void give_up(base::TimePoint now, const base::Error& error);
    std::optional<std::string> how_it_broke();
    std::optional<base::Error> greeted(const wire::Message& message);

    GatewayLinkOptions options_;
    std::shared_ptr<net::ZmqContext> context_;
    std::vector<CoordinatorFinder> finders_;  // one for each address
    std::size_t at_ = 0;                      // the address that is good, or tried
    std::unique_ptr<net::DealerSocket> socket_;
    base::TimePoint opened_;
    bool there_ = false;
    bool ever_there_ = false;
    bool left_ = false;
    core::FollowedTerm term_;
    wire::SessionLimits limits_;
    base::Backoff again_;
    std::string said_;        // in the log, last
    std::size_t finals_ = 0;  // tries in a row that ended in what waiting does not mend
    std::optional<base::Error> hopeless_;
};

}  // namespace helix::node

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/log_budget.h"
#include "base/result.h"
#include "base/time.h"
#include "core/protocol/messages.h"
#include "net/zmq_transport.h"
#include "wire/codec.h"

namespace helix::node {

// A worker's side of the links to the other workers: one socket that they connect to, and one
// socket to each of them, opened when there is something to send. Owned by the worker's loop.
class PeerLinks {
  public:
    struct Options {
        std::shared_ptr<net::ZmqContext> context;
        std::optional<net::KeyPair> keys;
        std::string listen_endpoint;   // "tcp://127.0.0.1:0"
        std::string coordinator_host;  // stands for "*" in a peer's endpoint
        net::TransportOptions transport;
    };
    static base::Result<std::unique_ptr<PeerLinks>> create(Options options);
    ~PeerLinks();
    PeerLinks(const PeerLinks&) = delete;
    PeerLinks& operator=(const PeerLinks&) = delete;

    const std::string& endpoint() const { return endpoint_; }
    void set_self(core::WorkerId self, std::uint64_t incarnation);
    void set_coordinator_host(std::string host) { options_.coordinator_host = std::move(host); }
    // Sets the public keys that may connect and stay connected. Only with CURVE.
    void allow(std::set<std::string> keys);
    // From now on there are links to these peers and no others.
    void connect(const std::vector<core::Peer>& peers);
    // Error unavailable: there is no such peer. Error overloaded: the peer does not take its
    // messages. While a link is broken, what is sent over it is dropped.
    base::Status send(base::TimePoint now, core::WorkerId peer, const wire::Message& message,
                      const net::Frame& payload);

    // All that peers may say once they have said who they are; a Pong only answers a Ping of ours.
    using PeerMessage = std::variant<core::StageInputs, core::KvBlocks, wire::TensorRequest,
                                     wire::Ping, wire::Pong>;
    struct Arrived {
        PeerMessage message;
        net::Frame payload;
        std::string connection;  // for reply()
        std::optional<core::WorkerId>
            from;  // known after its PeerHello; for answers on our own sockets always
    };
    // What has come in, decoded; senders of anything else are cut off and logged.
    std::vector<Arrived> receive(const wire::SessionLimits& limits);
    void reply(const std::string& connection, const wire::Message& message,
               const net::Frame& payload);

    // Peers whose links have been broken for longer than grace; each is named once.
    std::vector<core::Peer> take_down(base::TimePoint now, base::Duration grace);
    // Peers whose links have broken and come back since the last call, and those named by
    // take_down() that are not wanted any more. What was under way to them is lost.
    std::vector<core::WorkerId> take_mended();
    bool works(core::WorkerId worker) const;  // a link that is open, and has been connected
    // How the peer can be reached from here; empty if there is none.
    std::optional<core::Peer> peer(core::WorkerId worker) const;
    std::set<std::string> endpoints() const;  // of all peers
    // A peer that somebody names, with an endpoint that can be reached from here.
    core::Peer reachable(core::Peer peer) const;
    void watch(base::TimePoint now);
    // KV goes to this peer over a connection of its own, so the link is opened and watched as if
    // rows went over it.
    void look_after(base::TimePoint now, core::WorkerId worker);
    void add_sockets(std::vector<net::ZmqSocket*>& sockets) const;

  private:
    struct Link {
        core::Peer peer;
        std::unique_ptr<net::DealerSocket> socket = nullptr;
        base::TimePoint opened = {};
        bool connected = false;  // since then
        base::Duration patience = {};
        std::optional<base::TimePoint> broken_since = {};
        bool told_down = false;  // since then
    };

    explicit PeerLinks(Options options) : options_(std::move(options)) {}
    base::Status open(Link& link, base::TimePoint now);
    void watch(Link& link, base::TimePoint now);
    void reopen(Link& link, base::TimePoint now);
    void receive_from_listener(const wire::SessionLimits& limits, std::vector<Arrived>& arrived);

    Options options_;
    std::string domain_;
    std::string endpoint_;
    core::WorkerId self_;
    std::uint64_t incarnation_ = 0;
    std::unique_ptr<net::RouterSocket> listener_;
    std::map<core::WorkerId, Link> links_;
    std::set<core::WorkerId> mended_;
    struct Greeted {
        core::WorkerId worker;  // who it said it is
        std::string key;        // that it proved; "" without CURVE
    };
    std::map<std::string, Greeted> greeted_;  // by connection
    base::LogBudget strangers_log_{30};
};

// The host in "tcp://host:port"; "" when there is none.
std::string endpoint_host(const std::string& endpoint);

}  // namespace helix::node

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log_budget.h"
#include "base/result.h"
#include "base/time.h"
#include "net/open_files.h"
#include "net/zmtp_meter.h"

namespace helix::net {

struct GateOptions {
    ZmtpLimits limits;
    std::size_t max_peers = 64;
    // How much may be passed on for a peer before admit(). After that it has to wait.
    std::int64_t stranger_bytes = std::int64_t{64} << 10;
    base::Duration stranger_timeout = base::from_seconds(30);  // until admit()
};

// Stands between the network and a libzmq socket that listens on this machine only. libzmq can
// neither bound what a peer makes it keep nor close one peer's connection, and its descriptors are
// its own. So the connections to peers are made here, by a thread of the gate's, and what they send
// is metered (net/zmtp_meter.h) and passed on. A peer is known by the address that its connection
// to libzmq comes from, which is another one of 127.0.0.0/8 for each.
class ZmqGate {
  public:
    // endpoint as libzmq writes them, "tcp://HOST:PORT", "*" and 0 for any; inner_port is where
    // libzmq listens on 127.0.0.1.
    static base::Result<std::unique_ptr<ZmqGate>> open(const std::string& endpoint,
                                                       std::uint16_t inner_port,
                                                       const GateOptions& options);
    // Begins to let peers in.
    void start();
    // Passes on for a moment what libzmq still has to say. Its socket must be closed already.
    ~ZmqGate();
    ZmqGate(const ZmqGate&) = delete;
    ZmqGate& operator=(const ZmqGate&) = delete;

    const std::string& endpoint() const { return endpoint_; }  // with its real port

    // ---- any thread; address is a peer's, as libzmq gives it ("Peer-Address")
    // Whether a peer is known: from its first moment until forget().
    bool knows(std::string_view address) const;
    void forget(std::string_view address);
    // Answers libzmq's question who connects: where the peer comes from, once for each connection
    // that the gate has made.
    std::optional<std::string> enters(std::string_view address);
    // From now on only the limits of messages hold for this peer.
    void admit(std::string_view address);
    // Closes the peer's connection.
    void close(std::string_view address);
    // The peers whose connections have ended since the last call. Where the peer ended it, libzmq
    // has by then handed over all that the peer had sent.
    std::vector<std::string> take_ended();
    int ended_fd() const { return ended_event_; }  // readable: take_ended() has something

  private:
    struct Peer;
    explicit ZmqGate(const GateOptions& options);
    base::Status listen(const std::string& endpoint);
    void run();
    void take_commands();
    void accept_all();
    void accept_one(int outer, const std::string& from);
    bool make_room();
    void on_event(std::uint64_t token, std::uint32_t events);
    void pump_in(Peer& peer);
    void pump_out(Peer& peer);
    void watch(Peer& peer);
    void leave(Peer& peer);
    void cut_off(Peer& peer, std::string_view why);
    void end(std::uint32_t number);
    void check_deadlines(base::TimePoint now);
    void warn(const std::string& text);

    GateOptions options_;
    std::string endpoint_;
    std::uint16_t inner_port_ = 0;
    int listener_ = -1;
    int epoll_ = -1;
    int wake_event_ = -1;
    int ended_event_ = -1;
    SpareDescriptor spare_;
    std::atomic<bool> stopping_{false};

    // ---- the gate's thread
    std::map<std::uint32_t, std::unique_ptr<Peer>> peers_;  // by number, the oldest first
    std::uint32_t next_number_ = 0;
    base::TimePoint accept_after_ = {};  // set while descriptors are short
    bool listening_ = true;
    std::vector<char> scratch_;
    base::LogBudget log_{30};

    mutable std::mutex mutex_;
    struct Command {
        std::string address;
        bool close = false;  // otherwise admit
    };
    std::vector<Command> commands_;
    std::vector<std::string> ended_;
    std::set<std::string, std::less<>> known_;
    std::map<std::string, std::string, std::less<>>
        not_entered_;  // from a peer's address to where it comes from
    std::thread thread_;
};

}  // namespace helix::net

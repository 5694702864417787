#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "net/key.h"
#include "net/zmq_context.h"
#include "net/zmq_frame.h"
#include "net/zmq_gate.h"

// Messages between processes: a header frame and at most one raw frame, over ZeroMQ. A socket
// belongs to one thread; nothing here blocks but wait().

namespace helix::net {

struct TransportOptions {
    int high_water = 4096;  // messages queued towards one peer; more are refused with overloaded
    std::int64_t max_frame_bytes = std::int64_t{160} << 20;  // a peer that sends more is cut off
    int heartbeat_interval_ms = 500;
    int heartbeat_timeout_ms = 2000;
    // ---- of a RouterSocket on TCP
    std::size_t max_peers = 0;  // connected at once; 0 = by the limit of open files
    // How much a peer may send before admit(), and how long it may take until then.
    std::int64_t stranger_bytes = std::int64_t{64} << 10;
    int stranger_timeout_ms = 30'000;
};

struct Received {
    std::string from;        // connection, only for RouterSocket
    std::string public_key;  // proven by CURVE; empty without
    Frame header;
    Frame payload;           // empty bytes when there was none; aligned for floats
    bool malformed = false;  // wrong number of frames: no message of ours
};

enum class LinkEventKind { connected, disconnected, refused };
struct LinkEvent {
    LinkEventKind kind = LinkEventKind::connected;
    std::string connection;  // RouterSocket: the connection; empty when it never said anything
    std::string detail;      // address or reason
};

class ZmqSocket {
  public:
    ZmqSocket(const ZmqSocket&) = delete;
    ZmqSocket& operator=(const ZmqSocket&) = delete;
    virtual ~ZmqSocket();

    // What happened to connections since the last call.
    virtual std::vector<LinkEvent> take_events();

  protected:
    ZmqSocket(std::shared_ptr<ZmqContext> context, int type, const TransportOptions& options);
    base::Status set_option(int option, const void* value, std::size_t size);
    base::Status set_text(int option, const std::string& value);
    base::Status start_monitor(int events);
    void close();
    void drain_monitor();
    std::optional<Received> receive_frames(bool has_identity);
    base::Status send_frames(const std::string* identity, const Frame& header,
                             const Frame& payload);
    virtual void on_event(LinkEventKind kind, std::string detail) = 0;
    virtual int event_fd() const { return -1; }  // readable: there is an event

    std::shared_ptr<ZmqContext> context_;
    void* socket_ = nullptr;
    void* monitor_ = nullptr;
    std::vector<LinkEvent> events_;
    std::string last_address_;  // address that the last message came from; "" = this process

    friend void wait(std::span<ZmqSocket* const> sockets, int wakeup_fd, base::Duration timeout);
};

// Many connections; each is named by an identity that only we choose.
class RouterSocket final : public ZmqSocket {
  public:
    // With keys CURVE is demanded on TCP, and domain names the allow-list in the context.
    static base::Result<std::unique_ptr<RouterSocket>> create(std::shared_ptr<ZmqContext> context,
                                                              const std::optional<KeyPair>& keys,
                                                              const std::string& domain,
                                                              const TransportOptions& options = {});
    // Binds to an endpoint "tcp://127.0.0.1:0" or "inproc://name"; returns the endpoint with its
    // real port.
    base::Result<std::string> bind(const std::string& endpoint);
    ~RouterSocket() override;
    std::optional<Received> receive();
    // Error overloaded: the peer does not drain its queue. Error unavailable: it is gone.
    base::Status send(const std::string& connection, const Frame& header,
                      const Frame& payload = {});
    // Says that the peer is who it should be: from now on it may send more than stranger_bytes, and
    // stay. Only needed on TCP; in this process everybody is admitted.
    void admit(const std::string& connection);
    // Closes a TCP connection and ignores what it has still sent.
    void ban(const std::string& connection);
    // What happened to connections since the last call. That a connection is closed comes after all
    // that receive() has to give of it.
    std::vector<LinkEvent> take_events() override;

  private:
    using ZmqSocket::ZmqSocket;
    void on_event(LinkEventKind kind, std::string detail) override;
    int event_fd() const override { return gate_ == nullptr ? -1 : gate_->ended_fd(); }
    base::Result<std::string> bind_tcp(const std::string& endpoint);
    bool take_note(const std::string& connection);
    void settle_ended();

    TransportOptions options_;
    std::string domain_;
    std::unique_ptr<ZmqGate> gate_;  // null without TCP
    // For peers that have said something, from the name of the connection to the address by which
    // the gate knows it, and back.
    std::map<std::string, std::string> address_of_;
    std::map<std::string, std::string> connection_of_;
    std::set<std::string> banned_;  // connections that have not ended yet
    std::vector<std::string>
        ending_;  // addresses whose end is told when nothing more can be received
};

// One connection, opened by us, reopened by libzmq when it breaks.
class DealerSocket final : public ZmqSocket {
  public:
    // With an empty server_key there is no CURVE.
    static base::Result<std::unique_ptr<DealerSocket>> connect(
        std::shared_ptr<ZmqContext> context, const std::string& endpoint,
        const std::optional<KeyPair>& keys, const std::string& server_key,
        const TransportOptions& options = {});
    std::optional<Received> receive();
    base::Status send(const Frame& header, const Frame& payload = {});
    // Gives queued messages up to this long to leave when the socket closes (default: none).
    void set_linger(base::Duration linger);

  private:
    using ZmqSocket::ZmqSocket;
    void on_event(LinkEventKind kind, std::string detail) override;
};

// Lets other threads (and signal handlers) end a wait().
class Wakeup {
  public:
    Wakeup();
    ~Wakeup();
    Wakeup(const Wakeup&) = delete;
    Wakeup& operator=(const Wakeup&) = delete;
    void wake() const;   // async-signal-safe
    void clear() const;  // by the waiting thread
    int fd() const { return fd_; }

  private:
    int fd_ = -1;
};

// Waits until a socket has something to receive or an event, wakeup_fd is readable, or the time is
// over.
void wait(std::span<ZmqSocket* const> sockets, int wakeup_fd, base::Duration timeout);

}  // namespace helix::net

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/worker/worker.h"
#include "engine/backend/backend.h"
#include "net/zmq_frame.h"
#include "net/zmq_transport.h"

namespace helix::node {

// Moves KV pages between the engine and other workers, on a thread and connections of its own, so
// that neither batches nor the rows between stages wait for them. Exports go one after the other,
// no faster than each says, and the end of one is told when its time at that rate is over. What a
// held request waits for goes before the others, and at once. Imports do not wait for exports.
class KvMover {
  public:
    struct Options {
        std::shared_ptr<net::ZmqContext> context;
        std::optional<net::KeyPair> keys;
        net::TransportOptions transport;
        core::WorkerId self;
        std::uint64_t incarnation = 0;
    };
    KvMover(Options options, const net::Wakeup& done);
    ~KvMover();
    KvMover(const KvMover&) = delete;
    KvMover& operator=(const KvMover&) = delete;

    // Sets the engine whose pages are meant from now on. It must not load layers while anything
    // moves.
    void use(std::shared_ptr<engine::Backend> backend);
    // to has an endpoint that can be reached from here. An export that no held request waits for
    // may begin only when no other such export is under way.
    void send(core::ExportKv action, core::Peer to, double bytes_per_s);
    void receive(core::ImportKv action, net::Frame frame);
    // Closes the connections to all other endpoints.
    void keep(std::set<std::string> endpoints);
    // The link to this endpoint is down: what is to go there counts as sent, and the connection is
    // closed.
    void give_up(std::string endpoint);
    // The events KvExported and KvImported, to be taken after a wake-up.
    std::vector<core::WorkerEvent> take_events();

  private:
    struct Export {
        core::ExportKv action;
        core::Peer to;
        double bytes_per_s = 0;
    };
    struct Import {
        core::ImportKv action;
        net::Frame frame;
    };
    // An export whose pages are read, until the link takes it.
    struct Outgoing {
        Export task;
        net::Frame header;
        net::Frame payload;
        base::TimePoint began;
    };
    // An export that was sent, whose end is told when its time is over.
    struct Pause {
        std::uint64_t transfer = 0;
        base::TimePoint until;
    };

    void work();
    // Does one piece of work; false when there is nothing to do now. The lock is held.
    bool work_once(std::unique_lock<std::mutex>& lock);
    void tell(core::WorkerEvent event);
    void drop_exports_to(const std::string& endpoint);
    bool import_next(std::unique_lock<std::mutex>& lock, engine::Backend& backend);
    bool export_next(std::unique_lock<std::mutex>& lock, engine::Backend& backend);
    base::Status read(Outgoing& outgoing, engine::Backend& backend);
    base::Status send(const Outgoing& outgoing);
    base::Status perform(const Import& task, engine::Backend& backend);
    base::Result<net::DealerSocket*> socket_to(const core::Peer& peer);

    Options options_;
    const net::Wakeup& done_;
    // The rest is the thread's.
    std::map<std::string, std::unique_ptr<net::DealerSocket>> sockets_;
    std::optional<Outgoing> outgoing_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<engine::Backend> backend_;
    std::deque<Export> exports_;
    std::deque<Import> imports_;
    std::optional<std::set<std::string>> kept_;  // to be done
    std::set<std::string> given_up_;             // to be done
    std::optional<Pause> pause_;
    std::vector<core::WorkerEvent> events_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node

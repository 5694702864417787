#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "node/etcd.h"

// Which of several coordinators of a cluster leads. etcd decides: who leads holds a key under a
// lease, and the next one can have it when that is over.
//
// The lease says who should lead, and terms make that safe (wire/messages.h): whoever wins has a
// higher term than all before, and workers and gateways that have joined it hear no older
// coordinator. So a leader serves on while etcd does not answer, and steps down as soon as etcd
// says that another leads.

namespace helix::node {

struct LeadershipOptions {
    net::HttpTarget etcd;
    std::string cluster = "helix";  // coordinators of one name take over from each other
    std::string name;               // of this coordinator, for people
    std::int64_t lease_s = 3;       // etcd's least is 2
};

// "etcd://HOST:PORT[/CLUSTER]", or etcds:// for TLS; options.name is not in it.
base::Result<LeadershipOptions> parse_leader(const std::string& url);

class Leadership {
  public:
    static base::Result<std::unique_ptr<Leadership>> create(LeadershipOptions options);
    // Gives the lease back, so that the next one need not wait for its end.
    ~Leadership();
    Leadership(const Leadership&) = delete;
    Leadership& operator=(const Leadership&) = delete;

    // Waits until this coordinator leads, and returns its term. Error unavailable: stopping was
    // set. Error invalid: what answers is no etcd.
    base::Result<std::uint64_t> win(const std::atomic<bool>& stopping);
    // From now on the lease is renewed on a thread of its own, on which on_lost is called when
    // another leads, once. Call it once, after win().
    void keep(std::function<void(const std::string& reason)> on_lost);

  private:
    Leadership(LeadershipOptions options, std::unique_ptr<Etcd> etcd);
    std::string leader_key() const;
    std::string term_key() const;
    base::Result<bool> campaign();
    base::Result<std::string> leader();
    void work();
    bool renew();
    void note_silence(const std::string& error);
    bool regain();

    const LeadershipOptions options_;
    std::unique_ptr<Etcd> etcd_;
    std::string self_;        // the leader's key, when it is us: no other has this text
    std::int64_t lease_ = 0;  // 0 = none
    std::uint64_t term_ = 0;
    std::function<void(const std::string&)> on_lost_;
    std::int64_t answered_ns_ = 0;  // when etcd did, last
    bool told_silence_ = false;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace helix::node

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fair_shares.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// What a client has in the system.
struct ClientUse {
    std::int64_t waiting = 0;         // requests
    std::int64_t waiting_tokens = 0;  // of their prompts
    std::int64_t sequences = 0;       // that run
    bool operator==(const ClientUse&) const = default;
};
// The queue of those that wait: what may be in it, in which order it runs, and how much of the
// cluster one client may have while others wait. It counts what runs for that.
class AdmissionQueue {
  public:
    explicit AdmissionQueue(const CoordinatorConfig& config) : config_(config) {}

    static std::int64_t sequences_of(const RequestState& state);
    std::string queue_is_full(const Request& request) const;  // for this one; empty: it is not
    void enqueue(const RequestState& state);
    void dequeue(const RequestState& state);  // if it waits
    void add_running(const RequestState& state, std::int64_t sequences);
    // Its client runs so much that the rest is left to others.
    bool over_its_share(const RequestState& state) const;
    // Groups run so many sequences that the rest is left to requests of one.
    bool over_the_groups_share(const RequestState& state) const;

    // A new request has come: it gets its place, by what it asks for, and waits.
    void enter(RequestState& state, std::int64_t tokens_asked);
    // It was accepted, refused or ended before its first turn.
    void forget_unaccepted() { --unaccepted_; }
    // It leaves the queue and runs.
    void start(const RequestState& state);
    // It runs no longer.
    void stop(const RequestState& state);

    const std::map<QueueKey, RequestId>& waiting() const { return waiting_; }
    std::int64_t unaccepted() const { return unaccepted_; }  // of the waiting
    std::int64_t sequences_running() const { return sequences_running_; }
    const std::set<RequestId>& high_running() const { return high_running_; }
    // What is miscounted, in words; empty: nothing is.
    std::string check(const RequestTable& requests) const;

  private:
    void forget_unused(std::uint64_t client);

    const CoordinatorConfig& config_;
    std::map<QueueKey, RequestId> waiting_;
    FairShares shares_;
    std::map<std::uint64_t, ClientUse> clients_;  // that have anything here
    std::set<RequestId> high_running_;            // requests of high priority
    std::int64_t queued_tokens_ = 0;              // of the prompts of the waiting
    std::int64_t unaccepted_ = 0;                 // of the waiting
    std::int64_t sequences_running_ = 0;          // of requests that run, swapped ones too
    std::int64_t group_sequences_running_ = 0;    // of these, those of groups
    std::uint64_t next_order_ = 0;
};

}  // namespace helix::core

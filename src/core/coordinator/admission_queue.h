#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/coordinator/coordinator_config.h"
#include "core/coordinator/fair_shares.h"
#include "core/coordinator/request_table.h"

namespace helix::core {

// This is what one client has in the system.
struct ClientUse {
    std::int64_t waiting = 0;         // requests
    std::int64_t waiting_tokens = 0;  // the tokens of their prompts
    std::int64_t sequences = 0;       // its sequences that run
    bool operator==(const ClientUse&) const = default;
};
// AdmissionQueue holds the requests that wait. It decides which requests may wait, in which order
// they run, and how much of the cluster one client may have while others wait. For that it also
// counts what runs.
class AdmissionQueue {
  public:
    explicit AdmissionQueue(const CoordinatorConfig& config) : config_(config) {}

    static std::int64_t sequences_of(const RequestState& state);
    // Returns why this request may not wait, in words, or nothing if it may.
    std::string queue_is_full(const Request& request) const;
    void enqueue(const RequestState& state);
    void dequeue(const RequestState& state);  // does nothing if it does not wait
    void add_running(const RequestState& state, std::int64_t sequences);
    // Says whether the request's client runs so much already that the rest is left to others.
    bool over_its_share(const RequestState& state) const;
    // Says whether groups run so many sequences already that the rest is left to requests of one.
    bool over_the_groups_share(const RequestState& state) const;

    // A new request has come. It gets its place in the queue by the tokens that it asks for, and
    // waits.
    void enter(RequestState& state, std::int64_t tokens_asked);
    // The request was accepted, refused or ended before its first turn.
    void forget_unaccepted() { --unaccepted_; }
    // The request leaves the queue and runs.
    void start(const RequestState& state);
    // The request does not run any longer.
    void stop(const RequestState& state);

    const std::map<QueueKey, RequestId>& waiting() const { return waiting_; }
    // Returns how many of the waiting requests have not had their first turn.
    std::int64_t unaccepted() const { return unaccepted_; }
    std::int64_t sequences_running() const { return sequences_running_; }
    const std::set<RequestId>& high_running() const { return high_running_; }
    // Returns what is miscounted, in words, or nothing if all counts are right.
    std::string check(const RequestTable& requests) const;

  private:
    void forget_unused(std::uint64_t client);

    const CoordinatorConfig& config_;
    std::map<QueueKey, RequestId> waiting_;
    FairShares shares_;
    std::map<std::uint64_t, ClientUse> clients_;  // only clients that have something here
    std::set<RequestId> high_running_;            // running requests of high priority
    std::int64_t queued_tokens_ = 0;              // tokens of the prompts that wait
    std::int64_t unaccepted_ = 0;                 // waiting requests without a first turn
    std::int64_t sequences_running_ = 0;          // swapped ones count, too
    std::int64_t group_sequences_running_ = 0;    // those of them that belong to groups
    std::uint64_t next_order_ = 0;
};

}  // namespace helix::core

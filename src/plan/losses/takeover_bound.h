#pragma once

#include <cstdint>
#include <string>

// How long an answer at a gateway may stand still when the coordinator dies. Nothing of it is lost,
// and nothing is computed anew: workers keep what they run for the next coordinator.
//
//   bound = max(detection, lead) + start + search + settle
//
//   detection  until workers and gateways know of the death
//   lead       until the next coordinator begins: its service starts it again, or, with a lease,
//              that has run out and the one that stands by has heard of it
//   start      until it listens
//   search     until workers and gateways have found it. They look at one address after the other,
//              with a pause before each; at worst all others swallow everything.
//   settle     until its workers have said what they hold, and its placement is in force
//
// It holds while the machines are not so busy that processes wait for their turn. A worker on the
// coordinator's machine is lost with it: its own bound comes on top (plan/losses/stall_bound.h).

namespace helix::plan {

struct TakeoverRule {
    double detection_s = 2;      // net::TransportOptions: heartbeats, by default
    double restart_s = 1;        // RestartSec of the package's service
    double lease_s = 0;          // helix serve --leader-lease; 0 = without a leader
    double lease_grain_s = 1;    // etcd looks for leases that are over twice a second
    double start_s = 0.5;        // its model's digests are known, or its model is open
    std::int32_t addresses = 1;  // --join of workers and gateways; with a leader at least 2
    double look_s = 2;           // node::CoordinatorFinder, at an address that does not answer
    double pause_s = 0.5;        // between two looks, at most
    double settle_s = 0.3;       // core::CoordinatorConfig::settle
};

double takeover_bound_s(const TakeoverRule& rule);
double search_s(const TakeoverRule& rule);

// "an answer at a gateway stands still for at most 3.3 s when the coordinator dies: ...", one line
// without its end.
std::string describe_takeover(const TakeoverRule& rule);

}  // namespace helix::plan

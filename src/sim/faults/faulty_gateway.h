#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/gateway/gateway_requests.h"
#include "core/gateway/gateway_roster.h"
#include "core/protocol/term.h"
#include "sim/faults/faulty_cluster.h"

// The gateways of a FaultyCluster and the clients at them; only faulty_cluster*.cc include this.

namespace helix::sim {

// A connection between a gateway and a coordinator. No two have one number.
struct GatewaySession {
    std::int32_t gateway = 0;
    std::uint64_t number = 0;  // 0: none
    std::uint64_t term = 0;    // of the coordinator
    std::string name() const;
};

struct FaultyCluster::Gateway {
    std::int32_t index = 0;
    std::uint64_t life = 0;                         // rises with each start
    std::optional<core::GatewayRequests> requests;  // none: it is down
    core::FollowedTerm term;
    std::uint64_t led_by = 0;  // which a test knows for itself
    GatewaySession session;    // as it believes
    bool welcome = false;      // in that session
    int kills = 0;             // faults that keep it down,
    int cuts = 0;              // and from the coordinator
    int pauses = 0;            // above 0 it stands still,
    core::TimePoint paused_since;
    std::vector<std::function<void()>> inbox;          // and does later what comes meanwhile
    std::map<core::RequestId, core::RequestId> asked;  // its requests, and the client of each
};

// A client and its request. Its connection breaks when its gateway dies. It has an idempotency key,
// so it asks again, at any gateway, and gets the same answer from its beginning.
struct FaultyCluster::Client {
    core::Request request;
    std::uint64_t asks = 0;                      // so often it has asked
    std::optional<std::int32_t> gateway;         // at which it is; none: its connection broke
    core::RequestId id;                          // of the request there; 0: not there yet
    std::map<std::int32_t, std::int32_t> heard;  // tokens of each choice that came this time
    std::int32_t scored = 0;                     // likewise of the prompt
    std::int32_t losses = 0;  // of workers that ran it, at the end of a request that kills them
};

// What is watched of the coordinator's side beside the roster, which is core's.
struct FaultyCluster::GatewayLedger {
    core::GatewayRoster roster;
    std::map<std::string, GatewaySession> sessions;
    std::map<std::string, core::RequestId> newest;  // the last request that came as a new one
};

}  // namespace helix::sim

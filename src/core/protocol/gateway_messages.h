#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/protocol/coordinator_actions.h"
#include "core/protocol/coordinator_events.h"
#include "core/protocol/request.h"

// What a gateway and the coordinator say to each other of requests.

namespace helix::core {

// Numbers for requests: a gateway asks for more while it still has some (first 0), and is given the
// numbers [first, first + count), which no other request ever has. Some come when it joins, too.
struct RequestNumbers {
    RequestId first;
    std::uint32_t count = 0;
    bool operator==(const RequestNumbers&) const = default;
};

// What a gateway says. What the coordinator says of the requests comes in RequestEvents. When the
// gateway is gone, its requests end. A MoveRequest names no pipeline: the best other one is meant.
using GatewayMessage = std::variant<RequestNumbers, Submitted, Ended, MoveRequest>;

// What became of a gateway's requests, in the order in which it did.
using RequestEvent =
    std::variant<AcceptRequest, RejectRequest, RequestRouted, StreamToken, ScoreTokens, EmbedPrompt,
                 FinishChoice, FinishRequest, StageTimed>;
struct RequestEvents {
    TimePoint said;  // by the coordinator's clock, which StageTimed is told by
    std::vector<RequestEvent> events;
};

}  // namespace helix::core

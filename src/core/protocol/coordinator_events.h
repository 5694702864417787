#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/protocol/messages.h"
#include "core/protocol/request.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

// What the world tells the coordinator.

namespace helix::core {

// What the client of a request has got already, from a coordinator that is not there any more.
// Whoever holds the request for the client says so to the next coordinator.
struct Begun {
    struct Choice {
        std::vector<Token> output;
        bool ended = false;
    };
    // By number: a request of one sequence has one. Beams are streamed when they have ended, so
    // they begin anew, and whoever holds such a request passes on only what the client lacks.
    std::vector<Choice> choices;
    std::int32_t scored = 0;  // tokens of the prompt whose log-probabilities the client has
    // The attempts of earlier coordinators have no higher numbers than this, those to come have.
    std::uint32_t attempts_before = 0;
};
// With begun the request was accepted before, and goes on with its next token.
struct Submitted {
    Request request;
    std::optional<Begun> begun = {};
};
// The client went away, or a stop string was found in the text: the request ends. With choice only
// that choice ends.
struct Ended {
    RequestId id;
    FinishReason reason = FinishReason::cancelled;
    std::optional<std::int32_t> choice = {};
};
// A worker is connected, authenticated and profiled. The same worker may come again with a higher
// incarnation (it was restarted); the older one is then gone.
struct WorkerJoined {
    WorkerId worker;
    std::uint64_t incarnation = 0;
    spec::NodeSpec node;                // what the planner may use of the machine
    std::vector<spec::LinkSpec> links;  // measured; node indices are worker ids, kCoordinator is us
    std::string endpoint;
    std::string public_key;
    // What it has kept of the time before this coordinator.
    std::optional<Holding> holding = {};
};
struct WorkerLost {
    WorkerId worker;
    std::string reason;
    bool left = false;  // it left in good order, and said so
};
struct FromWorker {
    WorkerId worker;
    CoordinatorMessage message;
};
// Answer to PlanCluster. Node indices are those of the cluster that PlanCluster carried.
struct Planned {
    std::uint64_t plan = 0;
    spec::Placement placement;
    std::vector<spec::LinkFlow> flows;
    // KV pages that each worker is expected to have beside its layers; empty: not known.
    std::vector<std::int64_t> kv_pages = {};
    bool chosen = false;  // by the operator: it is taken, whatever it gains
};
struct NotPlanned {
    std::uint64_t plan = 0;
    std::string reason;
};
// The operator wants a plan now; PlanCluster asks for one when it is due.
struct PlanAnew {};
struct CoordinatorTick {};  // several times a second
// Answer to ProposeDrafts; may come late, and may have no tokens.
struct Drafted {
    RequestId id;
    std::int32_t position =
        0;  // of the draft's first token: the length of the text that was asked about
    std::vector<Token> tokens;
};

// Move the request to another pipeline while it runs: to this one, or if it is empty to the best
// other. Answered by MigrationEnded, at once if it cannot be moved.
struct MoveRequest {
    RequestId id;
    Pipeline to = {};
};
// Drains a worker. Nothing new goes there, what runs there moves away, and the placement is planned
// anew without it. Where that is impossible everything stays as it was (WorkerView::drain_refused).
// While a request runs that nothing else could hold, all this waits (WorkerView::drain_waits). With
// remove the worker is dismissed once it is empty. A drain holds by the worker's name until it is
// called off: a worker that was lost or started again meanwhile goes on being emptied when it
// joins, even if it joins the next coordinator (CoordinatorConfig::remembered_drains). With remove
// it also ends when the worker has left. With off the worker is used again, or will be when it
// comes back.
struct DrainWorker {
    WorkerId worker;
    bool remove = false;
    bool off = false;
    std::string name =
        {};  // if not empty it names the worker in place of the number: the worker may not be here
};

// Links of this worker, measured after it joined; node indices as in WorkerJoined.
struct LinksMeasured {
    WorkerId worker;
    std::vector<spec::LinkSpec> links;
};

// Answer to AddWorker if it failed. If it did not, the worker joins.
struct WorkerNotAdded {
    std::string reason;
};

using CoordinatorEvent = std::variant<Submitted, Ended, WorkerJoined, WorkerLost, FromWorker,
                                      Planned, NotPlanned, CoordinatorTick, Drafted, MoveRequest,
                                      DrainWorker, WorkerNotAdded, LinksMeasured, PlanAnew>;

}  // namespace helix::core

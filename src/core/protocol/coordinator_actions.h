#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/protocol/messages.h"
#include "core/protocol/types.h"
#include "spec/cluster_spec.h"
#include "spec/placement.h"

// What the coordinator asks the world to do.

namespace helix::core {

struct SendToWorker {
    WorkerId worker;
    WorkerMessage message;
};
// The request will run: from now on it ends with FinishRequest and nothing else. Comes at once
// while a placement is in force, else as soon as one is.
struct AcceptRequest {
    RequestId id;
};
// Show the client this token; positions of a choice come in order, each once.
struct StreamToken {
    RequestId id;
    std::int32_t index = 0;  // 0-based among the choice's output tokens
    ProducedToken token;
    std::int32_t choice = 0;  // below Request::n
};
// The log-probabilities of the prompt's next tokens. The first token has none, so they begin with
// position 1. Each position comes once, in order, before the request's first StreamToken.
struct ScoreTokens {
    RequestId id;
    std::vector<ProducedToken> tokens;
};
// The embedding of the prompt of a request that wants one. Comes once; FinishRequest follows.
struct EmbedPrompt {
    RequestId id;
    std::vector<float> values;
};
// What made a request fail, for programs; FinishRequest::error is for people alone.
enum class FailureCause : std::uint8_t {
    none,           // it did not fail: it is whole, or was cancelled
    worker_failed,  // a worker cannot compute it (SequenceStuck)
    unscored,       // workers answered without the log-probabilities of its prompt
    stalled,        // no token came for too long, although it was tried again
    shrunk,         // what is left of the cluster cannot hold it, and nobody came for too long
    unserved,       // no placement could serve for too long
    kills_workers,  // workers died of it
};
inline constexpr FailureCause kLastFailureCause = FailureCause::kills_workers;
// A request that was accepted has ended, with all its choices. After a StreamToken whose token is a
// stop token, reason is stop. With several choices it is the reason of the one that ended last.
struct FinishRequest {
    RequestId id;
    FinishReason reason = FinishReason::stop;
    FailureCause cause = FailureCause::none;
    // What happened, in words for the client; empty if the request is whole or was cancelled.
    std::string error = {};
};
// When this many workers have died in a row while they ran a request, without a new token of it in
// between, it ends with FinishReason::kills_workers. Before the last of these deaths it runs alone,
// so that no other request can be to blame. If other workers die soon after, while it runs nowhere,
// it is run again.
inline constexpr std::int32_t kMostDeaths = 3;
inline constexpr std::int32_t kDeathsBeforeAlone = kMostDeaths - 1;
// The request is refused before anything was promised.
enum class RejectReason { too_long, queue_full, never_fits, unavailable };
inline constexpr RejectReason kLastRejectReason = RejectReason::unavailable;
struct RejectRequest {
    RequestId id;
    RejectReason reason = RejectReason::queue_full;
    std::string message;
    std::int32_t retry_after_s = 0;
};
// Why a request runs on a pipeline: for the first time, or again after it had to leave another one.
enum class RouteReason : std::uint8_t {
    first,
    moved,            // a live migration brought it here
    worker_lost,      // a worker of its pipeline was lost
    link_broke,       // a link of its pipeline broke
    no_token,         // it had no token, or not all of it, for too long
    preempted,        // others needed its pages
    worker_emptied,   // a worker of its pipeline is drained, or is about to load other layers
    cache_forgotten,  // what a worker was believed to have cached was not there
    adopted,          // it ran there under the coordinator before this one, and goes on
};
inline constexpr RouteReason kLastRouteReason = RouteReason::adopted;
// The request runs on this pipeline now.
struct RequestRouted {
    RequestId id;
    Pipeline pipeline;
    std::uint32_t attempt = 0;
    std::int32_t cached_tokens = 0;  // tokens that need not be computed (prefix cache)
    RouteReason reason = RouteReason::first;
};
// What a stage did for an attempt of a request that is timed (StageTimes), on the coordinator's
// clock: each time is late by as long as the worker's message was under way. It mostly comes after
// the request's FinishRequest, and never from a worker that was lost.
struct StageTimed {
    RequestId id;
    std::uint32_t attempt = 0;
    WorkerId worker;
    std::int64_t batches = 0;  // that had rows of it
    std::int64_t rows = 0;     // of it
    Duration busy;             // which those batches took, rows of others in them included
    TimePoint first;           // the first of these batches began
    TimePoint last;            // the last of them ended
};
// Find a placement for these workers (cluster.nodes[i] is workers[i]); answer Planned or
// NotPlanned.
struct PlanCluster {
    std::uint64_t plan = 0;
    spec::ClusterSpec cluster;
    std::vector<WorkerId> workers;
    spec::Placement current;  // what they hold now; what stays need not be loaded
};
// What a report is about, for programs; the text is for people alone.
enum class ReportCause : std::uint8_t {
    other,                          // nothing that a program asks for
    placement_in_force,             // a placement serves from now on
    placement_taken_up_again,       // the remembered one of before the coordinator's restart
    roles_not_kept,                 // one group has no complete pipeline: every worker does all
    drain_refused,                  // no placement was found without the worker
    drained_as_before_the_restart,  // a worker joined that an earlier coordinator drained
    drained_as_before_it_was_lost,  // a worker came back that was being drained
};
// A line for people: "worker 3 joined", "placement 2 in force", ...
struct Report {
    std::string text;
    bool warning = false;
    ReportCause cause = ReportCause::other;
};

// Draft with the draft model how the request's text goes on, and answer Drafted. tokens is the text
// from position first on; what comes before was told with earlier questions about this request.
// With count 0 nothing is asked yet, and there is no answer.
struct ProposeDrafts {
    RequestId id;
    std::int32_t first = 0;
    std::vector<Token> tokens;
    std::int32_t count = 0;  // the most tokens to draft
};
// There will be no more questions about this request.
struct ForgetDrafts {
    RequestId id;
};
// One choice of a request that is_group() has ended, by stop or length or as Ended said. Comes once
// for each choice before FinishRequest, unless that tells of an error or that the client left.
struct FinishChoice {
    RequestId id;
    std::int32_t choice = 0;
    FinishReason reason = FinishReason::stop;
};

// How far a migration has come.
enum class MigrationPhase : std::uint8_t { reserving, copying, last_round, committed };
inline constexpr std::size_t kMigrationPhases = 4;
// What a migration was begun for.
enum class MigrationReason : std::uint8_t {
    asked,       // MoveRequest
    balance,     // even use of KV memory
    room,        // for a request that waits
    drain,       // DrainWorker
    transition,  // a worker is about to load other layers
    handover,    // its prompt was computed by workers that prefill, and it decodes on others
};
inline constexpr std::size_t kMigrationReasons = 6;
// Why a migration is over, for programs; MigrationEnded::reason is for people alone.
enum class MigrationCause : std::uint8_t {
    committed,            // it went well
    not_begun,            // MoveRequest asked for what is impossible now
    refused,              // a worker refused its part (KvRefused)
    unanswered,           // a worker did not answer in time
    held_too_long,        // the last round did not arrive in time
    worker_lost,          // a worker of the new pipeline was lost
    link_broke,           // a link that it needs broke
    pages_needed,         // other requests need the pages at a worker of the new pipeline
    destination_emptied,  // a worker of the new pipeline is being emptied
    choice_ended,         // a choice of the request ended while it was held
    preempted,            // the request was swapped out
    left_pipeline,        // the request ended, or goes back to the queue
    source_recovered,     // the worker that it was to leave has room again (PairingRule::llumnix)
};
// A migration is over: it was committed, or given up in this phase. Given up, the request runs on
// where it was, unless reason says otherwise.
struct MigrationEnded {
    RequestId id;
    MigrationPhase phase = MigrationPhase::committed;
    MigrationCause cause = MigrationCause::committed;
    std::string reason = {};  // why it was given up, in words; empty: it was committed
    std::int32_t rounds = 0;  // rounds of copying, the last one included
    std::int64_t tokens = 0;  // positions whose KV was copied
    std::int64_t pages = 0;   // pages that went from worker to worker
    Duration took = {};       // since the migration began
    Duration held = {};       // part of that time in which no row was under way
    MigrationReason begun_for = MigrationReason::asked;
};
// The drained worker holds nothing and is in no placement any more. With remove it is to be
// dismissed.
struct WorkerDrained {
    WorkerId worker;
    bool remove = false;
};
// Auto-scaling: there is too little room, so one more worker is to be started. A worker that is not
// needed any more is drained and removed.
struct AddWorker {};
// The worker contradicted itself (core/coordinator/entrance.cc), so its session is to be ended. It
// already counts as lost; nothing that it may still say is heard.
struct CutOffWorker {
    WorkerId worker;
    std::string reason;  // "drew a token that nobody asked for"
};

using CoordinatorAction =
    std::variant<SendToWorker, AcceptRequest, StreamToken, FinishRequest, RejectRequest,
                 RequestRouted, PlanCluster, Report, ProposeDrafts, ForgetDrafts, FinishChoice,
                 MigrationEnded, WorkerDrained, ScoreTokens, EmbedPrompt, AddWorker, CutOffWorker,
                 StageTimed>;

}  // namespace helix::core

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/auto_scale.h"
#include "core/beam_search.h"
#include "core/messages.h"
#include "core/migration_pairing.h"
#include "core/remembered_placement.h"
#include "core/router_catalogue.h"
#include "core/slowdown.h"
#include "spec/cluster_spec.h"
#include "spec/model_spec.h"
#include "spec/placement.h"

namespace helix::core {

// ---- events
// ---------------------------------------------------------------------------------------

struct Request {
    RequestId id;  // never used before
    std::vector<Token> prompt;
    spec::SamplingParams sampling;
    std::int32_t max_tokens = 0;     // of output; 0 = as many as the context allows
    std::int32_t min_tokens = 0;     // stop tokens do not end it before
    std::vector<Token> stop_tokens;  // end of text and the caller's
    std::int32_t priority = 0;       // higher goes first
    std::uint64_t client = 0;        // whose it is: any number for each client; 0: not known
    std::int32_t guesses = -1;       // tokens to guess ahead at most; -1: as SpeculationConfig says
    std::vector<Token> prediction;  // what the output may be like: guesses are looked up there, too
    // So many answers: drawn apart (FEATURES V15; the draws of one choice depend on its number), or
    // with beam the best of the search, which has a width of at least n.
    std::int32_t n = 1;
    std::optional<BeamSearch> beam = {};
    // The log-probabilities of the prompt's tokens are asked for; needs sampling.n_logprobs.
    bool score_prompt = false;
    // What it takes more than one sequence to answer (FEATURES V14).
    bool is_group() const { return n > 1 || beam.has_value(); }
};
struct Submitted {
    Request request;
};
// The client went away, or a stop string was found in the text: give everything back. With choice:
// only that one is over.
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
    spec::NodeSpec node;                // what the planner may use of it
    std::vector<spec::LinkSpec> links;  // measured; node indices are worker ids, kCoordinator is us
    std::string endpoint;
    std::string public_key;
};
struct WorkerLost {
    WorkerId worker;
    std::string reason;
    bool left = false;  // it was ended, and said so
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
    // That each worker is expected to have beside its layers; empty: not known.
    std::vector<std::int64_t> kv_pages = {};
};
struct NotPlanned {
    std::uint64_t plan = 0;
    std::string reason;
};
struct CoordinatorTick {};  // several times a second
// Answer to ProposeDrafts; may come late, and may have no tokens.
struct Drafted {
    RequestId id;
    std::int32_t position = 0;  // of the first guess: the length of the text that was asked about
    std::vector<Token> tokens;
};

// Move the request to another pipeline while it runs: to this one, or (empty) to the best other.
// Answered by MigrationEnded, at once if it cannot be.
struct MoveRequest {
    RequestId id;
    Pipeline to = {};
};
// Nothing new goes to this worker and what runs there moves away; the placement is planned anew
// without it (where that cannot be, it stays as it was: WorkerView::drain_refused). While a request
// runs that nothing else could hold, all that waits (WorkerView::drain_waits). With remove it
// is dismissed then. It holds by the worker's name until it is called off: a worker that was lost
// or started again meanwhile is emptied on when it joins, also the next coordinator
// (CoordinatorConfig::remembered_drains). With remove it is over, too, when the worker has left.
// With off the worker is used again, or will be when it comes back.
struct DrainWorker {
    WorkerId worker;
    bool remove = false;
    bool off = false;
    std::string name = {};  // if not empty it counts, and not the number: it may not be here
};

// Links of this worker, measured after it joined; node indices as in WorkerJoined.
struct LinksMeasured {
    WorkerId worker;
    std::vector<spec::LinkSpec> links;
};

// Answer to AddWorker where it failed; where it did not, the worker joins.
struct WorkerNotAdded {
    std::string reason;
};

using CoordinatorEvent =
    std::variant<Submitted, Ended, WorkerJoined, WorkerLost, FromWorker, Planned, NotPlanned,
                 CoordinatorTick, Drafted, MoveRequest, DrainWorker, WorkerNotAdded, LinksMeasured>;

// ---- actions
// --------------------------------------------------------------------------------------

struct SendToWorker {
    WorkerId worker;
    WorkerMessage message;
};
// It will run: from now on it ends with FinishRequest and nothing else. Comes at once while a
// placement is in force, else as soon as one is.
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
// The log-probabilities of the prompt's next tokens (its first has none, so they begin with
// position 1); each position once, in order, all before the request's first StreamToken.
struct ScoreTokens {
    RequestId id;
    std::vector<ProducedToken> tokens;
};
// Accepted and then ended, with all its choices. After a StreamToken whose token is a stop token,
// reason is stop. Of several choices it is the reason of the one that ended last.
struct FinishRequest {
    RequestId id;
    FinishReason reason = FinishReason::stop;
    // What happened, in words for the client; empty if the request is whole or was cancelled.
    std::string error;
};
// So many workers may die in a row while they run a request, without a new token of it in between:
// it ends with FinishReason::kills_workers. Before the last of them it is run alone, so that it is
// no other request's doing; and if others die soon after, while it runs nowhere, it is run again.
inline constexpr std::int32_t kMostDeaths = 3;
inline constexpr std::int32_t kDeathsBeforeAlone = kMostDeaths - 1;
// Refused before anything was promised.
enum class RejectReason { too_long, queue_full, never_fits, unavailable };
struct RejectRequest {
    RequestId id;
    RejectReason reason = RejectReason::queue_full;
    std::string message;
    std::int32_t retry_after_s = 0;
};
// The request runs on this pipeline now.
struct RequestRouted {
    RequestId id;
    Pipeline pipeline;
    std::uint32_t attempt = 0;
    std::int32_t cached_tokens = 0;  // need not be computed (prefix cache)
};
// Find a placement for these workers (cluster.nodes[i] is workers[i]); answer Planned or
// NotPlanned.
struct PlanCluster {
    std::uint64_t plan = 0;
    spec::ClusterSpec cluster;
    std::vector<WorkerId> workers;
    spec::Placement current;  // what they hold now; what stays need not be loaded
};
// For people: "worker 3 joined", "placement 2 in force", ...
struct Report {
    std::string text;
    bool warning = false;
};

// Guess with the draft model how the request's text goes on; answer Drafted. The text from position
// first on; what comes before was told with earlier questions about this request. count 0: it will
// be asked later how this goes on; no answer.
struct ProposeDrafts {
    RequestId id;
    std::int32_t first = 0;
    std::vector<Token> tokens;
    std::int32_t count = 0;  // of guesses, at most
};
// There will be no more questions about this request.
struct ForgetDrafts {
    RequestId id;
};
// One choice of a request that is_group() has ended: stop or length, or as Ended said. Comes once
// for each before FinishRequest, unless that tells of an error or of the client's going.
struct FinishChoice {
    RequestId id;
    std::int32_t choice = 0;
    FinishReason reason = FinishReason::stop;
};

// How far a migration came.
enum class MigrationPhase : std::uint8_t { reserving, copying, last_round, committed };
inline constexpr std::size_t kMigrationPhases = 4;
// What it was begun for.
enum class MigrationReason : std::uint8_t {
    asked,       // MoveRequest
    balance,     // even use of KV memory
    room,        // for a request that waits
    drain,       // DrainWorker
    transition,  // a worker is about to load other layers
    handover,    // its prompt was computed where prompts are, it decodes elsewhere
};
inline constexpr std::size_t kMigrationReasons = 6;
// A migration is over: committed, or given up in this phase; the request runs on, where it was
// unless reason says otherwise.
struct MigrationEnded {
    RequestId id;
    MigrationPhase phase = MigrationPhase::committed;
    std::string reason = {};  // why it was given up
    std::int32_t rounds = 0;  // of copying, with the last
    std::int64_t tokens = 0;  // positions whose KV was copied
    std::int64_t pages = 0;   // that went from worker to worker
    Duration took = {};       // from its beginning
    Duration held = {};       // of that, without a row under way
    MigrationReason begun_for = MigrationReason::asked;
};
// The drained worker holds nothing and is in no placement any more: with remove, dismiss it.
struct WorkerDrained {
    WorkerId worker;
    bool remove = false;
};
// There is too little room: start one more worker (auto-scaling, FEATURES L15). One that is not
// needed any more is drained and removed.
struct AddWorker {};
// The worker contradicted itself (core/coordinator_entrance.cc): end its session. It counts as lost
// already; nothing it may still say is heard.
struct CutOffWorker {
    WorkerId worker;
    std::string reason;  // "drew a token that nobody asked for"
};

using CoordinatorAction =
    std::variant<SendToWorker, AcceptRequest, StreamToken, FinishRequest, RejectRequest,
                 RequestRouted, PlanCluster, Report, ProposeDrafts, ForgetDrafts, FinishChoice,
                 MigrationEnded, WorkerDrained, ScoreTokens, AddWorker, CutOffWorker>;

// How a request gives its KV pages back when others need them (FEATURES V9).
enum class Preemption : std::uint8_t {
    automatic,  // swap when it has several sequences, else recompute
    recompute,  // freed; when its turn comes again, prompt and output are computed anew
    swap,       // to host memory, while every stage has room there; else recompute
};

// Tokens are guessed ahead and computed along with the last one (core/coordinator_guess.cc).
struct SpeculationConfig {
    // By what followed the same last tokens earlier in the text, so many at once; 0 = only for
    // requests that ask for it, or (then so many) bring a prediction. It looks for the last
    // ngram_max tokens, then for fewer.
    std::int32_t ngram_tokens = 0;
    std::int32_t predicted_tokens = 16;
    std::int32_t ngram_min = 2;
    std::int32_t ngram_max = 4;
    // By the draft model, where the text says nothing; 0 = there is none.
    std::int32_t draft_tokens = 0;
    Duration draft_timeout = base::from_ms(250);  // then it goes on without
    std::int32_t guess_rows = 32;                 // of all requests that share a last stage
};

// Requests move to other pipelines while they run (core/coordinator_migration.cc).
struct MigrationConfig {
    bool enabled = true;
    // Copying goes on in rounds while the request decodes; when at most so many blocks are left, or
    // after so many rounds, it is held at its next token and the rest is copied (FEATURES L2).
    std::int32_t last_round_blocks = 2;
    std::int32_t max_rounds = 8;
    // Without an answer it is given up; while held, much sooner. A round may take longer where its
    // bytes do: so many times what they need, and what goes before them from the same worker, at
    // the rate of their link.
    Duration timeout = base::from_seconds(20);
    Duration hold_timeout = base::from_seconds(1);
    double time_factor = 4;
    std::int32_t per_worker = 2;            // at once, into or out of one worker,
    std::int32_t handovers_per_worker = 8;  // and besides them so many hand-overs
};

// Running requests move so that KV memory is used evenly, and so that what waits finds room
// (core/coordinator_balance.cc). Needs MigrationConfig::enabled.
struct BalanceConfig {
    bool enabled = true;
    Duration interval = base::from_ms(500);
    PairingConfig pairing;        // when workers give and take
    std::int32_t room_moves = 4;  // for one request that waits, at most; 0: none
    // A request whose move failed is tried again after a pause, twice as long each time; so is a
    // worker where so many failed in a row. Both begin anew when workers or placement change.
    Duration retry_first = base::from_seconds(1);
    Duration retry_longest = base::from_seconds(30);
    std::int32_t worker_failures = 3;
    // Where requests of high priority run, this part of the worker's KV memory is kept free of
    // others (FEATURES L10).
    double headroom = 0.1;
};

struct CoordinatorConfig {
    std::int32_t n_layers = 0;
    std::int32_t context_length = 0;
    std::int32_t vocab_size = 0;  // 0: not known, and tokens are not held against it
    std::int32_t block_size = 16;
    std::int32_t max_waiting = 1024;                          // more are refused with queue_full
    std::int64_t max_waiting_tokens = std::int64_t{1} << 22;  // of their prompts; more are, too
    std::int32_t max_running = 4096;                          // sequences in the cluster
    double kv_high_water = 0.9;                               // FEATURES H15, H16
    double expected_output_tokens = 240;
    RouterFactory router = max_flow_router().make;  // which way each request takes
    std::uint64_t router_seed = 0;
    // Under load so many prompts are in the pipelines that they take about this long to their first
    // token; the others wait in the queue (core/prompt_window.h).
    Duration prefill_target = base::from_seconds(2);
    // Decodes travel in so many groups at most, for all machines of a pipeline to have work; 0: as
    // many as machines stand in the shortest one. Groups are larger where small ones cost too much.
    std::int32_t pipeline_groups = 0;
    // Prompts whose beginning was computed lately go to where its KV is and begin after it
    // (core/coordinator_prefix.cc says when not). So many blocks are remembered.
    bool prefix_cache = false;
    std::int32_t prefix_cache_blocks = 1 << 17;
    SpeculationConfig speculation;
    MigrationConfig migration;
    BalanceConfig balance;
    std::optional<AutoScaleConfig> scale;  // none: workers come and go by other hands
    std::int32_t min_workers = 1;          // plan only once so many have joined
    // Requests on a worker that is drained, or about to load other layers, have so long to move
    // away or to finish; then they are computed anew elsewhere.
    Duration empty_timeout = base::from_seconds(10);
    SlowdownConfig slowdown;  // a slow worker is planned for as slow as it is
    // What the coordinator before us had in force (Coordinator::placement_in_force). When all that
    // hold layers in it have joined and still can hold them, it is put in force without planning.
    // From the first that joins it is waited for the others so long; then the placement is planned,
    // with what they held as PlanCluster::current.
    std::optional<RememberedPlacement> remembered = {};  // check_remembered() finds no fault
    Duration rejoin_wait = base::from_seconds(5);
    // What the coordinator before us was emptying (Coordinator::drains): these workers are drained
    // from the time they join. Those that hold layers in the remembered placement serve in it until
    // others have taken these over, as in any drain. Each worker once.
    std::vector<RememberedDrain> remembered_drains = {};
    Duration settle = base::from_ms(300);  // after a join or a loss, wait for more before planning
    double switch_gain =
        1.05;  // a new placement must promise so much more flow to replace a whole one
    Preemption preemption = Preemption::automatic;
    Duration preemption_pause = base::from_ms(100);  // per worker: lets freed pages arrive
    // Assignments without an answer, and swapping in without progress, are asked for again.
    Duration assign_repeat = base::from_seconds(5);
    Duration unserved_timeout = base::from_seconds(60);  // waiting while no placement is in force
    // No token for so long, and no rows at its stages: they were lost, and it is tried again.
    Duration lost_rows_timeout = base::from_seconds(15);
    // No token for so long: tried again, and again, then it ends with an error.
    Duration stall_timeout = base::from_seconds(300);
};

// What /metrics, the dashboard and the tests see; a copy, cheap enough for once a second.
struct WorkerView {
    WorkerId worker;
    spec::NodeSpec node;
    std::uint64_t incarnation = 0;
    LayerRange layers;   // assigned
    bool ready = false;  // layers loaded
    std::int64_t total_pages = 0;
    std::int64_t used_pages = 0;  // as last reported
    double estimated_pages = 0;   // the coordinator's estimate
    std::int64_t running = 0;     // requests whose pipeline uses it
    std::int64_t batches = 0;
    std::int64_t rows = 0;
    std::int64_t busy_ns = 0;
    double slowdown = 1;  // computes so many times slower than usual
    bool draining = false;
    bool remove = false;             // and will be dismissed
    bool drained = false;            // holds nothing, is in no placement
    std::string drain_refused = {};  // why it was not drained when it was asked for last
    std::string drain_waits = {};    // what its drain waits for
};
// Migrations that ended, by what they were begun for and how far they came.
struct MigrationCounts {
    std::array<std::array<std::int64_t, kMigrationPhases>, kMigrationReasons> counts = {};
    std::int64_t& of(MigrationReason reason, MigrationPhase phase) {
        return counts[static_cast<std::size_t>(reason)][static_cast<std::size_t>(phase)];
    }
    std::int64_t of(MigrationReason reason, MigrationPhase phase) const {
        return counts[static_cast<std::size_t>(reason)][static_cast<std::size_t>(phase)];
    }
    std::int64_t of(MigrationPhase phase) const {  // for whatever reason
        std::int64_t sum = 0;
        for (const auto& phases : counts) sum += phases[static_cast<std::size_t>(phase)];
        return sum;
    }
    std::int64_t committed() const { return of(MigrationPhase::committed); }
};
struct ClusterView {
    std::vector<WorkerView> workers;
    std::vector<spec::LinkFlow> flows;  // node indices are worker ids
    std::uint64_t epoch = 0;            // of the placement in force, 0 = none
    bool serving = false;
    std::int64_t waiting = 0;
    std::int64_t running = 0;
    std::int64_t swapped = 0;  // with their KV in host memory
    std::int64_t preemptions = 0;
    std::int64_t failovers = 0;  // requests that lost a worker and went on elsewhere
    // Workers that do not reach each other, although the coordinator reaches both.
    std::vector<std::pair<WorkerId, WorkerId>> links_down = {};
    std::vector<RememberedDrain> drained_away;  // of workers that are not here
    // Do workers keep to their roles (core/coordinator_roles.cc)? None: none has one.
    std::optional<bool> roles_kept;
    std::int64_t migrating = 0;
    MigrationCounts migrations;  // that ended
    std::int64_t finished = 0;
    std::int64_t failed = 0;
    std::int64_t rejected = 0;
    // Of prompts, and of what is computed again after a preemption: tokens with their KV computed,
    // and those of them that were found in the prefix cache.
    std::int64_t prefix_queried_tokens = 0;
    std::int64_t prefix_hit_tokens = 0;
    // Speculation: rows that were sent with guesses, the guesses, and those that came true.
    std::int64_t drafts = 0;
    std::int64_t draft_tokens = 0;
    std::int64_t accepted_draft_tokens = 0;
};

// The cluster's policy: admission, routing, placement changes, what is streamed. Deterministic; no
// I/O.
//
// Promises: an accepted request gets its tokens in order, each once, and exactly one FinishRequest;
// a request that can never fit is rejected with the reason; one that does not fit now waits, by
// priority and then arrival; one that must give its pages back continues later with the same
// tokens; when a worker is lost its requests go on elsewhere, by recompute, with the next token;
// when no placement can serve them for unserved_timeout they end with an error that says so.
class Coordinator {
  public:
    explicit Coordinator(const CoordinatorConfig& config);
    ~Coordinator();
    Coordinator(Coordinator&&) noexcept;
    Coordinator& operator=(Coordinator&&) noexcept;

    void step(TimePoint now, const CoordinatorEvent& event,
              std::vector<CoordinatorAction>& actions);
    ClusterView view() const;
    // Of the placement in force, 0 = none yet: another number, another placement.
    std::uint64_t epoch() const;
    // The last that was put in force, for CoordinatorConfig::remembered of the coordinator after
    // this one; null before the first.
    const RememberedPlacement* placement_in_force() const;
    // By name: the workers that are drained, also those that are not here.
    std::vector<RememberedDrain> drains() const;

    struct Impl;
    const Impl& impl() const { return *impl_; }  // for Invariants

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::core

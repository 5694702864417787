#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/check.h"
#include "base/id_map.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/draft_ngram.h"
#include "core/coordinator/fair_shares.h"
#include "core/coordinator/guess_length.h"
#include "core/coordinator/link_health.h"
#include "core/coordinator/prefix_index.h"
#include "core/coordinator/prompt_window.h"
#include "core/coordinator/sequence_group.h"
#include "core/kv/kv_estimate.h"
#include "core/routing/request_router.h"

// The state behind core::Coordinator; only its own .cc files and Invariants include this.

namespace helix::core {

struct WorkerState {
    WorkerJoined joined;
    LayerRange layers;                 // assigned
    std::uint64_t assigned_epoch = 0;  // of the last AssignLayers sent; 0 = none yet
    bool ready = false;                // and answered
    bool gone = false;                 // being taken out: sent nothing any more
    bool failed = false;               // could not load: left out of plans until it joins anew
    bool draining = false;             // nothing new goes there (DrainWorker)
    bool remove = false;               // and it is dismissed when it holds nothing
    bool needed = false;               // it is not known yet whether the others can do without it
    bool replaced = false;             // a placement without it was found
    bool drained = false;              // WorkerDrained was said
    TimePoint drain_since;             // when it was told, or closed
    std::string drain_refused;         // why it was not drained when last asked
    std::string kv_format;             // of the layers it has loaded
    double kv_page_bytes = 0;          // as in LayersReady
    double kv_bytes_per_s = 0;
    std::int32_t moves_failed = 0;  // to it, in a row
    base::Backoff takes_again;      // requests that move
    KvEstimate kv;
    std::int64_t swap_total = 0;  // pages in host memory
    std::int64_t swap_used = 0;   // by swapped requests, at most
    LayersReady said;             // that counted last
    WorkerReport last_report;
    SlowdownWatch slowness;
    TimePoint reported_at;
};

// Of a worker that is not here (DrainWorker).
struct DrainToCome {
    bool remove = false;
    bool needed = false;          // as in WorkerState, when it was lost
    bool before_restart = false;  // the coordinator's
};

// What the prefix cache has to do with a request.
struct PrefixUse {
    std::vector<base::Hash128> blocks;  // of prompt and output, as far as they were asked for
    // Tokens that this attempt need not compute. Of a waiting request: on the path that was
    // found for it last.
    std::int32_t cached = 0;
    bool lost = false;  // it was not there: the next attempt computes everything
};

// The tokens guessed ahead for a request.
struct Guessing {
    Guessing(std::int32_t ngram_min, std::int32_t ngram_max) : lookup(ngram_min, ngram_max) {}
    NgramDrafter lookup;  // prediction, prompt, and output as far as it was asked
    std::size_t before_output = 0;
    GuessLength length;
    std::vector<Token> sent;  // along with the last token; empty: none, or their run is over
    std::size_t right = 0;    // of these, as far as tokens came back
    std::int32_t told = 0;    // tokens of prompt and output that the draft model knows
    bool asked = false;       // and is waited for; nothing is under way meanwhile
    bool late = false;        // it has not answered in time, and still has not
    TimePoint asked_at;
};

// A request on its way to another pipeline (core/coordinator/migration.cc).
struct Migration {
    // A worker of the old pipeline and one of the new, or the same one, with layers in common.
    struct Transfer {
        WorkerId from;
        WorkerId to;
        LayerRange layers;
        bool arrived = false;    // all of the round under way
        std::int64_t pages = 0;  // of that round
        bool is_local() const { return from == to; }
    };
    std::uint32_t attempt = 0;  // that it will be
    Pipeline pipeline;          // that it will run on
    Path path;                  // in the router's graph; empty: not in there any more
    MigrationReason begun_for = MigrationReason::asked;
    MigrationPhase phase = MigrationPhase::reserving;
    std::vector<WorkerId> unreserved;  // workers that have not said yet that they have room
    std::int64_t reserved_blocks = 0;  // asked for, per layer
    std::vector<Transfer> transfers;
    std::uint32_t round = 0;                            // under way or, between rounds, over
    std::map<std::uint32_t, std::int32_t> sent_blocks;  // full ones, by member; beams: one's prompt
    std::int64_t tokens = 0;                            // as in MigrationEnded
    std::int64_t pages = 0;
    TimePoint began;
    TimePoint heard;                      // the last answer
    Duration patience;                    // with the next, or while held
    TimePoint asked;                      // for the reservation, or said that it still holds
    std::optional<TimePoint> held_since;  // in last_round, when all its rows have come back
};

struct RequestState {
    Request request;
    std::uint64_t order = 0;  // of arrival
    std::uint64_t place = 0;  // in the queue, by what its client has asked for (FairShares)
    std::uint32_t attempt = 0;
    std::uint32_t last_attempt = 0;  // the highest that was used, also by a migration given up
    bool accepted = false;
    bool running = false;  // has a pipeline
    bool swapped = false;  // and runs, but its KV is in host memory: no rows are sent
    Pipeline pipeline;
    Path path;  // the pipeline in the router's graph; empty: not in there any more
    std::int64_t rows_going = 0;           // sent and not come back as a token
    bool draws_on = false;                 // the last token was guessed: one more was drawn with it
    std::vector<Token> output;             // of one sequence
    std::unique_ptr<SequenceGroup> group;  // iff request.is_group()
    std::int64_t swapped_blocks = 0;       // charged to WorkerState::swap_used, per layer
    std::int64_t prompt_rows = 0;  // in the prompt window: until the first token of this attempt
    TimePoint started;             // this attempt
    std::int32_t max_output = 0;   // max_tokens, or what context and memory allow
    TimePoint last_progress;
    std::optional<TimePoint> unfit_since;    // waits, and no placement could hold it since
    std::optional<TimePoint> trouble_since;  // set back for want of progress since its last token
    std::int32_t deaths = 0;                 // of workers that ran it, since its last token
    PrefixUse prefix;
    std::unique_ptr<Guessing> guessing;  // null before the first
    std::unique_ptr<Migration> migration;
    base::Backoff moves_again;       // unless somebody asks for it
    bool moved = false;              // this attempt began with KV that a migration had brought
    base::Backoff hands_over_again;  // in this attempt
    std::int32_t scored = 0;         // tokens of the prompt, passed on; in any attempt
    std::int32_t unscored_ends = 0;  // attempts that went on to a token without them
};

// What the workers of the placement in force can do together.
struct PlacementAbility {
    std::int64_t tokens = 0;  // of one request
    bool roles = false;       // they keep to their roles
};

// Requests by rising id, each found in no more time than in a table of a few.
class RequestTable {
  public:
    using Map = std::map<RequestId, RequestState>;
    Map::iterator find(RequestId id) {
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? by_id_.end() : *it;
    }
    RequestState& at(RequestId id) {
        const auto it = find(id);
        CHECK(it != by_id_.end());
        return it->second;
    }
    const RequestState* by_id(RequestId id) const {  // null if it is not here
        const Map::iterator* it = index_.find(id.value);
        return it == nullptr ? nullptr : &(*it)->second;
    }
    bool contains(RequestId id) const { return index_.find(id.value) != nullptr; }
    // id is new.
    void emplace(RequestId id, RequestState state) {
        index_.insert(id.value, by_id_.emplace_hint(by_id_.end(), id, std::move(state)));
    }
    void erase(Map::iterator it) {
        index_.erase(it->first.value);
        by_id_.erase(it);
    }
    bool empty() const { return by_id_.empty(); }
    std::size_t size() const { return by_id_.size(); }
    Map::iterator begin() { return by_id_.begin(); }
    Map::iterator end() { return by_id_.end(); }
    Map::const_iterator begin() const { return by_id_.begin(); }
    Map::const_iterator end() const { return by_id_.end(); }

  private:
    Map by_id_;
    base::IdMap<Map::iterator> index_;
};

// The way that is being cleared for the request that waits first (core/coordinator/balance.cc).
struct RoomInMaking {
    RequestId waiting;
    TimePoint since;                // it has found no room
    Pipeline pipeline;              // that is cleared; empty: none yet
    std::vector<RequestId> moving;  // off it
};

// Waiting requests in the order they will run: priority, then in turns of the clients, then arrival
// (FEATURES V8, L13).
using QueueKey = std::tuple<std::int64_t, std::uint64_t, std::uint64_t>;
inline QueueKey queue_key(const RequestState& state) {
    return {-static_cast<std::int64_t>(state.request.priority), state.place, state.order};
}

// What a client has in the system.
struct ClientUse {
    std::int64_t waiting = 0;         // requests
    std::int64_t waiting_tokens = 0;  // of their prompts
    std::int64_t sequences = 0;       // that run
};

// It runs with nobody else beside it: workers died with it again and again.
inline bool is_suspect(const RequestState& state) {
    return state.deaths >= kDeathsBeforeAlone;
}

// Of the two levels of FEATURES L16: with headroom, and first in a worker's batches.
inline bool is_high(const RequestState& state) {
    return state.request.priority > 0;
}

// The pipeline's stage at this worker; null if there is none.
inline const Stage* stage_at(const Pipeline& pipeline, WorkerId worker) {
    const auto it = std::find_if(pipeline.begin(), pipeline.end(),
                                 [&](const Stage& stage) { return stage.worker == worker; });
    return it == pipeline.end() ? nullptr : &*it;
}

// Tokens of prompt and output so far.
inline std::int32_t length(const RequestState& state) {
    return static_cast<std::int32_t>(state.request.prompt.size() + state.output.size());
}

// Tokens of the prompt whose log-probabilities are asked for and have not come.
inline std::int32_t unscored(const RequestState& state) {
    if (!state.request.score_prompt) return 0;
    return static_cast<std::int32_t>(state.request.prompt.size()) - 1 - state.scored;
}

// Does one of them send rows to the other?
inline bool neighbours(const Pipeline& pipeline, WorkerId one, WorkerId other) {
    for (std::size_t i = 1; i < pipeline.size(); ++i) {
        const WorkerId before = pipeline[i - 1].worker;
        const WorkerId after = pipeline[i].worker;
        if ((before == one && after == other) || (before == other && after == one)) return true;
    }
    return false;
}

// Where a suspect runs, or will as soon as nothing else does; nobody else starts there.
struct Quarantine {
    RequestId id;
    std::set<WorkerId> workers;
};

// A placement on its way into force, step by step (core/coordinator/transition_steps.h).
struct PendingPlacement {
    spec::Placement placement;
    std::vector<WorkerId> workers;  // node index -> worker
    std::vector<spec::LinkFlow> flows;
    std::vector<std::int64_t> kv_pages;   // expected, by node index; empty: not known
    std::set<WorkerId> changed;           // workers that do not hold their layers yet
    std::unique_ptr<RequestRouter> ways;  // once it is in force
    std::optional<RequestId> waits_for;   // before its first step: it could not hold that one

    // The step under way; a single one without workers where nothing changes.
    bool stepping = false;
    std::set<WorkerId> step;  // of changed: emptied, then loading; nothing new goes there
    bool disrupts = false;    // the others cannot serve: nothing is started meanwhile
    TimePoint step_since;
    bool loading = false;     // AssignLayers sent
    std::uint64_t epoch = 0;  // of the last step; 0 before the first
    AssignLayers message;     // what was sent, with each worker's own layers
    TimePoint sent_at;
};

// Workers that hold layers, and the ways between them.
struct PipelineParts {
    std::vector<PipelineNode> nodes;
    std::vector<PipelineEdge> edges;
};

// Tokens/s from the coordinator.
double total_flow(const std::vector<spec::LinkFlow>& flows);
std::string layers_text(LayerRange layers);  // "layers 0-3"

struct Coordinator::Impl {
    explicit Impl(const CoordinatorConfig& given)
        : config(given),
          prompts(given.prefill_target),
          mean_output(given.expected_output_tokens),
          prefixes(static_cast<std::size_t>(given.prefix_cache_blocks)),
          scaler(given.scale ? std::optional<AutoScaler>(*given.scale) : std::nullopt),
          remembered(given.remembered) {
        for (const RememberedDrain& drain : given.remembered_drains) {
            const DrainToCome known = {drain.remove, false, true};
            CHECK(drains_to_come.emplace(drain.worker, known).second);
        }
    }

    CoordinatorConfig config;
    std::map<WorkerId, WorkerState> workers;
    std::map<WorkerId, std::uint64_t> incarnations;  // the newest of each worker that ever joined

    RequestTable requests;
    std::map<QueueKey, RequestId> waiting;
    std::map<QueueKey, RequestId> swapped;      // come back before any of the waiting starts
    std::map<RequestId, TimePoint> swapped_in;  // run again, and when their workers were told last
    std::int64_t sequences_running = 0;         // of requests that run, swapped ones too
    std::int64_t group_sequences_running = 0;   // of these, those of groups
    std::map<RequestId, TimePoint> accused;     // run nowhere until their verdict, and when it is
    FairShares shares;
    std::map<std::uint64_t, ClientUse> clients;  // that have anything here
    std::int64_t queued_tokens = 0;              // of the prompts of the waiting
    std::int64_t unaccepted = 0;                 // of the waiting
    mutable std::optional<PlacementAbility> capacity_cache;
    std::uint64_t next_order = 0;
    PromptWindow prompts;    // that have no token yet
    double mean_output = 0;  // running mean of finished outputs, for expected lengths

    PrefixIndex prefixes;                    // edges of its paths: the router's
    std::int64_t prefix_queried_tokens = 0;  // since start
    std::int64_t prefix_hit_tokens = 0;
    std::deque<std::pair<TimePoint, RequestId>> asked_drafts;  // some answered since
    std::int64_t drafts = 0;                                   // rows with guesses, since start
    std::int64_t draft_tokens = 0;
    std::int64_t accepted_draft_tokens = 0;

    std::unique_ptr<RequestRouter> router;  // of the placement in force; null before the first
    PipelineParts router_parts;             // what it was made from, with links that are down
    std::uint64_t router_seed = 0;
    std::vector<spec::LinkFlow> flows;  // in force; node indices are worker ids
    double flow_in_force = 0;           // tokens/s
    std::uint64_t epoch_in_force = 0;   // 0 = not serving
    std::uint64_t next_epoch = 1;
    std::optional<PendingPlacement> pending;

    bool plan_wanted = false;
    TimePoint plan_wanted_since;
    std::optional<std::uint64_t> plan_running;
    std::vector<WorkerId> plan_workers;
    std::set<WorkerId> plan_without;  // that are draining
    std::uint64_t next_plan = 1;
    bool drains_closed = false;  // the others serve: nothing new goes to draining workers
    std::optional<RequestId> drains_wait_for;  // the others could not hold it

    TimePoint served_last;      // when requests waited and a placement served, or was on its way
    TimePoint no_stall_before;  // when to look for requests without progress again
    std::optional<Quarantine> quarantine;  // of one suspect at a time
    std::set<RequestId> migrating;
    LinkHealth link_health;
    MigrationCounts migrations;
    std::map<WorkerId, TimePoint> last_preemption;
    bool any_roles = false;  // that are not NodeRole::both
    // That run where prompts are computed, have their first token and are to go on elsewhere.
    std::map<QueueKey, RequestId> handovers;
    TimePoint next_handover;
    std::optional<bool> roles_said;  // were they kept, when it was last told?
    TimePoint next_balance;
    RoomInMaking clearing;
    std::optional<AutoScaler> scaler;
    // From before a restart; without those that have a part in a placement of ours.
    std::optional<RememberedPlacement> remembered;
    std::map<std::string, DrainToCome> drains_to_come;  // by the names of workers not here
    std::optional<TimePoint> restore_until;             // set while workers are waited for
    bool restore_over = false;                    // a placement is in force, or it was given up
    std::optional<RememberedPlacement> in_force;  // the last
    std::set<RequestId> high_running;             // requests of high priority
    std::int64_t preemptions = 0;
    std::int64_t failovers = 0;
    std::int64_t finished = 0;
    std::int64_t failed = 0;
    std::int64_t rejected = 0;

    // Rows for first stages that arose in this step; one message per worker when it ends.
    std::map<WorkerId, StageInputs> outbox;
    TimePoint step_at;  // of the step under way
    // In this step: nothing is started or swapped in after a request was preempted (FEATURES V10).
    bool preempted_in_step = false;
    bool swapped_in_in_step = false;

    // what workers say (coordinator_entrance.cc): why it cannot be, of the worker; empty: it can
    const RequestState* running_as(const SequenceKey& key) const;  // null: it does not
    std::string wrong_token(WorkerId worker, const RequestState& state,
                            const ProducedToken& token) const;
    std::string wrong_move(WorkerId worker, const SequenceKey& key, bool source_too) const;
    std::string contradiction(WorkerId worker, const TokensProduced& message) const;
    std::string contradiction(WorkerId worker, const SequenceStuck& message) const;
    std::string contradiction(WorkerId worker, const LayersReady& message) const;
    std::string contradiction(WorkerId worker, const LayersFailed& message) const;
    std::string contradiction(WorkerId worker, const WorkerReport& message) const;
    std::string contradiction(WorkerId worker, const KvReserved& message) const;
    std::string contradiction(WorkerId worker, const KvArrived& message) const;
    std::string contradiction(WorkerId worker, const KvRefused& message) const;
    std::string contradiction(WorkerId worker, const PeerLost& message) const;
    // Asked of each token when it is about to be taken, since those before it change the answer.
    static std::string unasked(const RequestState& state, const std::vector<ProducedToken>& tokens,
                               std::size_t i);
    static std::string unasked_of_group(const RequestState& state,
                                        const std::vector<ProducedToken>& tokens, std::size_t i);
    void cut_off(TimePoint now, WorkerId worker, const std::string& why,
                 std::vector<CoordinatorAction>& actions);

    // requests (coordinator_requests.cc)
    void on(TimePoint now, const Submitted& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const Ended& event, std::vector<CoordinatorAction>& actions);
    void on_tokens(TimePoint now, WorkerId worker, const TokensProduced& message,
                   std::vector<CoordinatorAction>& actions);
    void on_scored(WorkerId worker, const std::vector<ProducedToken>& tokens,
                   std::vector<CoordinatorAction>& actions);
    // A token came before the log-probabilities of the prompt, of which some were lost: another
    // attempt gets the others, or, after some, the request ends with an error.
    bool came_unscored(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    void on_stuck(TimePoint now, WorkerId worker, const SequenceStuck& message,
                  std::vector<CoordinatorAction>& actions);
    void dispatch(TimePoint now, std::vector<CoordinatorAction>& actions);
    Path route(TimePoint now, RequestState& state);  // empty: nothing has room
    StageFits fits_for(const RequestState& state) const;
    WorkerLoad load_of(WorkerId worker) const;
    void start(TimePoint now, RequestState& state, Path path,
               std::vector<CoordinatorAction>& actions);
    void going(RequestState& state, std::int64_t rows);  // tells the router
    // Takes the request off its pipeline and tells the workers that are left.
    void leave_pipeline(RequestState& state, std::vector<CoordinatorAction>& actions);
    template <typename Which>
    void drop_unsent(const RequestState& state, const Which& which) {  // rows of this step
        const auto box = outbox.find(state.pipeline.front().worker);
        if (box != outbox.end()) std::erase_if(box->second.inputs, which);
    }
    // A slow mean over what really comes out replaces the configured guess.
    void note_output(std::size_t tokens) {
        mean_output += (static_cast<double>(tokens) - mean_output) / 32;
    }
    void finish(RequestId id, FinishReason reason, const std::string& error,
                std::vector<CoordinatorAction>& actions);
    void reject(RequestId id, RejectReason reason, const std::string& message,
                std::vector<CoordinatorAction>& actions);
    // Its pipeline is broken: back to its place in the queue.
    void fail_over(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    // Whether the request can run in a placement of this capacity; ends it when none of those of a
    // long time could.
    bool still_fits(TimePoint now, RequestState& state, std::int64_t capacity_now,
                    std::int64_t lasting, std::vector<CoordinatorAction>& actions);
    bool lost_rows(TimePoint now, const RequestState& state) const;
    void end_stalled(TimePoint now, std::vector<CoordinatorAction>& actions);
    void end_unserved(TimePoint now, std::vector<CoordinatorAction>& actions);
    // Accepts or rejects a request at its first turn; false when it was rejected.
    bool admit(RequestState& state, std::int64_t capacity_now,
               std::vector<CoordinatorAction>& actions);
    std::int64_t blocks_for(std::int64_t tokens) const;
    // Per layer, with so many output tokens; a group's full prompt blocks count once.
    std::int64_t blocks_needed(const RequestState& state, std::int64_t output) const;
    // Per layer, besides blocks that it shares with the prefix cache.
    std::int64_t expected_blocks(const RequestState& state, std::int32_t cached) const;
    std::int64_t expected_pages(const RequestState& state, const Stage& stage) const;
    void charge(RequestState& state);  // what it is expected to need, at every stage
    // That one request can have at a worker: its first rows leave the watermark free (FEATURES V5).
    std::int64_t most_pages(WorkerId worker) const;
    // Could one request have so many blocks per layer in the placement in force?
    bool holds(std::int64_t blocks) const;
    // The most output it can have, of what it asks for; needs capacity() tokens.
    std::int32_t output_limit(const RequestState& state, std::int64_t capacity_now) const;
    // The most tokens (prompt and output) one request can have in the placement in force; 0 = none.
    std::int64_t capacity_tokens() const;
    std::int64_t capacity() const {  // the same, remembered until workers or placement change
        return ability().tokens;
    }
    const PlacementAbility& ability() const;

    // prefix cache (coordinator_prefix.cc)
    // The paths that have the KV of a beginning of the request's text.
    std::vector<PrefixHit> prefix_hits(RequestState& state);
    // That of the hit to be used, if any is worth it; sets state.prefix.cached.
    Path prefer_prefix(RequestState& state, const std::vector<PrefixHit>& hits);
    void hash_blocks(RequestState& state) const;
    // The path has just computed so many of the request's first tokens.
    void remember_prefix(RequestState& state, std::int64_t tokens);
    void note_first_token(RequestState& state);
    void restart_without_prefix(RequestState& state, std::vector<CoordinatorAction>& actions);

    // speculation (coordinator_guess.cc)
    // Sends the last token around again, with guesses where they are worth it.
    void continue_decoding(TimePoint now, RequestState& state,
                           std::vector<CoordinatorAction>& actions);
    // Its text may go to the draft model while the pipeline computes the prompt.
    void prepare_guesses(RequestState& state, std::vector<CoordinatorAction>& actions);
    void tell_draft_model(RequestState& state, std::int32_t count,
                          std::vector<CoordinatorAction>& actions);
    void ask_draft_model(TimePoint now, RequestState& state, std::int32_t count,
                         std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const Drafted& event, std::vector<CoordinatorAction>& actions);
    void end_late_drafts(TimePoint now);
    StageInput& send_decode(RequestState& state, std::span<const Token> guesses);
    Guessing& guessing_of(RequestState& state);
    std::int32_t most_guesses(const RequestState& state) const;
    // A token came; the last that was drawn after the rows that were sent? True if it was guessed.
    bool note_drawn(RequestState& state, Token drawn, bool last);
    // Of its last rows more tokens may come.
    static bool runs_ahead(const RequestState& state);
    void forget_guesses(RequestState& state);  // the attempt is over

    // the queue (coordinator_queue.cc)
    static std::int64_t sequences_of(const RequestState& state);
    std::int64_t tokens_asked(const RequestState& state) const;
    std::string queue_is_full(const Request& request) const;  // for this one; empty: it is not
    void enqueue(const RequestState& state);
    void dequeue(const RequestState& state);  // if it waits
    void add_running(const RequestState& state, std::int64_t sequences);
    void forget_unused(std::uint64_t client);
    // Its client runs so much that the rest is left to others.
    bool over_its_share(const RequestState& state) const;
    // Groups run so many sequences that the rest is left to requests of one.
    bool over_the_groups_share(const RequestState& state) const;
    // Pages of a worker in use that a group leaves to what comes after it.
    std::int64_t pages_left_by_groups(const RequestState& state, WorkerId worker) const;

    // requests that workers die of (coordinator_poison.cc)
    // A worker of its pipeline has died.
    void note_death(TimePoint now, RequestState& state, WorkerId worker);
    // A worker has died: who waits for a verdict had no part in it.
    void acquit(WorkerId dead);
    void pass_verdicts(TimePoint now, std::vector<CoordinatorAction>& actions);
    void note_progress(RequestState& state);  // it has a new token
    // Has the suspect a place of its own, or soon? Only one at a time has.
    bool set_apart(TimePoint now, const RequestState& state);
    // The one that has a place kept goes before all others, who may wait for that place.
    void start_suspect(TimePoint now, std::int64_t capacity_now, std::int64_t lasting,
                       std::vector<CoordinatorAction>& actions);
    // May it be there, as far as suspects are concerned?
    bool keeps_apart(const RequestState& state, WorkerId worker) const;
    void end_quarantine(const RequestState& state);

    // groups (coordinator_groups.cc)
    void to_stages(const RequestState& state, const WorkerMessage& message,
                   std::vector<CoordinatorAction>& actions) const;
    static std::vector<SequenceKey> keys_at_workers(const RequestState& state);
    // The first rows of an attempt, as a group needs them.
    static void begin_group(RequestState& state, StageInput& input);
    // All stages have the prompt: there are members now.
    void fork_group(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    StageInput& send_member(TimePoint now, RequestState& state, GroupMember& member);
    // As the workers are told: beams are drawn from log-probabilities.
    static spec::SamplingParams sampling_of(const RequestState& state);
    // These may end the request.
    void on_group_token(TimePoint now, RequestState& state, const ProducedToken& token,
                        std::vector<CoordinatorAction>& actions);
    void on_choice_token(TimePoint now, RequestState& state, GroupMember& member,
                         const ProducedToken& token, std::vector<CoordinatorAction>& actions);
    void end_choice(RequestState& state, const GroupMember& member, FinishReason reason,
                    std::vector<CoordinatorAction>& actions);
    // Once every running beam has its answer.
    void advance_beams(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    void finish_beams(RequestState& state, std::vector<CoordinatorAction>& actions);
    void resume_group(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);

    // preemption (coordinator_preemption.cc)
    std::int64_t blocks_held(const RequestState& state) const;
    bool can_swap_out(const RequestState& state) const;
    void preempt_one(TimePoint now, WorkerId worker, std::vector<CoordinatorAction>& actions);
    void set_back(RequestState& state, std::vector<CoordinatorAction>& actions);
    void swap_out(RequestState& state, std::vector<CoordinatorAction>& actions);
    void end_swap(RequestState& state);  // on its way in, or out of the pipeline
    void swap_in(TimePoint now, std::vector<CoordinatorAction>& actions);
    void repeat_swap_in(TimePoint now, std::vector<CoordinatorAction>& actions);

    // live migration: to its last round (coordinator_migration.cc)
    void on(TimePoint now, const MoveRequest& event, std::vector<CoordinatorAction>& actions);
    // It runs, has its first token and is not on its way already.
    bool movable(const RequestState& state) const { return why_unmovable(state).empty(); }
    bool moves_now(const RequestState& state) const {  // and has not failed to lately
        return movable(state) && state.moves_again.may_try(step_at);
    }
    std::string why_unmovable(const RequestState& state) const;
    // Why it cannot move there now; empty: it can. path: of the router's graph.
    std::string why_not_to(const RequestState& state, const Path& path,
                           MigrationReason reason) const;
    std::string why_not_at(const RequestState& state, const Stage& stage,
                           MigrationReason reason) const;
    // The router's choice among the paths that it can move to now; empty: there is none.
    Path other_path(TimePoint now, const RequestState& state);
    // What the pages need from worker to worker, if nothing else goes there; 0: not known. held:
    // they go at once, as fast as the link is.
    Duration time_to_copy(WorkerId from, WorkerId to, std::int64_t pages, bool held) const;
    // The same for all that a round of this move copies, and for what other moves' rounds copy from
    // the same workers, which may go before it.
    Duration time_to_copy(const Migration& move) const;
    // False, and nothing happens, where it cannot. Else it ends with MigrationEnded.
    bool begin_migration(TimePoint now, RequestState& state, const Path& path,
                         MigrationReason reason, std::vector<CoordinatorAction>& actions);
    // Hand-overs, or the others, that copy into or out of it, and how many may.
    std::int32_t migrations_at(WorkerId worker, bool handovers_only) const;
    std::int32_t most_migrations(bool handovers_only) const {
        return handovers_only ? config.migration.handovers_per_worker : config.migration.per_worker;
    }
    RequestState* moving_as(const SequenceKey& key);  // null: no request moves as this attempt
    void charge_move(const RequestState& state);      // the new pipeline's workers, besides
    void reserve(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    void on_reserved(TimePoint now, WorkerId worker, const KvReserved& message,
                     std::vector<CoordinatorAction>& actions);
    void on_arrived(TimePoint now, WorkerId worker, const KvArrived& message,
                    std::vector<CoordinatorAction>& actions);
    void on_refused(TimePoint now, WorkerId worker, const KvRefused& message,
                    std::vector<CoordinatorAction>& actions);
    void copy_more(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    std::vector<KvSpan> spans_to_send(const RequestState& state, bool last) const;
    void send_round(TimePoint now, RequestState& state, const std::vector<KvSpan>& spans,
                    std::vector<CoordinatorAction>& actions);

    // live migration: how it ends (coordinator_migration_end.cc)
    // In its last round, once all its rows are back, no more are sent: true, and the rest is
    // copied.
    bool hold(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    static bool is_held(const RequestState& state) {
        return state.migration && state.migration->held_since;
    }
    void commit(TimePoint now, RequestState& state, std::vector<CoordinatorAction>& actions);
    void send_first_rows(TimePoint now, RequestState& state);  // of an attempt that moved
    // The request leaves its pipeline, or goes on there.
    void drop_migration(RequestState& state, const std::string& reason,
                        std::vector<CoordinatorAction>& actions);
    void abort_migration(TimePoint now, RequestState& state, const std::string& reason,
                         std::vector<CoordinatorAction>& actions);
    // These workers let it fail, or did not answer.
    void fail_migration(TimePoint now, RequestState& state, const std::vector<WorkerId>& by,
                        const std::string& reason, std::vector<CoordinatorAction>& actions);
    void forget_failed_moves();  // things have changed
    // Those of requests that do not run there.
    void abort_migrations_to(TimePoint now, WorkerId worker, const std::string& reason,
                             std::vector<CoordinatorAction>& actions);
    // Gives up the least urgent one that takes pages at this worker; false when there is none.
    bool give_up_move_to(TimePoint now, WorkerId worker, std::vector<CoordinatorAction>& actions);
    void end_late_migrations(TimePoint now, std::vector<CoordinatorAction>& actions);
    // Those that go over the link between these two.
    void fail_migrations_over(TimePoint now, WorkerId one, WorkerId other,
                              std::vector<CoordinatorAction>& actions);
    // Back to its place in the queue, to be computed anew.
    void restart(RequestState& state, std::vector<CoordinatorAction>& actions);

    // links between workers (coordinator_links.cc)
    void on(TimePoint now, const LinksMeasured& event, std::vector<CoordinatorAction>& actions);
    void on_peer_lost(TimePoint now, WorkerId said_by, const PeerLost& message,
                      std::vector<CoordinatorAction>& actions);
    void send_lost_rows_again(TimePoint now, std::vector<CoordinatorAction>& actions);
    bool link_down(WorkerId one, WorkerId other) const;
    bool link_down(const spec::LinkSpec& link) const;  // of worker ids, as measured
    void on_link_changed(TimePoint now, WorkerId one, WorkerId other,
                         std::vector<CoordinatorAction>& actions);
    void forget_old_complaints(TimePoint now, std::vector<CoordinatorAction>& actions);
    bool plan_uses(WorkerId one, WorkerId other) const;  // the placement in force
    PipelineGraph graph_of(PipelineParts parts) const;   // without links that are down

    // workers with roles (coordinator_roles.cc)
    bool find_roles_kept() const;
    bool roles_kept() const;  // the same, remembered as capacity() is
    bool has_role(WorkerId worker, spec::NodeRole role) const;
    bool only_prefills(WorkerId worker) const;  // and roles are kept
    // Is there a path of workers that may prefill, and that could ever hold the request?
    bool prefilled_apart(const RequestState& state) const;
    StageFits prefill_only(const StageFits& fits) const;
    bool gains_roles(const Planned& event) const;  // that are not kept now
    void note_roles();                             // workers came or went
    bool is_where_prompts_are(const RequestState& state) const;
    void note_prefilled(TimePoint now, const RequestState& state);  // it has its first token
    void note_place(const RequestState& state);  // it runs elsewhere, or not any more
    void hand_over(TimePoint now, std::vector<CoordinatorAction>& actions);
    StageFits decode_fits(const RequestState& state) const;
    bool can_hand_over(const RequestState& state) const;  // now, if nothing else moves first
    void note_handover_failed(RequestState& state);
    void tell_roles(std::vector<CoordinatorAction>& actions);

    // balance (coordinator_balance.cc)
    void balance(TimePoint now, std::vector<CoordinatorAction>& actions);
    void make_room(TimePoint now, std::vector<CoordinatorAction>& actions);
    MayTake may_move(MigrationReason reason) const;
    bool takes_moves(WorkerId worker) const {  // it has not failed to lately
        const auto it = workers.find(worker);
        return it != workers.end() && it->second.takes_again.may_try(step_at);
    }
    void even_out(TimePoint now, std::vector<CoordinatorAction>& actions);
    BalanceView balance_view(TimePoint now) const;
    // Pages that a worker keeps free of requests that are not of high priority.
    std::int64_t headroom_pages(WorkerId worker) const;
    void on(TimePoint now, const WorkerNotAdded& event, std::vector<CoordinatorAction>& actions);
    void scale(TimePoint now, std::vector<CoordinatorAction>& actions);
    // The request that waits first, if nothing but room keeps it waiting; else null.
    RequestState* head_without_room();

    // workers that are emptied (coordinator_drain.cc)
    void on(TimePoint now, const DrainWorker& event, std::vector<CoordinatorAction>& actions);
    void refuse_drains(const std::string& reason, std::vector<CoordinatorAction>& actions);
    void advance_drains(TimePoint now, std::vector<CoordinatorAction>& actions);
    std::string drain_waits(const WorkerState& worker) const;  // for whom; empty: for nobody
    void keep_drain(const WorkerState& gone, bool left);
    void drain_as_before(TimePoint now, WorkerState& worker,
                         std::vector<CoordinatorAction>& actions);
    // What runs there moves away or finishes; after empty_timeout it is set back.
    void empty_worker(TimePoint now, WorkerId worker, TimePoint since, MigrationReason reason,
                      std::vector<CoordinatorAction>& actions);

    // room in what is to come (coordinator_room.cc)
    using HoldsBlocks = std::function<bool(std::int64_t)>;  // for one request, per layer
    bool holds_now(std::int64_t blocks, bool drained_too) const;
    bool pending_holds(std::int64_t blocks) const;
    std::int64_t pages_in_pending(WorkerId id) const;
    std::int64_t blocks_to_end(const RequestState& state) const;  // that it may come to
    // An accepted request that has a place as things are, and then would have none.
    std::optional<RequestId> left_without_room(const HoldsBlocks& later) const;
    bool waits_for_room(std::vector<CoordinatorAction>& actions);  // the pending placement
    std::string waits_text(RequestId id) const;
    bool holds_later(std::int64_t blocks) const;
    // Of capacity(), what one request will also have in what comes next.
    std::int64_t lasting_capacity(std::int64_t capacity_now) const;

    // workers and plans (coordinator_cluster.cc)
    void on(TimePoint now, const WorkerJoined& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const WorkerLost& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const FromWorker& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const Planned& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const NotPlanned& event, std::vector<CoordinatorAction>& actions);
    void on(TimePoint now, const CoordinatorTick& event, std::vector<CoordinatorAction>& actions);
    enum class Loss { death, left, cut_off };
    void lose_worker(TimePoint now, WorkerId worker, const std::string& reason, Loss how,
                     std::vector<CoordinatorAction>& actions);
    void on_report(TimePoint now, WorkerId worker, const WorkerReport& message,
                   std::vector<CoordinatorAction>& actions);
    void on_slowness(TimePoint now, WorkerId worker, std::vector<CoordinatorAction>& actions);
    void want_plan(TimePoint now);
    void maybe_plan(TimePoint now, std::vector<CoordinatorAction>& actions);
    bool usable(WorkerId worker, LayerRange layers) const;
    bool closed(WorkerId worker) const;  // nothing new goes there
    bool in_router(WorkerId worker) const;

    // the placement from before a restart (coordinator_restore.cc)
    // Nothing is planned: it was put in force, or some of its workers are still waited for.
    bool awaits_remembered(TimePoint now, std::vector<CoordinatorAction>& actions);
    void restore(TimePoint now, std::vector<CoordinatorAction>& actions);
    void remember_in_force();  // the pending placement's
    // What the worker had before the restart and was not told to give up since.
    LayerRange held_before(const WorkerState& worker) const;
    // In the placement in force or, before the first, in the one from before the restart.
    bool is_placed(WorkerId id) const;

    // putting a placement in force (coordinator_transition.cc)
    void advance_pending(TimePoint now, std::vector<CoordinatorAction>& actions);
    void begin_step(TimePoint now, std::vector<CoordinatorAction>& actions);
    void end_step(std::vector<CoordinatorAction>& actions);
    void empty_step(TimePoint now, std::vector<CoordinatorAction>& actions);
    void send_assignments(TimePoint now, std::vector<CoordinatorAction>& actions);
    // To those that have not answered: assignment or answer may have been lost.
    void repeat_assignments(TimePoint now, std::vector<CoordinatorAction>& actions);
    std::map<std::pair<std::int32_t, std::int32_t>, spec::LinkSpec> measured_links(
        const std::vector<WorkerId>& ids) const;
    PipelineParts final_parts() const;    // of the pending placement
    void know_ways();                     // through it
    PipelineParts present_parts() const;  // of all workers as they are now
    void use_router(PipelineParts parts);
    void make_router();  // from router_parts
    void put_in_force(std::vector<CoordinatorAction>& actions);
    void flush_outbox(std::vector<CoordinatorAction>& actions);
};

}  // namespace helix::core

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/backoff.h"
#include "base/hash.h"
#include "core/coordinator/draft_length.h"
#include "core/coordinator/draft_ngram.h"
#include "core/coordinator/sequence_group.h"
#include "core/protocol/coordinator_actions.h"
#include "core/protocol/request.h"
#include "core/routing/pipeline_graph.h"
#include "spec/attention_window.h"

// This is what the coordinator knows of one request.

namespace helix::core {

// The blocks of KV that a request needs in each layer, those with a window included while its
// tokens are no more than the window's. keeps_all: nothing of it is given back.
struct BlockDemand {
    // Of a request of one sequence.
    BlockDemand(std::int64_t n) : blocks(n) {}  // NOLINT(google-explicit-constructor)
    BlockDemand(std::int64_t n, bool all) : blocks(n), keeps_all(all) {}
    std::int64_t blocks = 0;
    bool keeps_all = false;
};

// What the prefix cache has to do with a request.
struct PrefixUse {
    std::vector<base::Hash128> blocks;  // of prompt and output, as far as they were asked for
    // Tokens that this attempt need not compute. For a waiting request they are those on the path
    // that was found for it last.
    std::int32_t cached = 0;
    // What was believed to be cached was not there, so the next attempt computes everything.
    bool lost = false;
};

// The tokens drafted ahead for a request.
struct Drafting {
    Drafting(std::int32_t ngram_min, std::int32_t ngram_max) : lookup(ngram_min, ngram_max) {}
    NgramDrafter lookup;  // prediction, prompt, and output as far as it was asked
    std::size_t before_output = 0;
    DraftLength length;
    std::vector<Token> sent;  // along with the last token; empty: none, or their run is over
    std::size_t right = 0;    // of these, as far as tokens came back
    std::int32_t told = 0;    // tokens of prompt and output that the draft model knows
    bool asked = false;       // and is waited for; nothing is under way meanwhile
    bool late = false;        // it has not answered in time, and still has not
    TimePoint asked_at;
};

// A request that is on its way to another pipeline (core/coordinator/migrations.h).
struct Migration {
    // The layers with KV of their own that a worker of the old pipeline and one of the new have in
    // common; both may be the same worker.
    struct Transfer {
        WorkerId from;
        WorkerId to;
        LayerRange layers;
        bool arrived = false;    // all of the round under way has arrived
        std::int64_t pages = 0;  // the pages of that round
        bool is_local() const { return from == to; }
        // Says whether the worker may be the one that says KvArrived: it receives, or sends layers
        // that all have a window and had given back all that a round asked for.
        bool may_tell(WorkerId worker, const spec::AttentionWindow& window) const {
            if (to == worker) return true;
            return from == worker && window.any() && window.count(layers) == layers.size();
        }
    };
    std::uint32_t attempt = 0;  // the attempt that it will be
    Pipeline pipeline;          // the pipeline that it will run on
    // The way in the router's graph; empty: it is not in there any more.
    Path path;
    MigrationReason begun_for = MigrationReason::asked;
    MigrationPhase phase = MigrationPhase::reserving;
    std::vector<WorkerId> unreserved;  // workers that have not said yet that they have room
    std::int64_t reserved_blocks = 0;  // what was asked for, per layer
    // Of these, the first, what was given back before it began in layers with a window.
    std::int64_t given_back = 0;
    std::vector<Transfer> transfers;
    std::uint32_t round = 0;  // the round under way or, between rounds, the last
    // Full blocks that were sent, by member. For beams it has the prompt's, under one member.
    std::map<std::uint32_t, std::int32_t> sent_blocks;
    std::int64_t tokens = 0;  // as in MigrationEnded
    std::int64_t pages = 0;
    TimePoint began;
    TimePoint heard;    // when the last answer came
    Duration patience;  // how long the next answer may take, or the hold
    TimePoint asked;    // when the reservation was asked for, or last confirmed
    // In last_round: since all its rows have come back.
    std::optional<TimePoint> held_since;
};

// What is looked at most often comes first and lies together.
struct RequestState {
    std::uint64_t order = 0;  // the number of its arrival
    std::uint32_t attempt = 0;
    std::uint32_t last_attempt = 0;  // the highest that was used, also by a migration given up
    bool accepted = false;
    bool running = false;  // it has a pipeline
    // It runs, but its KV is in host memory, so no rows are sent.
    bool swapped = false;
    bool moved = false;     // this attempt began with KV that a migration had brought
    bool draws_on = false;  // the last token was drafted: one more was drawn with it
    std::unique_ptr<SequenceGroup> group;  // iff request.is_group()
    std::unique_ptr<Migration> migration;
    std::vector<Token> output;  // of one sequence
    Request request;
    // The place in the queue, by what its client has asked for (FairShares).
    std::uint64_t place = 0;
    Pipeline pipeline;
    // The pipeline in the router's graph; empty: it is not in there any more.
    Path path;
    std::int64_t rows_going = 0;      // sent and not come back as a token
    std::int64_t swapped_blocks = 0;  // per layer, charged to WorkerState::swap_used
    // Its rows in the prompt window, until the first token of this attempt.
    std::int64_t prompt_rows = 0;
    TimePoint started;  // when this attempt started
    // Why the next attempt will start, or the last one did.
    RouteReason route_reason = RouteReason::first;
    std::int32_t max_output = 0;  // max_tokens, or what context and memory allow
    TimePoint last_progress;
    // Since then it waits, and no placement could hold it.
    std::optional<TimePoint> unfit_since;
    // Since then it makes no progress: it was set back for that and has had no token.
    std::optional<TimePoint> trouble_since;
    // Workers that died with it since its last token.
    std::int32_t deaths = 0;
    PrefixUse prefix;
    std::unique_ptr<Drafting> drafting;  // null before the first
    base::Backoff moves_again;           // the pause before it moves again, unless somebody asks
    base::Backoff hands_over_again;      // the pause before its next hand-over, in this attempt
    // Tokens of the prompt whose log-probabilities were passed on, in any attempt.
    std::int32_t scored = 0;
    // Attempts that came to a token without all of these.
    std::int32_t unscored_ends = 0;
};

// The key orders waiting requests as they will run: by priority, then in turns of the clients, then
// by arrival.
using QueueKey = std::tuple<std::int64_t, std::uint64_t, std::uint64_t>;
inline QueueKey queue_key(const RequestState& state) {
    return {-static_cast<std::int64_t>(state.request.priority), state.place, state.order};
}

// Says whether the request runs with nobody else beside it, because workers died with it again and
// again.
inline bool is_suspect(const RequestState& state) {
    return state.deaths >= kDeathsBeforeAlone;
}

// Says whether the request has the upper of the two levels of priority: with headroom, and first in
// a worker's batches.
inline bool is_high(const RequestState& state) {
    return state.request.priority > 0;
}

// Returns the pipeline's stage at this worker; null if there is none.
inline const Stage* stage_at(const Pipeline& pipeline, WorkerId worker) {
    const auto it = std::find_if(pipeline.begin(), pipeline.end(),
                                 [&](const Stage& stage) { return stage.worker == worker; });
    return it == pipeline.end() ? nullptr : &*it;
}

// Says whether an output ends here, of which there may be so many tokens at most, and why.
inline std::optional<FinishReason> end_of(const Request& request, const std::vector<Token>& output,
                                          std::int64_t most) {
    const auto count = static_cast<std::int64_t>(output.size());
    const auto& stops = request.stop_tokens;
    const bool stop = count > request.min_tokens &&
                      std::find(stops.begin(), stops.end(), output.back()) != stops.end();
    if (stop) return FinishReason::stop;
    if (count >= most) return FinishReason::length;
    return std::nullopt;
}

// Returns the tokens of prompt and output so far.
inline std::int32_t length(const RequestState& state) {
    return static_cast<std::int32_t>(state.request.prompt.size() + state.output.size());
}

// Returns how many tokens of the prompt still lack log-probabilities that were asked for.
inline std::int32_t unscored(const RequestState& state) {
    if (!state.request.score_prompt) return 0;
    return static_cast<std::int32_t>(state.request.prompt.size()) - 1 - state.scored;
}

// Returns "worker 3".
inline std::string worker_text(WorkerId worker) {
    return "worker " + std::to_string(worker.value);
}

// Returns " (request 7, attempt 2, member 0)".
inline std::string of_request(const SequenceKey& key) {
    return " (request " + std::to_string(key.request.value) + ", attempt " +
           std::to_string(key.attempt) + ", member " + std::to_string(key.member) + ")";
}

}  // namespace helix::core

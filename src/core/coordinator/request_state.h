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

// What the coordinator knows of one request.

namespace helix::core {

// What the prefix cache has to do with a request.
struct PrefixUse {
    std::vector<base::Hash128> blocks;  // of prompt and output, as far as they were asked for
    // Tokens that this attempt need not compute. Of a waiting request: on the path that was
    // found for it last.
    std::int32_t cached = 0;
    bool lost = false;  // it was not there: the next attempt computes everything
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

// A request on its way to another pipeline (core/coordinator/migrations.h).
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
    bool draws_on = false;                 // the last token was drafted: one more was drawn with it
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
    std::unique_ptr<Drafting> drafting;  // null before the first
    std::unique_ptr<Migration> migration;
    base::Backoff moves_again;       // unless somebody asks for it
    bool moved = false;              // this attempt began with KV that a migration had brought
    base::Backoff hands_over_again;  // in this attempt
    std::int32_t scored = 0;         // tokens of the prompt, passed on; in any attempt
    std::int32_t unscored_ends = 0;  // attempts that went on to a token without them
};

// Waiting requests in the order they will run: priority, then in turns of the clients, then
// arrival.
using QueueKey = std::tuple<std::int64_t, std::uint64_t, std::uint64_t>;
inline QueueKey queue_key(const RequestState& state) {
    return {-static_cast<std::int64_t>(state.request.priority), state.place, state.order};
}

// It runs with nobody else beside it: workers died with it again and again.
inline bool is_suspect(const RequestState& state) {
    return state.deaths >= kDeathsBeforeAlone;
}

// Of the two levels of priority the upper: with headroom, and first in a worker's batches.
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

// "worker 3"
inline std::string worker_text(WorkerId worker) {
    return "worker " + std::to_string(worker.value);
}

// " (request 7, attempt 2, member 0)"
inline std::string of_request(const SequenceKey& key) {
    return " (request " + std::to_string(key.request.value) + ", attempt " +
           std::to_string(key.attempt) + ", member " + std::to_string(key.member) + ")";
}

}  // namespace helix::core

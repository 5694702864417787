#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/inline_vector.h"
#include "base/shared_value.h"
#include "core/protocol/remembered_placement.h"
#include "core/protocol/types.h"
#include "spec/pooling.h"
#include "spec/serving_policy.h"

// What coordinator and workers say to each other. Plain data; wire encodes it, sim passes it as it
// is.

namespace helix::core {

// ---- activations beside a message
// -----------------------------------------------------------------

// Rows [first_row, first_row + rows) of a buffer of activations that the world holds (a received
// frame, or the output of a batch). The core only passes it on. buffer 0 = none.
struct PayloadRef {
    std::uint64_t buffer = 0;
    std::uint32_t first_row = 0;
    std::uint32_t rows = 0;
    bool operator==(const PayloadRef&) const = default;
};

// ---- coordinator -> worker
// ------------------------------------------------------------------------

// How to reach another worker.
struct Peer {
    WorkerId worker;
    std::string endpoint;    // "tcp://host:port" or "inproc://name"
    std::string public_key;  // Z85, empty without CURVE
    bool operator==(const Peer&) const = default;
};

// Hold these layers from now on (empty range = hold none). If the range changes, everything kept
// for the old one is dropped: the coordinator then sends it only when no running request uses the
// worker. With the same range it only renews peers and groups and disturbs nothing. Answered by
// LayersReady or LayersFailed. A worker that does not serve the model answers LayersFailed and
// changes nothing.
struct AssignLayers {
    std::uint64_t epoch = 0;  // rises with every assignment of this coordinator
    LayerRange layers;
    std::int32_t pipeline_groups = 1;  // decodes are split into so many batches in flight, or fewer
    std::vector<Peer> peers;
    ModelId model = {};  // whose layers they are
    // The placement that this is a part of, for the coordinator after this one (Holding).
    base::SharedValue<RememberedPlacement> placement = {};
    // How many times the decodes' time prompts may take while both wait; above 0.
    double prefill_share = spec::ServingPolicy().prefill_share;
    bool operator==(const AssignLayers&) const = default;
};

// Tokens of consecutive rows: one when a sequence decodes.
using RowTokens = base::InlineVector<Token, 2>;

// What a stage must know of a sequence before its first rows; travels with them.
struct SequenceStart {
    Pipeline pipeline;
    std::int32_t prompt_tokens = 0;
    spec::SamplingParams sampling;
    // The first tokens, whose KV every stage is believed to hold already (prefix cache): whole
    // blocks, fewer than all tokens. The first rows are those that follow.
    std::vector<Token> cached = {};
    // The prompt, if the log-probabilities of its tokens are asked for (those of the first token do
    // not exist), with sampling.n_logprobs others each; else empty. The last stage answers them.
    std::vector<Token> scored = {};
    bool high_priority = false;  // its rows go before those of others
    // Not none: the last stage answers the prompt's embedding instead of a token. Unless it is the
    // last token's, nothing is cached then, because every row is needed.
    spec::Pooling pooling = spec::Pooling::none;
    bool timed = false;  // each stage says its StageTimes when the attempt ends there
    // Members of its group may be forked from it at earlier positions than its own, so that nothing
    // of its KV is given back while it runs.
    bool forks = false;
    std::int32_t cached_tokens() const { return static_cast<std::int32_t>(cached.size()); }
    bool operator==(const SequenceStart&) const = default;
};

// Rows for a stage: from the coordinator (tokens only, to the first stage) or from the stage before
// (tokens and their activations). Positions of one sequence arrive in order and without gaps; only
// after a draft they may go back, to behind its last token that was right.
struct StageInput {
    SequenceKey key;
    std::int32_t first_position = 0;
    RowTokens tokens;     // the tokens at these positions
    bool sample = false;  // draw the token that follows the last row
    // With sample: how many of the last tokens are a draft (speculation). A token is drawn after
    // each row from the one before the draft on, up to the first that differs from the draft.
    std::int32_t drafts = 0;
    // With sample: how many tokens to draw after the last row, one each for members 0 ... draws -
    // 1.
    std::int32_t draws = 1;
    // On the first rows of a member that ForkSequences makes: the member it comes from. It may
    // arrive before that message; it is forked then.
    std::int32_t parent = -1;
    base::SharedValue<SequenceStart> start;  // present iff first rows and without parent
    PayloadRef payload;                      // not encoded: the rows travel as a raw frame
    bool operator==(const StageInput&) const = default;
};

struct StageInputs {
    std::vector<StageInput> inputs;
    bool operator==(const StageInputs&) const = default;
};

// The sequences end here, and their pages are given back. Unknown ones are no error.
struct FreeSequences {
    std::vector<SequenceKey> keys;
    bool operator==(const FreeSequences&) const = default;
};

// New members of the parent's group: each begins with the parent's first tokens, whose KV they
// share until they write. Every stage has computed these tokens. Nothing is allocated.
struct ForkSequences {
    SequenceKey parent;
    std::int32_t tokens = 0;
    std::vector<std::uint32_t> members;
    bool operator==(const ForkSequences&) const = default;
};

// Moves the content of the sequences' KV pages to host memory, or back. While it is there their
// rows wait. Answered by SequenceStuck where there is no room: no_swap_space on the way out;
// out_of_pages on the way in, which is tried again when pages are free.
struct SwapSequences {
    bool out = true;
    std::vector<SequenceKey> keys;
    bool operator==(const SwapSequences&) const = default;
};

// ---- live migration (core/coordinator/migrations.h)
// -----------------------------------------------------------------------------------------

// A request moves to another pipeline as its next attempt. Its KV goes ahead, worker to worker, and
// waits there under the key of that attempt. The attempt's first rows (SequenceStart::cached names
// the tokens whose KV is waiting) take it over; FreeSequences gives it back. The layers of these
// messages are those with KV of their own (WorkerConfig::kv_layers).

// To each stage of the new pipeline: take pages for the KV that will come, this many blocks of all
// these layers; of layers with a window (WorkerConfig::window) without the first ones, which were
// given back before. key names member 0 of the new attempt. Answered by KvReserved or KvRefused.
// Sent again, it renews the reservation and adds what it has grown by.
struct ReserveKv {
    SequenceKey key;
    LayerRange layers;
    std::int64_t blocks = 0;
    std::int64_t given_back = 0;  // of the blocks, the first
    bool operator==(const ReserveKv&) const = default;
};

// Positions of one member, from block first_block on, up to tokens. The blocks before were sent in
// earlier rounds; in the first round of the member they belong to the prompt and were sent for
// another member.
struct KvSpan {
    std::uint32_t member = 0;
    std::int32_t first_block = 0;
    std::int32_t tokens = 0;
    bool operator==(const KvSpan&) const = default;
};

// To a worker that holds KV which moves: give that of these layers and positions to the new attempt
// at another worker; where that is the same worker, let the new attempt share the pages. Blocks
// that members share travel once. Answered by the receiver with KvArrived; by either with
// KvRefused.
struct SendKv {
    RequestId request;
    std::uint32_t attempt = 0;       // the attempt that has the KV
    std::uint32_t next_attempt = 0;  // the attempt that gets it
    std::uint32_t round = 0;         // of this migration, from 1
    WorkerId to;
    LayerRange layers;
    std::vector<KvSpan> spans;
    bool held = false;  // the request waits for it, so it goes before what is only copied ahead
    // Of layers with a window nothing is wanted of this many blocks, the member's first.
    std::int64_t given_back = 0;
    bool operator==(const SendKv&) const = default;
};

// A block of a member, and which of the blocks that travel with the message has its content.
struct KvPlace {
    std::uint32_t member = 0;
    std::int32_t block = 0;
    std::uint32_t content = 0;
    bool operator==(const KvPlace&) const = default;
};

// Worker to worker: a part of what SendKv asked for. The payload has a row for each block, with the
// block's pages of all layers in order; what a page is, LayersReady::kv_format says. Rows of blocks
// that were given back have the pages of layers without a window only. Where nothing is left to
// send, the sender says KvArrived itself.
struct KvBlocks {
    SequenceKey key;  // member 0 of the new attempt
    std::uint32_t round = 0;
    LayerRange layers;
    std::uint32_t part = 0;
    std::uint32_t parts = 1;      // of this round and these layers
    std::vector<KvSpan> spans;    // of the whole round
    std::vector<KvPlace> places;  // of this part
    PayloadRef payload;           // not encoded
    // So many blocks, the member's first, were given back in layers with a window: those that were
    // not wanted, and those that the sender has not any more, which no later row needs.
    std::int64_t given_back = 0;
    bool operator==(const KvBlocks&) const = default;
};

using WorkerMessage = std::variant<AssignLayers, StageInputs, FreeSequences, ForkSequences,
                                   SwapSequences, ReserveKv, SendKv, KvBlocks>;

// ---- worker -> coordinator
// ------------------------------------------------------------------------

struct ProducedToken {
    SequenceKey key;
    std::int32_t position = 0;  // of this token in the sequence
    Token token = 0;
    float logprob = 0;                    // filled when asked for
    std::vector<spec::TokenLogprob> top;  // best first
    bool operator==(const ProducedToken&) const = default;
};

// The embedding of a request's prompt, of length 1.
struct PromptEmbedding {
    SequenceKey key;
    std::vector<float> values;
    bool operator==(const PromptEmbedding&) const = default;
};

struct TokensProduced {
    std::vector<ProducedToken> tokens;
    // Tokens of the prompt with their log-probabilities: in order of their positions for each
    // sequence, and all before the sequence's first token in `tokens`.
    std::vector<ProducedToken> scored = {};
    std::vector<PromptEmbedding> embeddings = {};
    bool empty() const { return tokens.empty() && scored.empty() && embeddings.empty(); }
    bool operator==(const TokensProduced&) const = default;
};

// The assignment is in force: layers loaded, pages ready.
struct LayersReady {
    std::uint64_t epoch = 0;
    LayerRange layers;
    std::int64_t total_pages = 0;
    std::int64_t swap_pages = 0;  // room for so many in host memory
    // How the engine lays out a page of KV, in its own words. Pages move only between workers of
    // one format; empty: they do not move.
    std::string kv_format = {};
    double kv_page_bytes = 0;   // size of a page that goes to another worker; 0: not known
    double kv_bytes_per_s = 0;  // the most KV that it sends; 0: not known
    bool operator==(const LayersReady&) const = default;
};

struct LayersFailed {
    std::uint64_t epoch = 0;
    std::string reason;
    bool operator==(const LayersFailed&) const = default;
};

enum class StuckCause : std::uint8_t {
    failed,           // the request ends with the reason; another time it may go well
    out_of_pages,     // the sequence can go on later: the coordinator preempts
    no_swap_space,    // the sequence stays in its pages; it can be preempted by recompute
    prefix_lost,      // SequenceStart::cached is not here (any more): start anew without it
    invalid_request,  // the request ends with the reason, and would do so everywhere
};
inline constexpr StuckCause kLastStuckCause = StuckCause::invalid_request;

// A sequence cannot go on here.
struct SequenceStuck {
    SequenceKey key;
    StuckCause cause = StuckCause::failed;
    std::string reason;
    bool operator==(const SequenceStuck&) const = default;
};

// Sent every report interval: corrects the coordinator's KV estimate and lets it free what should
// not be here any more.
struct WorkerReport {
    std::int64_t used_pages = 0;  // by sequences; pages kept only for the prefix cache are free
    std::int64_t total_pages = 0;
    std::int64_t waiting_rows = 0;
    std::int64_t batches = 0;  // since start
    std::int64_t rows = 0;     // since start
    std::int64_t busy_ns = 0;  // since start
    std::vector<SequenceKey> held;
    std::int64_t cached_pages = 0;   // kept for the prefix cache only
    std::int64_t swapped_pages = 0;  // in host memory
    bool operator==(const WorkerReport&) const = default;
};

// A sequence that a worker has kept while it had no coordinator.
struct SequenceHeld {
    SequenceKey key;
    Pipeline pipeline;
    std::int32_t arrived = 0;  // rows that came
    std::int32_t certain = 0;  // of these, without a draft's
    bool swapped = false;      // it lies in host memory
    bool rows_lost = false;    // a link to the stage before or after broke while it ran, perhaps
    // The tokens that were drawn here last: those that the coordinator that is gone may not have
    // passed on. The first of a prompt may be several, one for each member of its group; those
    // after them are at rising positions without gaps.
    std::vector<ProducedToken> drawn = {};
    bool operator==(const SequenceHeld&) const = default;
};

// What a worker says to a new coordinator: what it holds for requests that go on.
struct Holding {
    std::uint64_t epoch = 0;                           // of the newest assignment that it took up
    LayerRange layers;                                 // that it has loaded
    base::SharedValue<RememberedPlacement> placement;  // of that assignment
    std::vector<SequenceHeld> sequences;
    bool operator==(const Holding&) const = default;
};

// Answers to ReserveKv and SendKv; key: member 0 of the new attempt.
struct KvReserved {
    SequenceKey key;
    bool operator==(const KvReserved&) const = default;
};
struct KvArrived {  // all of this round and these layers is in its pages
    SequenceKey key;
    std::uint32_t round = 0;
    LayerRange layers;
    bool operator==(const KvArrived&) const = default;
};
enum class KvRefusal : std::uint8_t {
    impossible,  // no room, other layers, a state that does not fit what was asked
    failed,      // the engine could not copy
    unheard,     // no message about the reservation came for too long, so it was given up
};
inline constexpr KvRefusal kLastKvRefusal = KvRefusal::unheard;
struct KvRefused {
    SequenceKey key;
    KvRefusal cause = KvRefusal::impossible;
    std::string reason;  // for people
    bool operator==(const KvRefused&) const = default;
};

// The link between the sender and this worker broke, and rows between them may be lost. down: it
// has not come back yet. That is repeated with every report; a message without down says that the
// link is back.
struct PeerLost {
    WorkerId peer;
    bool down = false;
    std::string endpoint = {};  // with down: of the peer, as the sender knows it
    bool operator==(const PeerLost&) const = default;
};

// What a stage did for an attempt that is timed (SequenceStart::timed), said once when the last of
// its sequences there is gone; not at all if none of its rows was computed there. Clocks of
// machines differ, so times are told as how long ago something was when this was said.
struct StageTimes {
    SequenceKey key;           // member 0 of the attempt
    std::int64_t batches = 0;  // that had rows of it
    std::int64_t rows = 0;     // of it
    Duration busy;             // which those batches took, rows of others in them included
    Duration since_first;      // since the first of these batches began
    Duration since_last;       // since the last of them ended
    bool operator==(const StageTimes&) const = default;
};

using CoordinatorMessage =
    std::variant<TokensProduced, LayersReady, LayersFailed, SequenceStuck, WorkerReport, KvReserved,
                 KvArrived, KvRefused, PeerLost, StageTimes>;

}  // namespace helix::core

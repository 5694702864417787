#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "base/prefetch.h"
#include "base/slab.h"
#include "core/batch/batch_costs.h"
#include "core/batch/batch_load.h"
#include "core/batch/round_trip.h"
#include "core/kv/block_pool.h"
#include "core/kv/block_table.h"
#include "core/kv/prefix_cache.h"
#include "core/worker/kv_parcels.h"
#include "core/worker/worker.h"

// This is the state behind core::Worker. Only its own .cc files and Invariants include it.

namespace helix::core {

// Turn says when an input's rows are due; every input has a turn of its own. Requests of several
// sequences have one row in each round, so that a thousand choices of one request do not go before
// what others wait for; all other requests are in the round under way. Within a round inputs go by
// arrival, but one of high priority goes before a limited number that came earlier: limited, so
// that nobody waits for ever.
struct Turn {
    std::uint64_t round = 0;
    std::uint64_t order = 0;
    auto operator<=>(const Turn&) const = default;
};
inline constexpr std::uint64_t kPriorityLead = 1024;
inline std::uint64_t turn(std::uint64_t arrival, bool high_priority) {
    return high_priority ? 2 * arrival : 2 * (arrival + kPriorityLead) + 1;
}

// Rows that arrived and are not computed yet: positions [first_position, first_position +
// tokens.size()).
struct PendingRows {
    RowTokens tokens;
    PayloadRef payload;
    Turn turn;  // among all inputs of this worker
    std::int32_t first_position = 0;
    std::int32_t drafts = 0;  // as in StageInput
    std::int32_t draws = 1;
    bool sample = false;

    std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
    // Returns the most of these rows, up to count, that one batch may take: a draft and the row
    // before it stay together.
    std::int32_t up_to(std::int64_t count) const {
        if (count >= size()) return size();
        const std::int64_t certain = drafts > 0 ? size() - 1 - drafts : size();
        return static_cast<std::int32_t>(std::min(count, certain));
    }
};

// A queue of pending rows, oldest first. It is hardly ever longer than one, which lies inside it.
class PendingQueue {
  public:
    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }
    PendingRows& front() { return first_; }
    const PendingRows& front() const { return first_; }
    const PendingRows& at(std::size_t i) const { return i == 0 ? first_ : (*others_)[i - 1]; }
    // Returns the rows that come last from now on. They are to be filled in: of rows that were here
    // before they have something left.
    PendingRows& push_back() {
        if (size_++ == 0) return first_;
        if (others_ == nullptr) others_ = std::make_unique<std::vector<PendingRows>>();
        return others_->emplace_back();
    }
    void pop_front() {
        if (--size_ == 0) return;
        first_ = std::move(others_->front());
        others_->erase(others_->begin());
    }

  private:
    PendingRows first_;
    std::unique_ptr<std::vector<PendingRows>> others_;  // null: there never were any
    std::size_t size_ = 0;
};

// What few sequences have.
struct SequenceExtras {
    std::vector<Token> history;        // all tokens that arrived, by position, if keeps_history
    std::vector<ProducedToken> drawn;  // here, the last ones (note_tokens)
    std::vector<double> pooled;        // with pooling: of the rows that are computed (PooledRows)
    std::vector<base::Hash128> blocks_kept;  // hashes of the full blocks; with a prefix cache
};

// What every row touches comes first and fills three lines of a processor's cache: a large
// cluster's sequences do not fit into it.
struct alignas(64) Sequence {
    SequenceKey key;
    std::int32_t arrived = 0;  // rows that came, computed or not
    // Rows whose KV is in this worker's pages, or will be when the batch finishes.
    std::int32_t computed = 0;
    std::int32_t certain = 0;       // rows that came, without a draft's
    std::int32_t first_row = 0;     // the first row that came: those before it are shared
    std::int32_t forked_from = -1;  // the member
    std::int32_t prompt_tokens = 0;
    LayerRange layers;
    WorkerId next;  // the stage after ours, which is not the last one
    bool last_stage = false;
    bool keeps_history = false;
    bool timed = false;          // as in SequenceStart
    bool high_priority = false;  // as in SequenceStart
    bool in_batch = false;
    bool ending = false;       // freed while in a batch: goes when the batch has finished
    bool stuck = false;        // the coordinator was told that pages are missing
    bool past_prompt = false;  // counted in Worker::Impl::n_past_prompt
    bool swapped = false;      // its table lists pages of host memory; its rows wait
    bool away = false;         // a token of it is on a round trip,
    PendingQueue pending;
    BlockTable table;
    std::uint64_t away_in = 0;  // drawn by this batch,
    TimePoint left;             // since then
    base::SharedValue<SequenceStart> start;
    TimePoint began;
    std::unique_ptr<SequenceExtras> extras;  // null: it has none

    // stage is this worker's in start's pipeline; cached says that there is a prefix cache, named
    // that somebody asks for its pages. kv_layers, window: as BlockTable has them.
    Sequence(const SequenceKey& k, base::SharedValue<SequenceStart> s, std::size_t stage,
             LayerRange kv_layers, std::int32_t block_size, bool cached, bool named,
             const spec::AttentionWindow* window)
        : key(k),
          prompt_tokens(s->prompt_tokens),
          layers(s->pipeline[stage].layers),
          timed(s->timed),
          high_priority(s->high_priority),
          table(layers, kv_layers, block_size, named, window),
          start(std::move(s)) {
        last_stage = stage + 1 == start->pipeline.size();
        if (last_stage) {
            keeps_history = start->sampling.needs_history();
        } else {
            next = start->pipeline[stage + 1].worker;
        }
        keeps_history = keeps_history || cached;
    }
    // Makes a member of the parent's group that begins with its first tokens, which are computed.
    Sequence(Sequence& parent, const SequenceKey& k, std::int32_t tokens, KvBlockPool& pool)
        : key(k),
          arrived(tokens),
          computed(tokens),
          certain(tokens),
          first_row(tokens),
          forked_from(static_cast<std::int32_t>(parent.key.member)),
          prompt_tokens(parent.prompt_tokens),
          layers(parent.layers),
          next(parent.next),
          last_stage(parent.last_stage),
          keeps_history(parent.keeps_history),
          timed(parent.timed),
          high_priority(parent.high_priority),
          swapped(parent.swapped),
          table(parent.table.fork(tokens, pool)),
          start(parent.start) {
        if (parent.extras == nullptr) return;
        const SequenceExtras& all = *parent.extras;
        if (keeps_history) {
            more().history.assign(all.history.begin(), all.history.begin() + tokens);
        }
        more().blocks_kept = all.blocks_kept;
        more().blocks_kept.resize(std::min(all.blocks_kept.size(), table.full_blocks(tokens)));
    }

    // The cached tokens of its start are now in its table.
    void begin_after_cached() {
        arrived = computed = certain = first_row = start->cached_tokens();
        if (keeps_history) more().history = start->cached;
    }
    // Its extras, which it has from now on.
    SequenceExtras& more() {
        if (extras == nullptr) extras = std::make_unique<SequenceExtras>();
        return *extras;
    }
    const std::vector<ProducedToken>& drawn() const {
        static const std::vector<ProducedToken> kNone;
        return extras == nullptr ? kNone : extras->drawn;
    }
    // Returns the first position of which rows may come from now on: a draft's may come again.
    std::int32_t next_row() const { return std::min(computed, certain); }
    bool is_last_stage() const { return last_stage; }
    // Says whether its tokens come back to this worker as its next rows.
    bool is_only_stage() const { return is_last_stage() && layers.begin == 0; }
    // Says whether the rows are one that extends the text, with the draft after it, and not a piece
    // of a prompt.
    bool is_decode(const PendingRows& rows) const {
        return rows.sample && rows.size() == 1 + rows.drafts && rows.first_position > 0;
    }
    // Says whether it is in a list of those that are ready.
    bool is_ready() const { return !pending.empty() && !in_batch && !swapped; }
    bool is_new() const { return computed == first_row && forked_from < 0; }
    // Asks for what every row touches, before it is needed.
    void prefetch() const { base::prefetch<192>(this); }
};

// SequenceTable has a worker's sequences in order of their keys; they stay where they are while
// they live. For every row that arrives one is looked up: where it is the only one of its request,
// as nearly all are, in one look.
class SequenceTable {
  public:
    using Entry = std::pair<SequenceKey, Sequence*>;
    SequenceTable() = default;
    SequenceTable(const SequenceTable&) = delete;
    SequenceTable& operator=(const SequenceTable&) = delete;
    ~SequenceTable();

    // Finds the sequences of many keys, null for each that is not here, in less time than one by
    // one.
    template <typename Inputs>
    void find_all(const Inputs& inputs, std::vector<Sequence*>& found) const {
        for (const auto& input : inputs) only_.prefetch(input.key.request.value);
        found.clear();
        for (const auto& input : inputs) {
            Sequence* const* only = only_.find(input.key.request.value);
            found.push_back(only == nullptr ? nullptr : *only);
            if (only != nullptr && *only != nullptr) (*only)->prefetch();
        }
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i] == nullptr || found[i]->key != inputs[i].key)
                found[i] = find(inputs[i].key);
        }
    }
    // Asks for what find() looks at first, and for the sequence.
    void prefetch_place(const SequenceKey& key) const { only_.prefetch(key.request.value); }
    void prefetch(const SequenceKey& key) const {
        Sequence* const* only = only_.find(key.request.value);
        if (only != nullptr && *only != nullptr) (*only)->prefetch();
    }
    Sequence* find(const SequenceKey& key) const;             // null if there is none
    std::vector<SequenceKey> group(RequestId request) const;  // sequences of every attempt
    // Makes one that is to be added or dropped.
    template <typename... Arguments>
    Sequence& make(Arguments&&... arguments) {
        return memory_.make(std::forward<Arguments>(arguments)...);
    }
    void drop(Sequence& sequence) { memory_.drop(sequence); }
    Sequence& add(Sequence& sequence);  // its key is new
    void erase(SequenceKey key);        // it is here
    bool has(RequestId request) const;  // says so for any attempt
    bool empty() const { return entries_.empty(); }
    std::size_t size() const { return entries_.size(); }
    // Rises whenever a sequence comes or goes: what find() returned is right until then.
    std::uint64_t changes() const { return changes_; }
    auto begin() const { return entries_.begin(); }
    auto end() const { return entries_.end(); }

  private:
    base::Slab<Sequence> memory_;
    std::vector<Entry> entries_;
    base::IdMap<Sequence*> only_;  // by request; null where it has several
    std::uint64_t changes_ = 0;
};

// BufferUses has the received frames of activations, each with the number of inputs that still need
// it.
class BufferUses {
  public:
    void add(std::uint64_t buffer, std::int64_t uses);
    bool release(std::uint64_t buffer);  // it is in use; true if that was its last use
    bool contains(std::uint64_t buffer) const;
    bool empty() const { return uses_.empty(); }

  private:
    struct Use {
        std::uint64_t buffer = 0;
        std::int64_t count = 0;
    };
    std::vector<Use> uses_;  // by rising buffer
};

// ReadyList has the sequences that have rows to run, by the turn of their oldest rows. A sequence
// is in one list exactly while it has pending rows and is not in a batch.
class ReadyList {
  public:
    struct Entry {
        Turn turn;
        Sequence* sequence = nullptr;
    };
    void add(Sequence& sequence);
    void remove(const Sequence& sequence);  // it is in the list, with the same oldest rows
    // Drops the count entries that went into a batch; they are among the first.
    void drop_batched(std::size_t count);
    const std::vector<Entry>& entries() const { return entries_; }

  private:
    std::vector<Entry> entries_;
};

// RunningChunk is a part of the batch under way. Its sequence stays until the batch has finished.
struct RunningChunk {
    Sequence* sequence = nullptr;
    std::int32_t first_position = 0;
    std::int32_t count = 0;
    std::int32_t output_row = -1;
    bool sample = false;
    std::int32_t drafts = 0;
    std::int32_t draws = 1;
    std::size_t scored = 0;  // tokens of the prompt
    bool pools = false;
};
struct RunningBatch {
    std::uint64_t id = 0;
    std::vector<RunningChunk> chunks;
    std::vector<SequenceKey> moved;  // swapped in or out in it
    // Rows of decodes and of prompts. Each counts as the share of the worker's layers that it runs.
    double decode_rows = 0;
    double prefill_rows = 0;
};

// AttemptTimes is what a worker has done so far for an attempt that is timed.
struct AttemptTimes {
    std::int64_t batches = 0;
    std::int64_t rows = 0;
    Duration busy;
    TimePoint first;             // the first batch began
    TimePoint last;              // the last one ended
    std::uint64_t in_batch = 0;  // the last one's number
};

// Refusal says why a sequence cannot begin or go on here. Without a reason nobody needs to be told.
struct Refusal {
    bool refused = false;
    StuckCause cause = StuckCause::failed;
    std::string reason;
};

// StageOutputs has the inputs for each next stage, by rising worker.
using StageOutputs = std::vector<std::pair<WorkerId, StageInputs>>;

struct Worker::Impl {
    // What most steps touch comes first and lies together (Worker::prefetch).
    WorkerId self;
    bool ready = false;      // layers loaded
    bool any_stuck = false;  // since the last report one was stuck, perhaps
    std::int32_t pipeline_groups = 1;
    double prefill_share = spec::ServingPolicy().prefill_share;
    LayerRange layers;
    TimePoint now;                           // of the step
    std::optional<RunningBatch> running;     // the batch under way
    std::vector<RunningChunk> spare_chunks;  // memory of an earlier batch
    StageOutputs spare_outputs;
    std::vector<Sequence*> spare_found;  // and of an earlier message
    ReadyList ready_decodes;
    ReadyList ready_prefills;
    BufferUses buffer_uses;
    SequenceTable sequences;
    std::int64_t n_past_prompt = 0;  // sequences past their prompt, with rows here now or not
    std::int64_t n_ending = 0;       // sequences that go when the batch has finished
    std::int64_t waiting_rows = 0;   // of all sequences' pending
    std::uint64_t next_batch = kFirstBatch;
    std::uint64_t next_arrival = 0;
    std::uint64_t round = 0;  // the round of the rows that ran last
    TimePoint last_report;
    std::int64_t batches_done = 0;
    std::int64_t rows_done = 0;
    std::int64_t busy_total_ns = 0;
    BatchCosts costs;                // of the layers held now
    BatchLoad load;                  // and what they have to do
    Duration last_prompts;           // what the last batch with prompt rows took
    std::int64_t since_shared = 0;   // batches since one had decodes and prompt rows
    std::int64_t since_alone = 0;    // batches since one had prompt rows only
    std::int64_t since_decodes = 0;  // batches since one had decodes only
    double prompts_turn_s = 0;       // prompt rows go before decodes for this long
    RoundTrip round_trip;
    TimePoint wake_at;  // the wake-up that was asked for
    WorkerConfig config;
    KvBlockPool pool;
    std::vector<PageSwap> leaving;                   // to be swapped out by the next batch,
    std::vector<SequenceKey> leavers;                // and whose pages they are
    std::vector<SwapSequences> swaps_deferred;       // until the batch under way has finished
    std::deque<std::vector<SequenceKey>> returning;  // groups to swap in, oldest first
    std::optional<AssignLayers> deferred;            // came while a batch ran, or KV moved

    std::optional<AssignLayers> loading;  // LoadLayers is under way; less often touched
    std::uint64_t epoch = 0;              // of the newest assignment taken up
    base::SharedValue<RememberedPlacement> placement;  // of that one
    std::map<WorkerId, std::string> unreached;         // peers, and where they were looked for
    std::string kv_format;                             // of its pages
    double kv_page_bytes = 0;
    double kv_bytes_per_s = 0;
    PrefixCache prefixes;
    KvBlockPool host_pages;              // for swapped sequences
    std::deque<SequenceKey> tombstones;  // freed lately: late rows for them are dropped
    std::set<SequenceKey> tombstone_set;
    // The next round of each request that has several sequences.
    std::map<RequestId, std::uint64_t> group_rounds;
    // By member 0, of the attempts that are timed and had a batch. Mostly there is none.
    std::map<SequenceKey, AttemptTimes> timed;

    // These are for times without a coordinator (core/worker/holding.cc).
    // Assignments up to this one were of earlier coordinators, who hear no answer any more.
    std::uint64_t epoch_before = 0;
    std::optional<TimePoint> alone_since;       // no coordinator is there
    std::map<WorkerId, TimePoint> links_broke;  // the last time, by peer
    void on(const CoordinatorLost& event, std::vector<WorkerAction>& actions);
    void on(const CoordinatorFound& event, std::vector<WorkerAction>& actions);
    void give_up_waiting(std::vector<WorkerAction>& actions);
    // Says whether a link to a stage beside ours broke since the sequence began.
    bool may_lack_rows(const Sequence& sequence) const;
    // Remembers the tokens as drawn here, as far back as a coordinator may have to ask for them.
    static void note_tokens(Sequence& sequence, std::span<const ProducedToken> tokens);
    Holding holding() const;

    void on(const WorkerTick& event, std::vector<WorkerAction>& actions);
    void on(const MessageArrived& event, std::vector<WorkerAction>& actions);
    void on_assign(const AssignLayers& message, std::vector<WorkerAction>& actions);
    void on_inputs(const StageInputs& message, std::vector<WorkerAction>& actions);
    void on_free(const FreeSequences& message, std::vector<WorkerAction>& actions);
    LayersReady layers_ready() const;
    void on(const LayersLoaded& event, std::vector<WorkerAction>& actions);
    void on(const LayersNotLoaded& event, std::vector<WorkerAction>& actions);
    void on(const BatchFinished& event, std::vector<WorkerAction>& actions);
    void note_left(Sequence& sequence, std::uint64_t batch);
    void end_with_reason(Sequence& sequence, StuckCause cause, const std::string& reason,
                         std::vector<WorkerAction>& actions);
    void on(const BatchFailed& event, std::vector<WorkerAction>& actions);

    // These are for live migration (core/worker/migration.cc).
    std::map<SequenceKey, KvParcel> parcels;  // by member 0 of their attempts
    std::vector<KvExport> exports;            // under way: held ones, and one other
    std::vector<KvImport> imports;            // under way
    std::uint64_t next_transfer = 1;
    bool moves_kv() const {
        return !imports.empty() ||
               std::any_of(exports.begin(), exports.end(),
                           [](const KvExport& one) { return one.transfer != 0; });
    }
    bool changes_layers(const AssignLayers& message) const {
        return !ready || message.layers != layers;
    }
    // New layers are waiting for transfers to end, so no more of these begin.
    bool layers_will_change() const { return deferred && changes_layers(*deferred); }
    void reserve_kv(const ReserveKv& message, std::vector<WorkerAction>& actions);
    void send_kv(const SendKv& message, std::vector<WorkerAction>& actions);
    void receive_kv(const KvBlocks& message, std::vector<WorkerAction>& actions);
    std::string cannot_reserve(const ReserveKv& message) const;
    std::string cannot_send(const SendKv& message) const;
    std::string cannot_send(const SendKv& message, const KvSpan& span) const;
    void share_kv(const SendKv& message, std::vector<WorkerAction>& actions);
    void export_kv(const SendKv& message, std::vector<WorkerAction>& actions);
    void start_exports(std::vector<WorkerAction>& actions);
    std::string import_kv(const KvBlocks& message, std::vector<WorkerAction>& actions);
    void note_written(KvParcel& parcel, const KvImport& import,
                      std::vector<WorkerAction>& actions) const;
    // The sequence takes over the KV that waits for it; false if that is not all that it needs.
    bool adopt(Sequence& sequence);
    void free_parcel(const SequenceKey& key);
    void drop_older_parcels(const SequenceKey& key);
    void drop_orphans(std::vector<WorkerAction>& actions);
    void drop_all_parcels();
    template <typename Predicate>
    void drop_exports(Predicate drop) {  // drops exports that wait
        std::erase_if(exports, [&](const KvExport& one) {
            if (one.transfer != 0 || !drop(one)) return false;
            pool.release(one.pages);
            return true;
        });
    }
    void on(const KvExported& event, std::vector<WorkerAction>& actions);
    void on(const KvImported& event, std::vector<WorkerAction>& actions);
    void on(const PeerBroken& event, std::vector<WorkerAction>& actions);
    void tell_unreached(std::vector<WorkerAction>& actions) const;

    void assign(const AssignLayers& message, std::vector<WorkerAction>& actions);
    void assign_deferred(std::vector<WorkerAction>& actions);
    void start_loading(const AssignLayers& message, std::vector<WorkerAction>& actions);
    // found is the input's sequence; null if there is none.
    void accept(const StageInput& input, Sequence* found, std::vector<WorkerAction>& actions);
    // Creates the sequence of its first rows, or says why not.
    Refusal begin(const StageInput& input, std::vector<WorkerAction>& actions);
    Refusal admit(const StageInput& input, std::vector<WorkerAction>& actions);
    // Makes a member of the parent's group that begins with its first tokens.
    Refusal fork(const SequenceKey& parent, const SequenceKey& child, std::int32_t tokens);
    void on_fork(const ForkSequences& message, std::vector<WorkerAction>& actions);
    // The sequence goes back to this many rows; those behind were wrong drafts.
    void roll_back(Sequence& sequence, std::int32_t rows);
    Turn next_turn(const Sequence& sequence);  // the turn of rows that come now
    void refuse(const SequenceKey& key, const Refusal& refusal, std::vector<WorkerAction>& actions);
    void note_past_prompt(Sequence& sequence) {
        const bool past = sequence.computed >= sequence.prompt_tokens;
        if (sequence.past_prompt == past) return;
        sequence.past_prompt = past;
        n_past_prompt += past ? 1 : -1;
    }
    // Returns what is wrong with the pages that the sequence is to begin with.
    Refusal find_pages(Sequence& sequence);
    // Begins the sequence with the blocks of its start's cached tokens, if all of them are kept.
    bool share_prefix(Sequence& sequence);
    // Keeps the blocks that were filled.
    void keep_prefix(Sequence& sequence);
    // Gives back what no row of the sequence will attend to.
    void give_back_needless(Sequence& sequence);
    // Returns the window that a sequence's table is to know; null: its pages are all kept.
    const spec::AttentionWindow* window_of(const SequenceStart& start) const {
        const bool kept = start.forks || config.prompts_first || !config.window.any();
        return kept ? nullptr : &config.window;
    }
    // Makes this many pages ready to allocate. As many must be free.
    void make_room(std::int64_t pages) { prefixes.make_room(pages, pool); }
    void on_swap(const SwapSequences& message, std::vector<WorkerAction>& actions);
    void swap(const SwapSequences& message, std::vector<WorkerAction>& actions);
    void swap_out(const std::vector<Sequence*>& group, std::vector<WorkerAction>& actions);
    // Returns the live sequences of these keys that are swapped, or those that are not.
    std::vector<Sequence*> live(const std::vector<SequenceKey>& keys, bool swapped) const;
    // Puts what is to be swapped into the plan: what goes out, or else what comes back as far as
    // there is room.
    void plan_swaps(BatchPlan& plan, RunningBatch& batch, std::vector<WorkerAction>& actions);
    bool swap_in(const std::vector<Sequence*>& group, BatchPlan& plan);
    // If `one` waits to be swapped in with its group, `other` waits with them.
    void return_with(const SequenceKey& one, const SequenceKey& other);
    void report_stuck(Sequence& sequence, const char* reason, std::vector<WorkerAction>& actions);
    void free_sequence(const SequenceKey& key, std::vector<WorkerAction>& actions);
    void erase_sequence(Sequence& sequence, std::vector<WorkerAction>& actions);
    void drop_everything(std::vector<WorkerAction>& actions);
    void bury(const SequenceKey& key);
    void release_use(std::uint64_t buffer, std::vector<WorkerAction>& actions);

    ReadyList& ready_list(const Sequence& sequence) {
        return sequence.is_decode(sequence.pending.front()) ? ready_decodes : ready_prefills;
    }
    // Returns the part of this worker's layers that the sequence runs.
    double layer_share(const Sequence& sequence) const {
        return static_cast<double>(sequence.layers.size()) / static_cast<double>(layers.size());
    }
    void finish_chunk(const RunningBatch& batch, const RunningChunk& chunk, StageOutputs& outputs);
    // Keeps what was pooled for the sequence's next rows, or says its embedding.
    static void take_pooled(const RunningChunk& chunk, const PooledRows& rows,
                            TokensProduced& produced);
    void close_batch(const RunningBatch& batch, std::vector<WorkerAction>& actions);
    void run_next_batch(std::vector<WorkerAction>& actions);
    void note_cost(const RunningBatch& batch, Duration took);
    void note_times(const RunningBatch& batch, const RunningChunk& chunk, Duration took);
    void end_after_batch(Sequence& sequence) {  // it is in the batch
        n_ending += sequence.ending ? 0 : 1;
        sequence.ending = true;
    }
    // An attempt's sequence is gone: tells its times if that was the last one.
    void tell_times(const SequenceKey& gone, std::vector<WorkerAction>& actions);
    void report(std::vector<WorkerAction>& actions);
};

// Fills plan, and batch beside it, with the rows that run next and takes pages for them; chunks
// stay empty when nothing can. Adds a SequenceStuck for each sequence whose next row finds no page
// and whose coordinator does not know yet.
void schedule_batch(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                    std::vector<WorkerAction>& actions);

}  // namespace helix::core

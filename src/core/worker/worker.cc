#include "core/worker/worker.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/overloaded.h"
#include "base/planted_bug.h"
#include "core/worker/worker_state.h"

namespace helix::core {

using base::planted;
using base::PlantedBug;

namespace {

// Returns the inputs that go to this worker.
std::vector<StageInput>& inputs_for(WorkerId worker, StageOutputs& outputs) {
    auto at = outputs.end();
    while (at != outputs.begin() && (at - 1)->first > worker) --at;
    if (at != outputs.begin() && (at - 1)->first == worker) return (at - 1)->second.inputs;
    return outputs.insert(at, {worker, {}})->second.inputs;
}

// Returns how many of the tokens, from the first on, belong to the chunk.
std::size_t tokens_of(const RunningChunk& chunk, std::span<const ProducedToken> tokens) {
    const bool drafted = chunk.drafts > 0;
    const auto most = static_cast<std::size_t>(drafted ? chunk.drafts + 1 : chunk.draws);
    SequenceKey key = chunk.sequence->key;
    std::size_t count = 0;
    for (; count < most && count < tokens.size(); ++count) {
        if (chunk.draws > 1) key.member = static_cast<std::uint32_t>(count);
        if (tokens[count].key != key) break;
    }
    CHECK(drafted ? count >= 1 : count == most);
    return count;
}

void append(std::vector<ProducedToken>& to, std::span<const ProducedToken> from) {
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Worker::Worker(WorkerId self, const WorkerConfig& config) : impl_(std::make_unique<Impl>()) {
    CHECK(config.block_size > 0);
    CHECK(config.n_layers > 0);
    CHECK(config.max_batch_rows > 0 && config.mixed_prefill_rows > 0 && config.max_batch_seqs > 0);
    if (config.prompts_first) {
        CHECK(config.prompts_first->max_batched_tokens > 0 && config.prompts_first->max_seqs > 0);
        CHECK(config.prompts_first->delay_factor >= 0);
    }
    CHECK(!config.whole_prompts || !config.prefix_cache);
    impl_->self = self;
    impl_->config = config;
}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

void Worker::step(TimePoint now, const WorkerEvent& event, std::vector<WorkerAction>& actions) {
    Impl& state = *impl_;
    state.now = now;
    std::visit([&](const auto& one) { state.on(one, actions); }, event);
    state.run_next_batch(actions);
}

void Worker::prefetch() const {
    base::prefetch_up_to(impl_.get(), &impl_->loading);
}

void Worker::prefetch(const StageInputs& coming, int step) const {
    for (const StageInput& input : coming.inputs) {
        if (step == 1) base::prefetch<sizeof(StageInput)>(&input);
        if (step == 2) impl_->sequences.prefetch_place(input.key);
        if (step == 3) impl_->sequences.prefetch(input.key);
    }
}

void Worker::prefetch_batch(int step) const {
    if (step == 1) return prefetch();
    if (!impl_->running) return;
    for (const RunningChunk& chunk : impl_->running->chunks) {
        if (step == 2) base::prefetch<sizeof(RunningChunk)>(&chunk);
        if (step == 3) chunk.sequence->prefetch();
    }
}

Holding Worker::holding() const {
    return impl_->holding();
}

// ---- messages
// -------------------------------------------------------------------------------------

void Worker::Impl::on(const WorkerTick&, std::vector<WorkerAction>& actions) {
    drop_orphans(actions);
    give_up_waiting(actions);
    if (now - last_report >= config.report_interval) report(actions);
}

void Worker::Impl::on(const MessageArrived& event, std::vector<WorkerAction>& actions) {
    std::visit(base::Overloaded{
                   [&](const AssignLayers& message) { on_assign(message, actions); },
                   [&](const StageInputs& message) { on_inputs(message, actions); },
                   [&](const FreeSequences& message) { on_free(message, actions); },
                   [&](const ForkSequences& message) { on_fork(message, actions); },
                   [&](const SwapSequences& message) { on_swap(message, actions); },
                   [&](const ReserveKv& message) { reserve_kv(message, actions); },
                   [&](const SendKv& message) { send_kv(message, actions); },
                   [&](const KvBlocks& message) { receive_kv(message, actions); },
               },
               event.message);
}

void Worker::Impl::on_assign(const AssignLayers& message, std::vector<WorkerAction>& actions) {
    if (message.model != config.model) {
        actions.push_back(SendToCoordinator{LayersFailed{
            message.epoch, "assigned layers of model " + std::to_string(message.model.value) +
                               ", but it serves model " + std::to_string(config.model.value)}});
    } else if (running || (moves_kv() && changes_layers(message))) {
        if (!deferred || deferred->epoch < message.epoch) deferred = message;
    } else {
        assign(message, actions);
    }
}

void Worker::Impl::on_inputs(const StageInputs& message, std::vector<WorkerAction>& actions) {
    const std::vector<StageInput>& inputs = message.inputs;
    std::vector<Sequence*> found = std::move(spare_found);
    sequences.find_all(inputs, found);
    for (std::size_t i = 0; i < inputs.size();) {  // mostly all are of one frame
        const std::uint64_t buffer = inputs[i].payload.buffer;
        std::int64_t uses = 0;
        for (; i < inputs.size() && inputs[i].payload.buffer == buffer; ++i) ++uses;
        if (buffer != 0) buffer_uses.add(buffer, uses);
    }
    const std::uint64_t changes = sequences.changes();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const bool same = sequences.changes() == changes;
        accept(inputs[i], same ? found[i] : sequences.find(inputs[i].key), actions);
    }
    spare_found = std::move(found);
}

void Worker::Impl::on_free(const FreeSequences& message, std::vector<WorkerAction>& actions) {
    if (planted(PlantedBug::free_ignored)) return;
    for (const SequenceKey& key : message.keys) {
        bury(key);
        free_sequence(key, actions);
        free_parcel(key);
    }
}

void Worker::Impl::assign(const AssignLayers& message, std::vector<WorkerAction>& actions) {
    // An assignment that was repeated or delayed changes nothing: its layers are being loaded, or
    // were.
    if (message.epoch < epoch || (loading && message.epoch == epoch)) return;
    epoch = message.epoch;
    placement = message.placement;
    pipeline_groups = message.pipeline_groups;
    prefill_share = message.prefill_share;
    actions.push_back(ConnectPeers{message.peers});
    if (loading) {  // the answer to the older LoadLayers will be ignored; ask again
        start_loading(message, actions);
        return;
    }
    if (ready && message.layers == layers) {
        actions.push_back(SendToCoordinator{layers_ready()});
        return;
    }
    start_loading(message, actions);
}

void Worker::Impl::assign_deferred(std::vector<WorkerAction>& actions) {
    if (!deferred || running || (moves_kv() && changes_layers(*deferred))) return;
    const AssignLayers message = std::move(*deferred);
    deferred.reset();
    assign(message, actions);
}

void Worker::Impl::start_loading(const AssignLayers& message, std::vector<WorkerAction>& actions) {
    drop_everything(actions);
    ready = false;
    layers = message.layers;
    pool = KvBlockPool();
    host_pages = KvBlockPool();
    costs = {};
    load = {};
    last_prompts = {};
    loading = message;
    actions.push_back(LoadLayers{message.epoch, message.layers});
}

void Worker::Impl::on(const LayersLoaded& event, std::vector<WorkerAction>& actions) {
    if (!loading || loading->epoch != event.epoch) return;
    loading.reset();
    ready = true;
    pool = KvBlockPool(event.total_pages);
    host_pages = KvBlockPool(event.swap_pages);
    kv_format = event.kv_format;
    kv_page_bytes = event.kv_page_bytes;
    kv_bytes_per_s = event.kv_bytes_per_s;
    const bool asked = event.epoch > epoch_before || planted(PlantedBug::old_assignment_answered);
    if (asked) actions.push_back(SendToCoordinator{layers_ready()});
}

LayersReady Worker::Impl::layers_ready() const {
    return {epoch,     layers,        pool.total(),  host_pages.total(),
            kv_format, kv_page_bytes, kv_bytes_per_s};
}

void Worker::Impl::on(const LayersNotLoaded& event, std::vector<WorkerAction>& actions) {
    if (!loading || loading->epoch != event.epoch) return;
    loading.reset();
    layers = {};
    if (event.epoch <= epoch_before) return;
    actions.push_back(SendToCoordinator{LayersFailed{event.epoch, event.reason}});
}

// ---- batches
// --------------------------------------------------------------------------------------

void Worker::Impl::run_next_batch(std::vector<WorkerAction>& actions) {
    if (running || !ready) return;
    if (ready_decodes.entries().empty() && ready_prefills.entries().empty() && leaving.empty() &&
        returning.empty()) {
        return;
    }
    BatchPlan plan;
    RunningBatch batch;
    batch.chunks = std::move(spare_chunks);
    batch.chunks.clear();
    plan_swaps(plan, batch, actions);
    schedule_batch(*this, plan, batch, actions);
    if (plan.chunks.empty() && plan.swap_out.empty() && plan.swap_in.empty()) {
        spare_chunks = std::move(batch.chunks);
        return;
    }
    plan.id = batch.id = next_batch++;
    running = std::move(batch);
    actions.push_back(RunBatch{std::move(plan)});
}

void Worker::Impl::on(const BatchFinished& event, std::vector<WorkerAction>& actions) {
    CHECK(running && running->id == event.id);
    RunningBatch batch = std::move(*running);
    running.reset();
    ++batches_done;
    busy_total_ns += event.took.ns;
    note_cost(batch, event.took);

    for (const RunningChunk& chunk : batch.chunks) chunk.sequence->prefetch();
    StageOutputs outputs = std::move(spare_outputs);
    TokensProduced produced;
    produced.tokens.reserve(event.tokens.size());
    std::span<const ProducedToken> tokens = event.tokens;
    std::span<const ProducedToken> scored = event.scored;
    std::span<const PooledRows> pooled = event.pooled;
    for (const RunningChunk& chunk : batch.chunks) {
        rows_done += chunk.count;
        if (chunk.sequence->timed) note_times(batch, chunk, event.took);
        if (chunk.sample || chunk.scored > 0 || chunk.pools) {
            const bool draws = chunk.sample && !chunk.pools;
            const std::size_t count = draws ? tokens_of(chunk, tokens) : 0;
            CHECK(chunk.scored <= scored.size() && (!chunk.pools || !pooled.empty()));
            const auto failed =
                std::find_if(event.failed.begin(), event.failed.end(),
                             [&](const auto& f) { return f.key == chunk.sequence->key; });
            if (!chunk.sequence->ending && failed != event.failed.end()) {
                end_with_reason(*chunk.sequence, failed->cause, failed->reason, actions);
            } else if (!chunk.sequence->ending) {
                append(produced.tokens, tokens.first(count));
                if (config.coordinator_wait.ns > 0)
                    note_tokens(*chunk.sequence, tokens.first(count));
                append(produced.scored, scored.first(chunk.scored));
                if (chunk.pools) take_pooled(chunk, pooled.front(), produced);
                if (draws) note_left(*chunk.sequence, batch.id);
            }
            tokens = tokens.subspan(count);
            scored = scored.subspan(chunk.scored);
            pooled = pooled.subspan(chunk.pools ? 1 : 0);
        }
        finish_chunk(batch, chunk, outputs);
    }
    CHECK(tokens.empty() && scored.empty() && pooled.empty());

    if (!produced.empty()) actions.push_back(SendToCoordinator{std::move(produced)});
    for (auto& [peer, inputs] : outputs) actions.push_back(SendToPeer{peer, std::move(inputs)});
    outputs.clear();
    spare_outputs = std::move(outputs);
    close_batch(batch, actions);
    spare_chunks = std::move(batch.chunks);
}

void Worker::Impl::note_times(const RunningBatch& batch, const RunningChunk& chunk, Duration took) {
    const SequenceKey& key = chunk.sequence->key;
    AttemptTimes& times = timed[{key.request, key.attempt}];
    times.rows += chunk.count;
    if (times.in_batch == batch.id) return;  // another sequence of the attempt was in it
    if (times.batches == 0) times.first = now - took;
    times.in_batch = batch.id;
    ++times.batches;
    times.busy = times.busy + took;
    times.last = now;
}

void Worker::Impl::take_pooled(const RunningChunk& chunk, const PooledRows& rows,
                               TokensProduced& produced) {
    if (chunk.sample) {
        produced.embeddings.push_back({chunk.sequence->key, rows.embedding});
    } else {
        chunk.sequence->more().pooled = rows.so_far;
    }
}

void Worker::Impl::note_left(Sequence& sequence, std::uint64_t batch) {
    if (!sequence.is_only_stage()) return;
    sequence.away = true;
    sequence.away_in = batch;
    sequence.left = now;
    round_trip.leaves(batch, now);
}

void Worker::Impl::end_with_reason(Sequence& sequence, StuckCause cause, const std::string& reason,
                                   std::vector<WorkerAction>& actions) {
    actions.push_back(SendToCoordinator{SequenceStuck{sequence.key, cause, reason}});
    bury(sequence.key);
    end_after_batch(sequence);
}

void Worker::Impl::on(const BatchFailed& event, std::vector<WorkerAction>& actions) {
    CHECK(running && running->id == event.id);
    const RunningBatch batch = std::move(*running);
    running.reset();
    for (const RunningChunk& chunk : batch.chunks) {
        end_with_reason(*chunk.sequence, StuckCause::failed, event.reason, actions);
    }
    // Nobody knows what became of the pages of those that were being moved.
    for (const SequenceKey& key : batch.moved) {
        const Sequence* seq = sequences.find(key);
        if (seq == nullptr || seq->ending) continue;
        refuse(key, {true, StuckCause::failed, event.reason}, actions);
        free_sequence(key, actions);
    }
    close_batch(batch, actions);
}

// The batch's sequences are free to run again or to go, and what waited for the batch's end
// happens.
void Worker::Impl::close_batch(const RunningBatch& batch, std::vector<WorkerAction>& actions) {
    for (const RunningChunk& chunk : batch.chunks) {
        Sequence& seq = *chunk.sequence;
        seq.in_batch = false;
        if (seq.pending.front().tokens.empty()) {
            release_use(seq.pending.front().payload.buffer, actions);
            seq.pending.pop_front();
        }
        if (!seq.pending.empty()) ready_list(seq).add(seq);
        if (seq.ending) erase_sequence(seq, actions);
    }
    actions.push_back(ReleaseBuffer{batch.id});
    for (const SwapSequences& message : std::exchange(swaps_deferred, {})) swap(message, actions);
    assign_deferred(actions);
}

// Takes the chunk's rows off the sequence's oldest input and passes them on to the next stage.
void Worker::Impl::finish_chunk(const RunningBatch& batch, const RunningChunk& chunk,
                                StageOutputs& outputs) {
    Sequence& seq = *chunk.sequence;
    PendingRows& rows = seq.pending.front();
    CHECK(rows.first_position == chunk.first_position && seq.computed == chunk.first_position);
    RowTokens done;
    if (chunk.count == rows.size()) {
        done = std::exchange(rows.tokens, {});
    } else {
        done.assign(rows.tokens.begin(), rows.tokens.begin() + chunk.count);
        rows.tokens.erase_front(static_cast<std::size_t>(chunk.count));
    }
    rows.first_position += chunk.count;
    if (rows.payload.buffer != 0) {
        rows.payload.first_row += static_cast<std::uint32_t>(chunk.count);
        rows.payload.rows -= static_cast<std::uint32_t>(chunk.count);
    }
    seq.computed += chunk.count;
    waiting_rows -= chunk.count;
    note_past_prompt(seq);
    if (config.prefix_cache) keep_prefix(seq);
    give_back_needless(seq);
    if (seq.is_last_stage() || seq.ending) return;

    StageInput next;
    next.key = seq.key;
    next.first_position = chunk.first_position;
    next.tokens = std::move(done);
    next.sample = rows.sample && rows.tokens.empty();
    if (next.sample) {
        next.drafts = rows.drafts;
        next.draws = rows.draws;
    }
    if (chunk.first_position == seq.first_row) {
        next.parent = seq.forked_from;
        if (seq.forked_from < 0) next.start = seq.start;
    }
    next.payload = {batch.id, static_cast<std::uint32_t>(chunk.output_row),
                    static_cast<std::uint32_t>(chunk.count)};
    WorkerId to = seq.next;
    const Pipeline& pipeline = seq.start->pipeline;
    if (planted(PlantedBug::stage_skipped) && epoch > 1) to = pipeline.back().worker;
    std::vector<StageInput>& inputs = inputs_for(to, outputs);
    if (inputs.empty()) inputs.reserve(batch.chunks.size());
    inputs.push_back(std::move(next));
}

void Worker::Impl::report(std::vector<WorkerAction>& actions) {
    last_report = now;
    WorkerReport message;
    message.used_pages = pool.used();
    message.total_pages = pool.total();
    message.cached_pages = pool.cached_only();
    message.swapped_pages = host_pages.used();
    message.batches = batches_done;
    message.rows = rows_done;
    message.busy_ns = busy_total_ns;
    message.waiting_rows = waiting_rows;
    message.held.reserve(sequences.size());
    for (const auto& [key, seq] : sequences) {
        if (n_ending > 0 && seq->ending) {
            for (std::size_t i = 0; i < seq->pending.size(); ++i) {
                message.waiting_rows -= seq->pending.at(i).size();
            }
            continue;
        }
        message.held.push_back(key);
        // It is said again if it still holds: the coordinator may have been too busy.
        if (any_stuck) seq->stuck = false;
    }
    any_stuck = false;
    for (const auto& [key, parcel] : parcels) {
        // These are the members of the group that have not begun.
        std::vector<std::uint32_t> members{0};
        if (parcel.taken()) members = parcel.members();
        for (const std::uint32_t member : members) {
            message.held.push_back({key.request, key.attempt, member});
        }
    }
    actions.push_back(SendToCoordinator{std::move(message)});
    tell_unreached(actions);
}

}  // namespace helix::core

#include "core/worker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/worker_state.h"

namespace helix::core {
namespace {

constexpr std::size_t kMaxTombstones = 4096;

}  // namespace

Worker::Worker(WorkerId self, const WorkerConfig& config) : impl_(std::make_unique<Impl>()) {
    CHECK(config.block_size > 0);
    CHECK(config.n_layers > 0);
    CHECK(config.max_batch_rows > 0 && config.mixed_prefill_rows > 0 && config.max_batch_seqs > 0);
    impl_->self = self;
    impl_->config = config;
}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

void Worker::step(TimePoint now, const WorkerEvent& event, std::vector<WorkerAction>& actions) {
    Impl& state = *impl_;
    if (std::holds_alternative<WorkerTick>(event)) {
        if (now - state.last_report >= state.config.report_interval) state.report(now, actions);
    } else {
        std::visit(
            [&](const auto& e) {
                if constexpr (!std::is_same_v<std::decay_t<decltype(e)>, WorkerTick>) {
                    state.on(e, actions);
                }
            },
            event);
    }
    state.run_next_batch(actions);
}

// ---- messages
// -------------------------------------------------------------------------------------

void Worker::Impl::on(const MessageArrived& event, std::vector<WorkerAction>& actions) {
    if (const auto* message = std::get_if<AssignLayers>(&event.message)) {
        if (running) {
            deferred = *message;
        } else {
            assign(*message, actions);
        }
    } else if (const auto* inputs = std::get_if<StageInputs>(&event.message)) {
        for (const StageInput& input : inputs->inputs) {
            if (input.payload.buffer != 0) ++buffer_uses[input.payload.buffer];
        }
        for (const StageInput& input : inputs->inputs) accept(input, actions);
    } else {
        for (const SequenceKey& key : std::get<FreeSequences>(event.message).keys) {
            bury(key);
            free_sequence(key, actions);
        }
    }
}

void Worker::Impl::assign(const AssignLayers& message, std::vector<WorkerAction>& actions) {
    pipeline_groups = message.pipeline_groups;
    actions.push_back(ConnectPeers{message.peers});
    if (loading) {  // the answer to the older LoadLayers will be ignored; ask again
        start_loading(message, actions);
        return;
    }
    if (ready && message.layers == layers) {
        actions.push_back(
            SendToCoordinator{LayersReady{message.epoch, message.layers, pool.total()}});
        return;
    }
    start_loading(message, actions);
}

void Worker::Impl::start_loading(const AssignLayers& message, std::vector<WorkerAction>& actions) {
    drop_everything(actions);
    ready = false;
    layers = message.layers;
    pool = KvBlockPool();
    loading = message;
    actions.push_back(LoadLayers{message.epoch, message.layers});
}

void Worker::Impl::on(const LayersLoaded& event, std::vector<WorkerAction>& actions) {
    if (!loading || loading->epoch != event.epoch) return;
    loading.reset();
    ready = true;
    pool = KvBlockPool(event.total_pages);
    actions.push_back(SendToCoordinator{LayersReady{event.epoch, layers, event.total_pages}});
}

void Worker::Impl::on(const LayersNotLoaded& event, std::vector<WorkerAction>& actions) {
    if (!loading || loading->epoch != event.epoch) return;
    loading.reset();
    layers = {};
    actions.push_back(SendToCoordinator{LayersFailed{event.epoch, event.reason}});
}

// ---- sequences
// ------------------------------------------------------------------------------------

void Worker::Impl::accept(const StageInput& input, std::vector<WorkerAction>& actions) {
    const auto refuse = [&](const std::string& reason) {
        release_use(input.payload.buffer, actions);
        if (!reason.empty()) {
            bury(input.key);
            actions.push_back(SendToCoordinator{SequenceStuck{input.key, false, reason}});
        }
    };
    if (tombstone_set.contains(input.key)) return refuse("");
    if (input.first_position == 0 && !sequences.contains(input.key)) {
        const std::string reason = admit(input, actions);
        if (!reason.empty()) return refuse(reason);
    }
    const auto it = sequences.find(input.key);
    if (it == sequences.end() || it->second.ending) return refuse("");  // freed long ago
    Sequence& seq = it->second;
    if (input.first_position != static_cast<std::int32_t>(seq.tokens.size())) {
        return refuse("");  // a duplicate
    }
    const bool wants_rows = seq.layers.begin > 0;
    if (input.tokens.empty() || (wants_rows && input.payload.rows != input.tokens.size())) {
        free_sequence(input.key, actions);
        return refuse("input without its activations");
    }
    seq.tokens.insert(seq.tokens.end(), input.tokens.begin(), input.tokens.end());
    seq.pending.push_back(
        {input.first_position, input.tokens, input.sample, input.payload, next_arrival++});
}

std::string Worker::Impl::admit(const StageInput& input, std::vector<WorkerAction>& actions) {
    // A newer attempt replaces the older ones of its request; an older one comes too late.
    for (auto it = sequences.lower_bound({input.key.request, 0});
         it != sequences.end() && it->first.request == input.key.request;) {
        if (it->first.attempt > input.key.attempt) return "superseded by a newer attempt";
        const SequenceKey old = (it++)->first;
        free_sequence(old, actions);
    }
    if (!input.start) return "first rows came without the sequence's description";
    if (!ready) return "this worker holds no layers now";
    const Pipeline& pipeline = input.start->pipeline;
    const auto stage = std::find_if(pipeline.begin(), pipeline.end(),
                                    [&](const Stage& s) { return s.worker == self; });
    if (stage == pipeline.end()) return "this worker is not in the pipeline";
    if (stage->layers.empty() || !layers.contains(stage->layers)) {
        return "this worker does not hold the pipeline's layers";
    }
    sequences.emplace(std::piecewise_construct, std::forward_as_tuple(input.key),
                      std::forward_as_tuple(input.key, *input.start,
                                            static_cast<std::size_t>(stage - pipeline.begin()),
                                            config.block_size));
    return "";
}

void Worker::Impl::free_sequence(const SequenceKey& key, std::vector<WorkerAction>& actions) {
    const auto it = sequences.find(key);
    if (it == sequences.end()) return;
    if (it->second.in_batch) {
        it->second.ending = true;
    } else {
        erase_sequence(it, actions);
    }
}

void Worker::Impl::erase_sequence(std::map<SequenceKey, Sequence>::iterator it,
                                  std::vector<WorkerAction>& actions) {
    CHECK(!it->second.in_batch);
    for (const PendingRows& rows : it->second.pending) release_use(rows.payload.buffer, actions);
    it->second.table.release_all(pool);
    sequences.erase(it);
}

void Worker::Impl::drop_everything(std::vector<WorkerAction>& actions) {
    CHECK(!running);
    while (!sequences.empty()) {
        bury(sequences.begin()->first);
        erase_sequence(sequences.begin(), actions);
    }
    CHECK(pool.used() == 0);
}

void Worker::Impl::bury(const SequenceKey& key) {
    if (!tombstone_set.insert(key).second) return;
    tombstones.push_back(key);
    if (tombstones.size() > kMaxTombstones) {
        tombstone_set.erase(tombstones.front());
        tombstones.pop_front();
    }
}

void Worker::Impl::release_use(std::uint64_t buffer, std::vector<WorkerAction>& actions) {
    if (buffer == 0) return;
    const auto it = buffer_uses.find(buffer);
    CHECK(it != buffer_uses.end());
    if (--it->second > 0) return;
    buffer_uses.erase(it);
    actions.push_back(ReleaseBuffer{buffer});
}

// ---- batches
// --------------------------------------------------------------------------------------

void Worker::Impl::run_next_batch(std::vector<WorkerAction>& actions) {
    if (running || !ready) return;
    BatchPlan plan;
    schedule_batch(*this, plan, actions);
    if (plan.chunks.empty()) return;
    plan.id = next_batch++;
    running = plan;
    actions.push_back(RunBatch{std::move(plan)});
}

void Worker::Impl::on(const BatchFinished& event, std::vector<WorkerAction>& actions) {
    CHECK(running && running->id == event.id);
    const BatchPlan plan = std::move(*running);
    running.reset();
    ++batches_done;
    busy_total_ns += event.took.ns;

    std::map<WorkerId, StageInputs> outputs;
    TokensProduced produced;
    std::size_t next_token = 0;
    for (const BatchChunk& chunk : plan.chunks) {
        rows_done += static_cast<std::int64_t>(chunk.tokens.size());
        const Sequence& seq = sequences.at(chunk.key);
        if (chunk.sample) {
            CHECK(next_token < event.tokens.size());
            const ProducedToken& token = event.tokens[next_token++];
            CHECK(token.key == chunk.key);
            if (!seq.ending) produced.tokens.push_back(token);
        }
        finish_chunk(plan.id, chunk, outputs);
    }
    CHECK(next_token == event.tokens.size());

    if (!produced.tokens.empty()) actions.push_back(SendToCoordinator{std::move(produced)});
    for (auto& [peer, inputs] : outputs) actions.push_back(SendToPeer{peer, std::move(inputs)});
    close_batch(plan, actions);
}

void Worker::Impl::on(const BatchFailed& event, std::vector<WorkerAction>& actions) {
    CHECK(running && running->id == event.id);
    const BatchPlan plan = std::move(*running);
    running.reset();
    for (const BatchChunk& chunk : plan.chunks) {
        actions.push_back(SendToCoordinator{SequenceStuck{chunk.key, false, event.reason}});
        bury(chunk.key);
        sequences.at(chunk.key).ending = true;
    }
    close_batch(plan, actions);
}

// The batch's sequences are free to run again or to go; what waited for its end happens.
void Worker::Impl::close_batch(const BatchPlan& plan, std::vector<WorkerAction>& actions) {
    for (const BatchChunk& chunk : plan.chunks) {
        const auto it = sequences.find(chunk.key);
        it->second.in_batch = false;
        if (it->second.pending.front().tokens.empty()) {
            release_use(it->second.pending.front().payload.buffer, actions);
            it->second.pending.pop_front();
        }
        if (it->second.ending) erase_sequence(it, actions);
    }
    actions.push_back(ReleaseBuffer{plan.id});
    if (deferred) {
        const AssignLayers message = std::move(*deferred);
        deferred.reset();
        assign(message, actions);
    }
}

// Takes the chunk's rows off the sequence's oldest input and passes them on to the next stage.
void Worker::Impl::finish_chunk(std::uint64_t batch, const BatchChunk& chunk,
                                std::map<WorkerId, StageInputs>& outputs) {
    Sequence& seq = sequences.at(chunk.key);
    const auto count = static_cast<std::int32_t>(chunk.tokens.size());
    PendingRows& rows = seq.pending.front();
    CHECK(rows.first_position == chunk.first_position && seq.computed == chunk.first_position);
    rows.tokens.erase(rows.tokens.begin(), rows.tokens.begin() + count);
    rows.first_position += count;
    if (rows.payload.buffer != 0) {
        rows.payload.first_row += static_cast<std::uint32_t>(count);
        rows.payload.rows -= static_cast<std::uint32_t>(count);
    }
    seq.computed += count;
    if (seq.is_last_stage() || seq.ending) return;

    StageInput next;
    next.key = chunk.key;
    next.first_position = chunk.first_position;
    next.tokens = chunk.tokens;
    next.sample = rows.sample && rows.tokens.empty();
    if (chunk.first_position == 0) next.start = seq.start;
    next.payload = {batch, static_cast<std::uint32_t>(chunk.output_row),
                    static_cast<std::uint32_t>(count)};
    outputs[seq.start.pipeline[seq.stage + 1].worker].inputs.push_back(std::move(next));
}

void Worker::Impl::report(TimePoint now, std::vector<WorkerAction>& actions) {
    last_report = now;
    WorkerReport message;
    message.used_pages = pool.used();
    message.total_pages = pool.total();
    message.batches = batches_done;
    message.rows = rows_done;
    message.busy_ns = busy_total_ns;
    for (auto& [key, seq] : sequences) {
        if (seq.ending) continue;
        message.held.push_back(key);
        seq.stuck = false;  // said again if it still holds: the coordinator may have been too busy
        for (const PendingRows& pending : seq.pending) {
            message.waiting_rows += static_cast<std::int64_t>(pending.tokens.size());
        }
    }
    actions.push_back(SendToCoordinator{std::move(message)});
}

}  // namespace helix::core

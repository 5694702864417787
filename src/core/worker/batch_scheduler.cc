// This file chooses the rows that run next. A batch is formed anew for every run of the engine
// (iteration-level batching), with decodes before prompts, high priority first, then by arrival; or
// in vLLM's order (core/batch/prompts_first.h).

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/batch/batch_limits.h"
#include "core/batch/prompts_first.h"
#include "core/kv/admission.h"
#include "core/worker/worker_state.h"

namespace helix::core {
namespace {

constexpr std::int64_t kTryOther = 200;  // batches

class BatchBuilder {
  public:
    BatchBuilder(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                 std::vector<WorkerAction>& actions)
        : state_(state), plan_(plan), batch_(batch), actions_(actions) {}

    bool full() const {
        return static_cast<std::int32_t>(plan_.chunks.size()) >= state_.config.max_batch_seqs;
    }
    // Nothing new begins while others give way or wait to come back.
    bool swapping() const { return !plan_.swap_out.empty() || !state_.returning.empty(); }
    // Only the first rows of a new sequence leave the watermark's pages free.
    static bool starts(const Sequence& seq) {
        return seq.is_new() && !seq.is_decode(seq.pending.front());
    }

    // Adds up to max_rows rows of the sequence's oldest input; returns how many.
    std::int32_t add(Sequence& seq, std::int32_t max_rows) {
        const PendingRows& rows = seq.pending.front();
        if (starts(seq) && swapping()) return 0;
        if (state_.config.whole_prompts && !seq.is_decode(rows)) return add_whole(seq, max_rows);
        std::int32_t count = rows.up_to(max_rows);
        // A draft that is longer than any batch takes goes alone.
        if (count == 0 && plan_.chunks.empty()) count = rows.up_to(rows.size());
        if (count == 0) return 0;
        if (!fits(seq, count)) {
            const std::int64_t end =
                seq.table.writable_with(room_for(seq), seq.computed, state_.pool);
            count = rows.up_to(std::min<std::int64_t>(count, end - seq.computed));
        }
        if (count <= 0) {
            state_.report_stuck(seq, "no free KV page", actions_);
            return 0;
        }
        take(seq, count);
        return count;
    }
    // Adds all rows of the sequence's oldest input. Where they are more than max_rows, they are the
    // batch's only prompt.
    std::int32_t add_whole(Sequence& seq, std::int32_t max_rows) {
        const std::int32_t count = seq.pending.front().size();
        if (count > max_rows && has_whole_prompt_) return 0;
        if (!fits(seq, count)) {
            state_.report_stuck(seq, "no free KV pages for the whole prompt", actions_);
            return 0;
        }
        take(seq, count);
        has_whole_prompt_ = true;
        return count;
    }
    // Adds so many rows of the sequence's oldest input, for which there are pages.
    void take(Sequence& seq, std::int32_t count) {
        const PendingRows& rows = seq.pending.front();
        state_.make_room(seq.table.pages_to_write(seq.computed, seq.computed + count, state_.pool));
        seq.table.make_writable(seq.computed, seq.computed + count, state_.pool, plan_.copies);
        seq.stuck = false;
        seq.in_batch = true;
        state_.round = std::max(state_.round, rows.turn.round);
        BatchChunk& chunk = plan_.chunks.emplace_back();
        fill(chunk, seq, rows, count);
        batch_.chunks.push_back({&seq, chunk.first_position, count, chunk.output_row, chunk.sample,
                                 chunk.drafts, chunk.draws, chunk.scored.size(),
                                 chunk.pooling != spec::Pooling::none});
    }

  private:
    bool fits(const Sequence& seq, std::int32_t count) const {
        const KvBlockPool& pool = state_.pool;
        const std::int64_t needed =
            seq.table.pages_to_write(seq.computed, seq.computed + count, pool);
        if (!starts(seq)) return can_append(needed, pool.free_pages());
        return can_allocate(needed, pool.free_pages(), pool.total()) == KvRoom::ok;
    }
    std::int64_t room_for(const Sequence& seq) const {
        const std::int64_t kept = starts(seq) ? kv_watermark(state_.pool.total()) : 0;
        return state_.pool.free_pages() - kept;
    }

    void fill(BatchChunk& chunk, Sequence& seq, const PendingRows& rows, std::int32_t count) {
        chunk.key = seq.key;
        chunk.layers = seq.layers;
        chunk.first_position = rows.first_position;
        chunk.tokens.assign(rows.tokens.begin(), rows.tokens.begin() + count);
        if (seq.layers.begin > 0) {
            chunk.input = rows.payload;
            chunk.input.rows = static_cast<std::uint32_t>(count);
        }
        const bool whole = count == rows.size();
        if (!seq.is_last_stage()) {
            chunk.output_row = plan_.output_rows;
            plan_.output_rows += count;
        } else if (rows.sample && whole) {
            chunk.sample = true;
            chunk.drafts = rows.drafts;
            chunk.draws = rows.draws;
            chunk.sampling = seq.start->sampling;
            chunk.prompt_tokens = seq.start->prompt_tokens;
            if (chunk.sampling.needs_history()) {
                const std::vector<Token>& history = seq.more().history;
                chunk.history.assign(history.begin(),
                                     history.begin() + rows.first_position + count);
            }
        }
        if (seq.is_last_stage()) {
            score(chunk, *seq.start, count);
            chunk.pooling = seq.start->pooling;
            if (seq.extras != nullptr) chunk.pooled = std::exchange(seq.extras->pooled, {});
        }
        if (state_.config.list_pages) chunk.pages = seq.table.flatten(seq.computed + count);
    }

    // Asks for the log-probabilities of the prompt's tokens that follow the rows.
    static void score(BatchChunk& chunk, const SequenceStart& start, std::int32_t rows) {
        const auto all = static_cast<std::int64_t>(start.scored.size());
        const std::int64_t first = chunk.first_position + 1;
        const std::int64_t end = std::min(first + rows, all);
        if (first >= end) return;
        chunk.scored.assign(start.scored.begin() + first, start.scored.begin() + end);
        chunk.sampling = start.sampling;
    }

    Worker::Impl& state_;
    BatchPlan& plan_;
    RunningBatch& batch_;
    std::vector<WorkerAction>& actions_;
    bool has_whole_prompt_ = false;
};

// Says whether the batch should wait for decodes that are about to be back
// (core/batch/round_trip.h).
bool waits_for_others(Worker::Impl& state, const BatchPlan& plan, const BatchLimits& limits,
                      std::vector<WorkerAction>& actions) {
    if (!plan.swap_out.empty() || !plan.swap_in.empty()) return false;
    const auto ready = static_cast<std::int64_t>(state.ready_decodes.entries().size());
    if (ready >= std::min<std::int64_t>(limits.decodes, state.config.max_batch_seqs)) return false;
    const auto until = state.round_trip.worth_waiting(state.now, limits.saved_by_gathering_s);
    if (!until) return false;
    if (state.wake_at != *until) actions.push_back(WakeAt{*until});
    state.wake_at = *until;
    return true;
}

std::int64_t decodes_ready(const Worker::Impl& state, std::int64_t most) {
    return std::min(most, static_cast<std::int64_t>(state.ready_decodes.entries().size()));
}

std::int64_t rows_ready(const Worker::Impl& state, std::int64_t most) {
    std::int64_t rows = 0;
    for (const ReadyList::Entry& entry : state.ready_prefills.entries()) {
        if (rows >= most) break;
        rows += entry.sequence->pending.front().size();
    }
    return std::min(rows, most);
}

// What prompts took of a batch: what is left when its decodes are paid for.
double prompts_part_s(const BatchCosts& costs, double decode_rows, double prefill_rows,
                      double took_s) {
    if (prefill_rows <= 0) return 0;
    const auto line = decode_rows > 0 ? costs.decodes().line() : std::nullopt;
    const double decodes_s = line ? line->at(decode_rows) : 0;
    return std::max(0.0, took_s - decodes_s);
}

// Says whether to run such rows alone to see what they cost, because nothing like them was seen
// yet, or not for a long time. Where both kinds always wait, nothing else would tell what sharing
// saves, nor how many prompt rows the decodes are worth.
bool is_due(const CostFit& alone, std::int64_t rows, std::int64_t since) {
    return since >= (alone.at(static_cast<double>(rows)) ? kTryOther : 1);
}

// Says whether a sequence decodes, and so gives its KV pages back in time.
bool any_decodes(const Worker::Impl& state) {
    if (state.n_past_prompt == 0) return false;
    return std::any_of(state.sequences.begin(), state.sequences.end(), [](const auto& entry) {
        const Sequence& seq = *entry.second;
        const bool waits = seq.is_ready() && !seq.is_decode(seq.pending.front());
        return seq.past_prompt && !seq.swapped && !waits;
    });
}

void refuse_long_prompts(Worker::Impl& state, const std::vector<SequenceKey>& keys,
                         std::vector<WorkerAction>& actions) {
    for (const SequenceKey& key : keys) {
        const std::int32_t rows = state.sequences.find(key)->pending.front().size();
        state.refuse(key,
                     {true, StuckCause::invalid_request,
                      "a prompt of " + std::to_string(rows) +
                          " tokens, and this worker's batches take whole prompts of at most " +
                          std::to_string(state.config.prompts_first->max_batched_tokens)},
                     actions);
        state.free_sequence(key, actions);
    }
}

// Prompts go first where their pipelines begin; later stages run rows in the order of arrival.
bool prompts_turn(const Worker::Impl& state) {
    const auto& prompts = state.ready_prefills.entries();
    const auto& decodes = state.ready_decodes.entries();
    if (decodes.empty()) return true;
    const ReadyList::Entry& first = prompts.front();
    return first.sequence->layers.begin == 0 || first.turn < decodes.front().turn;
}

// Puts the prompts whose turn it is into the plan, or none. Returns false where it asked to be
// woken for them.
bool add_whole_prompts(Worker::Impl& state, BatchBuilder& builder, RunningBatch& batch,
                       std::vector<WorkerAction>& actions) {
    std::vector<WaitingPrompt> waiting;
    std::vector<Sequence*> prompts;
    for (const ReadyList::Entry& entry : state.ready_prefills.entries()) {
        const Sequence& seq = *entry.sequence;
        const PendingRows& rows = seq.pending.front();
        waiting.push_back(
            {seq.began, rows.size(), seq.past_prompt ? 0 : rows.draws,
             seq.table.pages_to_write(seq.computed, seq.computed + rows.size(), state.pool),
             BatchBuilder::starts(seq)});
        prompts.push_back(entry.sequence);
    }
    const bool later_stage = !prompts.empty() && prompts.front()->layers.begin > 0;
    const PromptsChoice choice = choose_prompts(
        *state.config.prompts_first,
        {state.now, waiting, state.n_past_prompt, std::max(1, state.pipeline_groups),
         state.pool.free_pages(), state.pool.total(), state.last_prompts, later_stage});
    for (const std::size_t i : choice.run) {
        const std::int32_t rows = prompts[i]->pending.front().size();
        builder.take(*prompts[i], rows);
        batch.prefill_rows += rows * state.layer_share(*prompts[i]);
    }
    if (choice.run.empty() && choice.short_of_pages && !any_decodes(state)) {
        const std::size_t first = choice.too_long.size();  // those before it are too long
        state.report_stuck(*prompts[first], "no free KV page", actions);
    }
    std::vector<SequenceKey> too_long;
    for (const std::size_t i : choice.too_long) too_long.push_back(prompts[i]->key);
    state.ready_prefills.drop_batched(choice.run.size());
    refuse_long_prompts(state, too_long, actions);
    if (!choice.not_before || !state.ready_decodes.entries().empty()) return true;
    if (state.wake_at != *choice.not_before) actions.push_back(WakeAt{*choice.not_before});
    state.wake_at = *choice.not_before;
    return false;
}

// At the first stage as many as one scheduler of the pipeline has, if all have as many; later
// stages need not keep apart what has met.
void add_decodes(Worker::Impl& state, BatchBuilder& builder, BatchPlan& plan, RunningBatch& batch,
                 std::vector<WorkerAction>& actions) {
    const BatchCosts& costs = state.costs;
    const auto& ready = state.ready_decodes.entries();
    const bool first_stage = !ready.empty() && ready.front().sequence->layers.begin == 0;
    const std::int64_t schedulers = first_stage ? std::max(1, state.pipeline_groups) : 1;
    BatchLimits limits;
    limits.decodes = std::clamp<std::int64_t>((state.n_past_prompt + schedulers - 1) / schedulers,
                                              1, state.config.prompts_first->max_seqs);
    limits.saved_by_gathering_s =
        batch_limits(state.config, costs, state.load, 1, state.n_past_prompt).saved_by_gathering_s;
    if (waits_for_others(state, plan, limits, actions)) return;
    for (const ReadyList::Entry& entry : ready) {
        if (static_cast<std::int64_t>(plan.chunks.size()) == limits.decodes) break;
        const std::int32_t rows = entry.sequence->pending.front().size();
        batch.decode_rows +=
            builder.add(*entry.sequence, rows) * state.layer_share(*entry.sequence);
    }
    state.ready_decodes.drop_batched(plan.chunks.size());
}

// vLLM's order (core/batch/prompts_first.h). Who gives pages back when decodes find none is the
// coordinator's decision, as in our own order: the last to arrive (core/coordinator/preempter.h).
void schedule_prompts_first(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                            std::vector<WorkerAction>& actions) {
    BatchBuilder builder(state, plan, batch, actions);
    const bool prompts = !builder.swapping() && !state.ready_prefills.entries().empty();
    const bool decodes_first = prompts && !prompts_turn(state);
    if (decodes_first) add_decodes(state, builder, plan, batch, actions);
    if (!plan.chunks.empty()) return;
    if (prompts && !add_whole_prompts(state, builder, batch, actions)) return;
    if (!plan.chunks.empty() || decodes_first) return;
    add_decodes(state, builder, plan, batch, actions);
}

}  // namespace

void Worker::Impl::note_cost(const RunningBatch& batch, Duration took) {
    if (batch.chunks.empty()) return;
    if (batch.prefill_rows > 0) last_prompts = took;
    // A batch pays the fixed cost of the layers that it runs at all, so rows count as if it had run
    // every layer.
    std::int32_t run = 0;
    for (const RunningChunk& chunk : batch.chunks) {
        run = std::max(run, chunk.sequence->layers.size());
    }
    if (run > 0) {
        const double share = static_cast<double>(run) / static_cast<double>(layers.size());
        const double decode_rows = batch.decode_rows / share;
        const double prefill_rows = batch.prefill_rows / share;
        const double took_s = took.seconds() / share;
        costs.add(decode_rows, prefill_rows, took_s);
        load.add(now, took, decode_rows,
                 share * prompts_part_s(costs, decode_rows, prefill_rows, took_s));
    }
    const bool alone = batch.decode_rows <= 0;
    since_alone = alone ? 0 : since_alone + 1;
    since_decodes = batch.prefill_rows <= 0 ? 0 : since_decodes + 1;
    since_shared = alone || batch.prefill_rows <= 0 ? since_shared + 1 : 0;
    if (alone) {
        prompts_turn_s -= took.seconds();
    } else if (batch.prefill_rows <= 0) {
        prompts_turn_s = prefill_share * took.seconds();
    } else {
        prompts_turn_s = 0;  // prompts had their share in the batch
    }
}

void schedule_batch(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                    std::vector<WorkerAction>& actions) {
    if (state.ready_decodes.entries().empty() && state.ready_prefills.entries().empty()) return;
    if (state.config.prompts_first) return schedule_prompts_first(state, plan, batch, actions);
    const BatchLimits limits = batch_limits(state.config, state.costs, state.load,
                                            std::max<std::int32_t>(1, state.pipeline_groups),
                                            state.n_past_prompt, state.prefill_share);
    BatchBuilder builder(state, plan, batch, actions);
    const auto add_prefills = [&](std::int32_t rows_left) {
        for (const ReadyList::Entry& entry : state.ready_prefills.entries()) {
            if (rows_left <= 0 || builder.full()) break;
            const std::int32_t added = builder.add(*entry.sequence, rows_left);
            batch.prefill_rows += added * state.layer_share(*entry.sequence);
            rows_left -= added;
        }
    };
    std::int64_t decodes_added = 0;
    const bool both =
        !state.ready_decodes.entries().empty() && !state.ready_prefills.entries().empty();
    const bool prompts_due =
        limits.share && both &&
        is_due(state.costs.prefills(), rows_ready(state, limits.mixed_rows), state.since_alone);
    const bool decodes_due =
        limits.share && both && !prompts_due &&
        is_due(state.costs.decodes(), decodes_ready(state, limits.decodes), state.since_decodes);
    // Where sharing saves nothing it is done now and then all the same, to see whether it saves
    // now.
    const bool share =
        limits.share ? !prompts_due && !decodes_due : state.since_shared >= kTryOther;
    const bool prompts_turn = prompts_due || (!limits.share && !share && state.prompts_turn_s > 0);
    if (!prompts_turn && waits_for_others(state, plan, limits, actions)) return;
    if (prompts_due) {
        add_prefills(limits.mixed_rows);  // what would have shared a batch
    } else if (prompts_turn) {
        add_prefills(std::min(limits.alone_rows, limits.mixed_rows));
    }
    if (plan.chunks.empty()) {
        std::int32_t rows_left = state.config.max_batch_rows;
        // A place is kept for a prompt that shares the batch, or decodes could fill it for ever.
        const bool kept = share && !state.ready_prefills.entries().empty();
        const std::int64_t places = state.config.max_batch_seqs - (kept ? 1 : 0);
        const std::int64_t most = std::min(limits.decodes, std::max<std::int64_t>(1, places));
        const auto expected = static_cast<std::size_t>(decodes_ready(state, most));
        plan.chunks.reserve(expected + (share ? 1 : 0));
        for (std::size_t i = 0; i < expected; ++i) {
            state.ready_decodes.entries()[i].sequence->prefetch();
        }
        for (const ReadyList::Entry& entry : state.ready_decodes.entries()) {
            if (rows_left <= 0 || builder.full() || decodes_added == most) break;
            const std::int32_t added = builder.add(*entry.sequence, rows_left);
            batch.decode_rows += added * state.layer_share(*entry.sequence);
            rows_left -= added;
            decodes_added += added > 0 ? 1 : 0;
        }
        if (decodes_added == 0) {
            if (!prompts_turn) add_prefills(std::min(rows_left, limits.alone_rows));
        } else if (share) {
            add_prefills(std::min(rows_left, limits.mixed_rows));
        }
    }
    if (plan.chunks.empty()) return;
    const auto decode_chunks = static_cast<std::size_t>(decodes_added);
    state.ready_decodes.drop_batched(decode_chunks);
    state.ready_prefills.drop_batched(plan.chunks.size() - decode_chunks);
}

}  // namespace helix::core

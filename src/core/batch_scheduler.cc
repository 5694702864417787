// Which rows run next: iteration-level batching (FEATURES O1), decodes before prompts (O3), by
// arrival.

#include <algorithm>

#include "base/check.h"
#include "core/worker_state.h"

namespace helix::core {
namespace {

class BatchBuilder {
  public:
    BatchBuilder(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                 std::vector<WorkerAction>& actions)
        : state_(state), plan_(plan), batch_(batch), actions_(actions) {}

    bool full() const {
        return static_cast<std::int32_t>(plan_.chunks.size()) >= state_.config.max_batch_seqs;
    }

    // Adds up to max_rows rows of the sequence's oldest input; returns how many.
    std::int32_t add(Sequence& seq, std::int32_t max_rows) {
        const PendingRows& rows = seq.pending.front();
        std::int64_t count =
            std::min<std::int64_t>(max_rows, static_cast<std::int64_t>(rows.tokens.size()));
        const std::int64_t free_pages = state_.pool.free_pages();
        if (seq.table.pages_to_hold(seq.computed + count) > free_pages) {
            count = seq.table.tokens_with(free_pages) - seq.computed;
        }
        if (count <= 0) {
            report_stuck(seq);
            return 0;
        }
        CHECK(seq.table.grow(seq.computed + count, state_.pool));
        seq.stuck = false;
        seq.in_batch = true;
        plan_.chunks.push_back(make_chunk(seq, rows, static_cast<std::int32_t>(count)));
        const BatchChunk& chunk = plan_.chunks.back();
        batch_.chunks.push_back({&seq, chunk.first_position, static_cast<std::int32_t>(count),
                                 chunk.output_row, chunk.sample});
        return static_cast<std::int32_t>(count);
    }

  private:
    BatchChunk make_chunk(const Sequence& seq, const PendingRows& rows, std::int32_t count) {
        BatchChunk chunk;
        chunk.key = seq.key;
        chunk.layers = seq.layers;
        chunk.first_position = rows.first_position;
        chunk.tokens.assign(rows.tokens.begin(), rows.tokens.begin() + count);
        if (seq.layers.begin > 0) {
            chunk.input = rows.payload;
            chunk.input.rows = static_cast<std::uint32_t>(count);
        }
        const bool whole = count == static_cast<std::int32_t>(rows.tokens.size());
        if (!seq.is_last_stage()) {
            chunk.output_row = plan_.output_rows;
            plan_.output_rows += count;
        } else if (rows.sample && whole) {
            chunk.sample = true;
            chunk.sampling = seq.start->sampling;
            chunk.prompt_tokens = seq.start->prompt_tokens;
            if (chunk.sampling.needs_history()) {
                chunk.history.assign(seq.history.begin(),
                                     seq.history.begin() + rows.first_position + count);
            }
        }
        if (state_.config.list_pages) chunk.pages = seq.table.flatten(seq.computed + count);
        return chunk;
    }

    void report_stuck(Sequence& seq) {
        if (seq.stuck) return;
        seq.stuck = true;
        actions_.push_back(SendToCoordinator{SequenceStuck{seq.key, true, "no free KV page"}});
    }

    Worker::Impl& state_;
    BatchPlan& plan_;
    RunningBatch& batch_;
    std::vector<WorkerAction>& actions_;
};

}  // namespace

void schedule_batch(Worker::Impl& state, BatchPlan& plan, RunningBatch& batch,
                    std::vector<WorkerAction>& actions) {
    // With g machines in the pipeline the decodes travel in g groups, so that all of them have
    // work.
    const std::int64_t groups = std::max<std::int32_t>(1, state.pipeline_groups);
    const std::int64_t group_size =
        std::max<std::int64_t>(1, (state.n_past_prompt + groups - 1) / groups);

    BatchBuilder builder(state, plan, batch, actions);
    std::int32_t rows_left = state.config.max_batch_rows;
    std::int64_t decodes_added = 0;
    for (const ReadyList::Entry& entry : state.ready_decodes.entries()) {
        if (rows_left == 0 || builder.full() || decodes_added == group_size) break;
        const std::int32_t added = builder.add(*entry.sequence, 1);
        rows_left -= added;
        decodes_added += added;
    }
    if (decodes_added > 0) rows_left = std::min(rows_left, state.config.mixed_prefill_rows);
    for (const ReadyList::Entry& entry : state.ready_prefills.entries()) {
        if (rows_left == 0 || builder.full()) break;
        rows_left -= builder.add(*entry.sequence, rows_left);
    }
    if (plan.chunks.empty()) return;
    state.ready_decodes.drop_batched();
    state.ready_prefills.drop_batched();
}

}  // namespace helix::core

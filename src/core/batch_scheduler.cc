// Which rows run next: iteration-level batching (FEATURES O1), decodes before prompts (O3), by
// arrival.

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "core/worker_state.h"

namespace helix::core {
namespace {

struct Candidate {
    std::uint64_t arrival;
    Sequence* sequence;
};

bool by_arrival(const Candidate& a, const Candidate& b) {
    return a.arrival < b.arrival;
}

class BatchBuilder {
  public:
    BatchBuilder(Worker::Impl& state, BatchPlan& plan, std::vector<WorkerAction>& actions)
        : state_(state), plan_(plan), actions_(actions) {}

    bool full() const {
        return static_cast<std::int32_t>(plan_.chunks.size()) >= state_.config.max_batch_seqs;
    }

    // Adds up to max_rows rows of the sequence's oldest input; returns how many.
    std::int32_t add(Sequence& seq, std::int32_t max_rows) {
        const PendingRows& rows = seq.pending.front();
        std::int64_t count =
            std::min<std::int64_t>(max_rows, static_cast<std::int64_t>(rows.tokens.size()));
        count = std::min(count, seq.table.tokens_with(state_.pool.free_pages()) - seq.computed);
        if (count <= 0) {
            report_stuck(seq);
            return 0;
        }
        CHECK(seq.table.grow(seq.computed + count, state_.pool));
        seq.stuck = false;
        seq.in_batch = true;
        plan_.chunks.push_back(make_chunk(seq, rows, static_cast<std::int32_t>(count)));
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
            chunk.sampling = seq.start.sampling;
            chunk.prompt_tokens = seq.start.prompt_tokens;
            if (chunk.sampling.needs_history()) {
                chunk.history.assign(seq.tokens.begin(),
                                     seq.tokens.begin() + rows.first_position + count);
            }
        }
        chunk.pages = seq.table.flatten(seq.computed + count);
        return chunk;
    }

    void report_stuck(Sequence& seq) {
        if (seq.stuck) return;
        seq.stuck = true;
        actions_.push_back(SendToCoordinator{SequenceStuck{seq.key, true, "no free KV page"}});
    }

    Worker::Impl& state_;
    BatchPlan& plan_;
    std::vector<WorkerAction>& actions_;
};

}  // namespace

void schedule_batch(Worker::Impl& state, BatchPlan& plan, std::vector<WorkerAction>& actions) {
    std::vector<Candidate> decodes;
    std::vector<Candidate> prefills;
    std::int64_t decoding =
        0;  // sequences past their prompt, whether or not they have a row here now
    for (auto& [key, seq] : state.sequences) {
        if (seq.ending) continue;
        const bool past_prompt = seq.computed >= seq.start.prompt_tokens;
        if (past_prompt) ++decoding;
        if (seq.pending.empty()) continue;
        const PendingRows& rows = seq.pending.front();
        (seq.is_decode(rows) ? decodes : prefills).push_back({rows.arrival, &seq});
    }
    std::sort(decodes.begin(), decodes.end(), by_arrival);
    std::sort(prefills.begin(), prefills.end(), by_arrival);

    // With g machines in the pipeline the decodes travel in g groups, so that all of them have
    // work.
    const std::int64_t groups = std::max<std::int32_t>(1, state.pipeline_groups);
    const std::int64_t group_size = std::max<std::int64_t>(1, (decoding + groups - 1) / groups);

    BatchBuilder builder(state, plan, actions);
    std::int32_t rows_left = state.config.max_batch_rows;
    std::int64_t decodes_added = 0;
    for (const Candidate& c : decodes) {
        if (rows_left == 0 || builder.full() || decodes_added == group_size) break;
        const std::int32_t added = builder.add(*c.sequence, 1);
        rows_left -= added;
        decodes_added += added;
    }
    if (decodes_added > 0) rows_left = std::min(rows_left, state.config.mixed_prefill_rows);
    for (const Candidate& c : prefills) {
        if (rows_left == 0 || builder.full()) break;
        rows_left -= builder.add(*c.sequence, rows_left);
    }
}

}  // namespace helix::core

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/protocol/types.h"
#include "core/protocol/worker_config.h"

// The order of work of vLLM's scheduler (v0.5, without chunked prefill), for comparison with ours
// (core/batch/batch_limits.h): prompts go first, and a batch has whole prompts or decodes, never
// both. In a pipeline the first stage decides, with a scheduler for each batch in flight, of which
// there are as many as stages; later stages run rows in the order in which they come.

namespace helix::core {

// A prompt whose rows are here and were not run yet; after a preemption the output so far is part
// of it.
struct WaitingPrompt {
    TimePoint came;
    std::int64_t rows = 0;
    std::int64_t sequences = 1;  // that run then and do not run now
    std::int64_t pages = 0;      // KV pages that its rows take
    bool starts = true;          // it begins its sequence, and leaves the watermark's pages free
};

struct PromptsView {
    TimePoint now;
    std::span<const WaitingPrompt> waiting;  // first come first
    std::int64_t running = 0;                // sequences past their prompt
    std::int64_t schedulers = 1;             // of the pipeline
    std::int64_t free_pages = 0;
    std::int64_t total_pages = 0;
    Duration last_prompts;     // what the last batch of prompts took
    bool later_stage = false;  // the first stage has decided when, and how many run
};

struct PromptsChoice {
    std::vector<std::size_t> run;         // of those that wait; empty: decodes have their turn
    std::vector<std::size_t> too_long;    // longer than any batch: they can never run
    std::optional<TimePoint> not_before;  // none runs until then, for more of them to come
    bool short_of_pages = false;          // the first that does not run waits for KV pages
};

// Chooses the prompts of the next batch, first come first until one does not fit:
//
// * None runs before the one that came first has waited delay_factor times what the last batch of
//   prompts took, except while nothing runs.
// * Rows of a batch are at most max_batched_tokens, its sequences at most max_seqs, and those that
//   run then at most max_seqs for each scheduler.
// * The pages of those that start must leave kv_watermark() free.
//
// While nothing runs, the first may have more sequences than max_seqs, and the watermark's pages:
// it would wait for ever. A later stage knows neither the delay nor how many run.
PromptsChoice choose_prompts(const PromptsFirst& config, const PromptsView& view);

}  // namespace helix::core

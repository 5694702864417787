#pragma once

#include <cstdint>
#include <optional>

#include "core/protocol/types.h"
#include "spec/attention_window.h"

namespace helix::core {

// The budgets of vLLM's order of work (core/batch/prompts_first.h).
struct PromptsFirst {
    std::int32_t max_batched_tokens = 2048;  // rows of a batch of prompts; above 0
    std::int32_t max_seqs = 256;             // that run, for each batch in flight; above 0
    double delay_factor = 0;                 // not below 0
};

struct WorkerConfig {
    ModelId model;                      // that it serves: layers of no other are accepted
    std::int32_t block_size = 16;       // tokens per page
    std::int32_t n_layers = 0;          // of the model
    std::int32_t max_batch_rows = 512;  // decodes and prefill rows of one batch together
    // The most prefill rows of a batch that also has decodes, until costs are measured
    // (core/batch/batch_limits.h).
    std::int32_t mixed_prefill_rows = 64;
    std::int32_t max_batch_seqs = 256;
    // Work in this order, by these budgets in place of the four above; absent: in our own.
    std::optional<PromptsFirst> prompts_first = {};
    Duration report_interval = base::from_ms(500);
    bool prefix_cache = false;  // keep full blocks for later sequences with the same first tokens
    // An encoder's prompts: each is computed in one piece, in a batch larger than others if need
    // be.
    bool whole_prompts = false;
    bool list_pages = true;  // fill BatchChunk::pages; an engine without KV memory needs none
    std::int32_t transfer_pages = 512;  // the most pages of KV in one message to another worker
    // KV that arrived for a sequence is given back when the sequence does not follow within this
    // time.
    Duration orphan_timeout = base::from_seconds(10);
    // When the coordinator is lost, sequences are kept this long for the next one.
    Duration coordinator_wait = {};
    // Pages that lie before the window of every later row are given back, unless whole prompts run
    // (prompts_first): vLLM's order is simulated with the KV memory that it was published with.
    spec::AttentionWindow window = {};
    std::int32_t shared_kv_layers = 0;  // as spec::ModelSpec has them: these take no pages

    LayerRange kv_layers(LayerRange layers) const {
        return spec::kv_layers(layers, n_layers, shared_kv_layers);
    }
};

}  // namespace helix::core

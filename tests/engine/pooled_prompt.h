#pragma once

#include <cstdint>
#include <vector>

#include "base/effort.h"
#include "served_worker.h"
#include "synth_file.h"

namespace helix::engine::test {

// How a prompt is run that is pooled.
struct PooledRun {
    spec::Pooling pooling = spec::Pooling::mean;
    std::int32_t max_rows = 256;  // of the worker's batches
    int company = 0;              // others that share them, pooled in all ways that the model has
    std::size_t cached = 0;       // tokens that come from the prefix cache
};

// Into batches of how many rows a prompt is cut. A sanitizer sees the same code in all of them.
inline std::vector<std::int32_t> tried_batch_rows() {
    if (kSanitized) return {5, 66};
    return {1, 5, 64, 66};
}

// What a worker with all layers answers.
inline std::vector<float> pooled_prompt(const SynthFile& file,
                                        const std::vector<spec::Token>& tokens,
                                        const PooledRun& run) {
    CpuOptions options = test_options();
    options.kv_type = ops::KvType::f32;
    auto backend = open_backend(file.path(), options);
    if (!backend.ok()) {
        ADD_FAILURE() << backend.error().message;
        return {};
    }
    const auto weights = model::LocalWeights::open(file.path());
    const bool encoder = model::read_model_config(**weights)->encoder;
    core::WorkerConfig config;
    config.whole_prompts = encoder;
    config.n_layers = kLayers;
    config.block_size = options.block_size;
    config.max_batch_rows = config.mixed_prefill_rows = run.max_rows;
    config.prefix_cache = run.cached > 0;
    ServedWorker worker(**backend, config, 4096);
    base::Random random(5);
    const spec::SamplingParams sampling;
    const int ways = run.pooling == spec::Pooling::rank ? 5 : 4;
    for (int i = 0; i < run.company; ++i) {
        worker.start({{10 + static_cast<std::uint64_t>(i)}, 1},
                     random_tokens(random, 3 + random.below(20)), sampling, 1, 0, false,
                     static_cast<spec::Pooling>(encoder ? 1 + i % 3 : i % ways));
    }
    if (run.cached > 0) {
        worker.start({{2}, 1}, tokens, sampling);
        worker.take({{2}, 1});
        worker.say(core::FreeSequences{{{{2}, 1}}});
    }
    worker.start({{1}, 1}, tokens, sampling, 1, run.cached, false, run.pooling);
    EXPECT_TRUE(worker.take({{1}, 1}).empty()) << "a token was drawn";
    for (const core::PromptEmbedding& one : worker.take_embeddings()) {
        if (one.key.request.value == 1) return one.values;
    }
    for (const core::SequenceStuck& one : worker.take_stuck()) ADD_FAILURE() << one.reason;
    return {};
}

}  // namespace helix::engine::test

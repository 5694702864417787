// usage: logprob_dump MODEL.gguf [WINDOWS [LENGTH [f16|f32]]] > FILE
//
// WINDOWS texts of LENGTH tokens that the model itself draws (temperature 1, seeded), and after
// each token the log-probability of every token of the vocabulary. One line per position: the
// token, then vocabulary-many numbers; a line "window" begins each text. The same lines made by
// another program from the same tokens are compared by bench/logprob_compare.py.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/cpu_backend.h"
#include "model/local_weights.h"

namespace {

using namespace helix;  // NOLINT: a program of one file

constexpr std::int32_t kBlock = 16;

int fail(const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    return 1;
}

// One row; returns the token drawn after it and its distribution.
base::Result<core::ProducedToken> step(engine::Backend& backend, const model::ModelConfig& config,
                                       std::int32_t position, spec::Token token,
                                       std::uint64_t seed) {
    core::BatchPlan plan;
    plan.id = 1;
    core::BatchChunk chunk;
    chunk.key.request.value = seed;
    chunk.layers = {0, config.n_layers};
    chunk.first_position = position;
    chunk.tokens.push_back(token);
    chunk.sample = true;
    chunk.sampling.seed = seed;
    chunk.sampling.n_logprobs = config.vocab;
    const std::int32_t blocks = position / kBlock + 1;
    for (std::int32_t l = 0; l < config.n_layers; ++l) {
        for (std::int32_t b = 0; b < blocks; ++b) {
            chunk.pages.push_back(static_cast<core::PageId>(b * config.n_layers + l));
        }
    }
    plan.chunks.push_back(std::move(chunk));
    TRY(engine::BatchResult result,
        backend.run(plan, [](const core::PayloadRef&) { return std::span<const float>(); }));
    return std::move(result.tokens.front());
}

int dump(engine::Backend& backend, const model::ModelConfig& config, int windows, int length) {
    std::vector<float> row(static_cast<std::size_t>(config.vocab));
    for (int window = 0; window < windows; ++window) {
        std::puts("window");
        spec::Token token = 1;
        for (int position = 0; position < length; ++position) {
            auto drawn =
                step(backend, config, position, token, static_cast<std::uint64_t>(window + 1));
            if (!drawn.ok()) return fail(drawn.error());
            for (const spec::TokenLogprob& one : drawn->top) {
                row[static_cast<std::size_t>(one.token)] = one.logprob;
            }
            std::printf("%d", token);
            for (const float value : row) std::printf(" %.5f", static_cast<double>(value));
            std::putchar('\n');
            token = drawn->token;
        }
    }
    return 0;
}

int run(const std::string& path, int windows, int length, const engine::CpuOptions& options) {
    auto weights = model::LocalWeights::open(path);
    if (!weights.ok()) return fail(weights.error());
    auto config = model::read_model_config(**weights);
    if (!config.ok()) return fail(config.error());
    auto backend = engine::CpuBackend::create(
        std::shared_ptr<model::WeightSource>(std::move(*weights)), *config, options);
    if (!backend.ok()) return fail(backend.error());
    auto pages = (*backend)->load({0, config->n_layers});
    if (!pages.ok()) return fail(pages.error());
    return dump(**backend, *config, windows, length);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s MODEL.gguf [WINDOWS [LENGTH [f16|f32]]]\n", argv[0]);
        return 2;
    }
    engine::CpuOptions options;
    options.threads = 1;
    options.block_size = kBlock;
    options.memory_bytes = std::int64_t{1} << 30;
    if (argc > 4 && std::string(argv[4]) == "f32") options.kv_type = engine::ops::KvType::f32;
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 4, argc > 3 ? std::atoi(argv[3]) : 250,
               options);
}

// usage: logprob_dump MODEL.gguf [WINDOWS [LENGTH [f16|bf16|f32|q8 [TEXTS]]]] > FILE
//
// WINDOWS texts of LENGTH tokens that the model itself draws (temperature 1, seeded), and after
// each token the log-probability of every token of the vocabulary. With TEXTS, a file that it
// wrote before, the tokens are those of that file: for KV caches of another type. One line per
// position: the token, then vocabulary-many numbers; a line "window" begins each text. The same
// lines made by another program from the same tokens are compared by bench/logprob_compare.py.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/ops/kv_type.h"
#include "model/local_weights.h"

namespace {

using namespace helix;  // NOLINT: a program of one file

constexpr std::int32_t kBlock = 16;

int fail(const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.message.c_str());
    return 1;
}

// Runs one row; returns the token drawn after it, and its distribution.
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

using Texts = std::vector<std::vector<spec::Token>>;

// Reads the tokens of a file that dump() wrote.
base::Result<Texts> read_texts(const std::string& path, std::int32_t vocab) {
    std::ifstream in(path);
    Texts texts;
    std::string line;
    while (std::getline(in, line)) {
        if (line == "window") {
            texts.emplace_back();
            continue;
        }
        char* end = nullptr;
        const long token = std::strtol(line.c_str(), &end, 10);
        if (texts.empty() || end == line.c_str() || token < 0 || token >= vocab) {
            return base::invalid(path + ": no token of this model in: " + line.substr(0, 40));
        }
        texts.back().push_back(static_cast<spec::Token>(token));
    }
    if (texts.empty()) return base::invalid(path + ": no texts in it");
    return texts;
}

// given has the texts, or is empty.
int dump(engine::Backend& backend, const model::ModelConfig& config, int windows, int length,
         const Texts& given) {
    std::vector<float> row(static_cast<std::size_t>(config.vocab));
    for (int window = 0; window < windows; ++window) {
        std::puts("window");
        spec::Token token = 1;
        const auto* text = given.empty() ? nullptr : &given[static_cast<std::size_t>(window)];
        if (text != nullptr) length = static_cast<int>(text->size());
        for (int position = 0; position < length; ++position) {
            if (text != nullptr) token = (*text)[static_cast<std::size_t>(position)];
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

int run(const std::string& path, int windows, int length, const std::string& texts,
        const engine::CpuOptions& options) {
    auto weights = model::LocalWeights::open(path);
    if (!weights.ok()) return fail(weights.error());
    auto config = model::read_model_config(**weights);
    if (!config.ok()) return fail(config.error());
    Texts given;
    if (!texts.empty()) {
        auto read = read_texts(texts, config->vocab);
        if (!read.ok()) return fail(read.error());
        given = std::move(*read);
        windows = static_cast<int>(given.size());
    }
    auto backend = engine::make_cpu_backend(
        std::shared_ptr<model::WeightSource>(std::move(*weights)), *config, options);
    if (!backend.ok()) return fail(backend.error());
    auto pages = (*backend)->load({0, config->n_layers});
    if (!pages.ok()) return fail(pages.error());
    return dump(**backend, *config, windows, length, given);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s MODEL.gguf [WINDOWS [LENGTH [f16|bf16|f32|q8 [TEXTS]]]]\n",
                     argv[0]);
        return 2;
    }
    engine::CpuOptions options;
    options.threads = 1;
    options.block_size = kBlock;
    options.memory_bytes = std::int64_t{1} << 30;
    if (argc > 4) {
        auto type = engine::ops::parse_kv_type(argv[4]);
        if (!type.ok()) return fail(type.error());
        options.kv_type = *type;
    }
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 4, argc > 3 ? std::atoi(argv[3]) : 250,
               argc > 5 ? argv[5] : "", options);
}

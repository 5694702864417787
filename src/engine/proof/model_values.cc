#include "engine/proof/model_values.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "core/protocol/batch_plan.h"
#include "engine/runner/model_runner.h"
#include "model/local_weights.h"
#include "model/synth.h"

namespace helix::engine::proof {
namespace {

constexpr std::int32_t kBlockSize = 16;
constexpr std::int32_t kPrompt = 45;
constexpr std::int32_t kPiece = 19;  // rows of the prompt at a time
constexpr std::int32_t kAnswer = 24;
constexpr std::int32_t kBest = 20;  // of each token's logits

// A model's file that goes away with it.
class MadeModel {
  public:
    static base::Result<MadeModel> make(const ModelCase& c, std::uint64_t seed) {
        std::error_code failed;
        const auto folder = std::filesystem::temp_directory_path(failed);
        if (failed) return base::Error{base::Errc::io, "no temporary folder: " + failed.message()};
        MadeModel made;
        model::SynthOptions options;
        options.shape = c.shape;
        options.quant = model::tensor_type_info(c.weights)->name;
        options.seed = seed;
        options.path =
            (folder / fmt::format("helix-proof-{}-{}-{}.gguf", ::getpid(), c.shape, options.quant))
                .string();
        made.path_ = options.path;
        TRY_VOID(model::synth_model(options));
        return made;
    }
    ~MadeModel() { remove(); }
    MadeModel(MadeModel&& other) noexcept : path_(std::exchange(other.path_, "")) {}
    MadeModel& operator=(MadeModel&& other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    MadeModel(const MadeModel&) = delete;
    MadeModel& operator=(const MadeModel&) = delete;
    const std::string& path() const { return path_; }

  private:
    MadeModel() = default;
    void remove() const {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove(path_, ignored);
    }

    std::string path_;
};

// The next rows of the one sequence there is; page b of a layer is at its place in order.
core::BatchPlan next_rows(const model::ModelConfig& config, std::int32_t first,
                          std::vector<spec::Token> tokens, bool sample) {
    constexpr std::int32_t kBlocks = (kPrompt + kAnswer + kBlockSize - 1) / kBlockSize;
    core::BatchPlan plan;
    plan.id = core::kFirstBatch + static_cast<std::uint64_t>(first) + 1;
    core::BatchChunk chunk;
    chunk.key.request = core::RequestId{1};
    chunk.layers = {0, config.n_layers};
    chunk.first_position = first;
    chunk.tokens.assign(tokens.begin(), tokens.end());
    chunk.sample = sample;
    chunk.sampling.temperature = 0;
    chunk.sampling.n_logprobs = kBest;
    for (std::int32_t i = 0; i < kBlocks * config.n_layers; ++i)
        chunk.pages.push_back(static_cast<core::PageId>(i));
    plan.chunks.push_back(std::move(chunk));
    return plan;
}

// The embedding of an encoder's text, and that of the first half of it.
Values embeddings_of(Backend& backend, const model::ModelConfig& config,
                     const std::vector<spec::Token>& text) {
    std::vector<float> values;
    for (const std::ptrdiff_t length : {std::ssize(text), std::ssize(text) / 2}) {
        core::BatchPlan plan = next_rows(config, 0, {text.begin(), text.begin() + length}, true);
        plan.chunks.front().pooling = config.pooling;
        TRY(const BatchResult result,
            backend.run(plan, [](const core::PayloadRef&) { return std::span<const float>(); }));
        if (result.pooled.size() != 1 || !result.failed.empty())
            return base::Error{base::Errc::internal, "the model has made no embedding"};
        const std::vector<float>& embedding = result.pooled.front().embedding;
        values.insert(values.end(), embedding.begin(), embedding.end());
    }
    return values;
}

Values answer_of(Backend& backend, const model::ModelConfig& config, base::Random& random) {
    TRY(const std::int64_t pages, backend.load({0, config.n_layers}));
    static_cast<void>(pages);
    std::vector<spec::Token> prompt(kPrompt);
    for (spec::Token& token : prompt)
        token = static_cast<spec::Token>(random.below(static_cast<std::uint64_t>(config.vocab)));
    if (config.encoder) return embeddings_of(backend, config, prompt);
    std::vector<float> values;
    std::int32_t done = 0;
    std::vector<spec::Token> rows(prompt.begin(), prompt.begin() + kPiece);
    while (done < kPrompt + kAnswer) {
        const std::int32_t end = done + static_cast<std::int32_t>(rows.size());
        TRY(const BatchResult result,
            backend.run(next_rows(config, done, rows, end >= kPrompt),
                        [](const core::PayloadRef&) { return std::span<const float>(); }));
        done = end;
        if (done < kPrompt) {
            rows.assign(prompt.begin() + done, prompt.begin() + std::min(kPrompt, done + kPiece));
            continue;
        }
        if (result.tokens.size() != 1)
            return base::Error{base::Errc::internal, "the model has said nothing"};
        const core::ProducedToken& said = result.tokens.front();
        values.push_back(static_cast<float>(said.token));
        for (const spec::TokenLogprob& one : said.top) {
            values.push_back(static_cast<float>(one.token));
            values.push_back(one.logprob);
        }
        rows = {said.token};
    }
    return values;
}

}  // namespace

Values model_values(const OpenDevice& open, const ModelCase& c, std::uint64_t seed) {
    TRY(const MadeModel made, MadeModel::make(c, seed));
    TRY(auto weights, model::LocalWeights::open(made.path()));
    TRY(const model::ModelConfig config, model::read_model_config(*weights));
    TRY(auto device, open(config));
    RunnerOptions options;
    options.memory_bytes = std::int64_t{64} << 20;
    options.block_size = kBlockSize;
    options.kv_type = c.kv_type;
    TRY(const auto backend,
        ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(weights)), config,
                            std::move(device), options));
    base::Random random(seed);
    return answer_of(*backend, config, random);
}

}  // namespace helix::engine::proof

#include "engine/prompt_runner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"

namespace helix::engine {
namespace {

constexpr std::int32_t kPageTokens = 16;
// That go through the model at a time: enough for the weights to be read seldom, and few enough for
// the log-probabilities of a large vocabulary.
constexpr std::int32_t kBatchRows = 64;

}  // namespace

base::Result<std::unique_ptr<PromptRunner>> PromptRunner::open(
    std::shared_ptr<model::WeightSource> weights, std::int32_t max_tokens,
    const CpuDeviceOptions& options) {
    CHECK(max_tokens > 0);
    TRY(auto config, model::read_model_config(*weights));
    if (config.encoder) {
        return base::invalid(fmt::format("{}: an encoder ({}), which predicts no tokens of texts",
                                         weights->file().label(), config.architecture));
    }
    if (max_tokens > config.context_length) {
        return base::invalid(fmt::format("{}: texts of {} tokens, the model was trained with {}",
                                         weights->file().label(), max_tokens,
                                         config.context_length));
    }
    std::unique_ptr<PromptRunner> runner(new PromptRunner(std::move(config), max_tokens));
    CpuOptions all;
    static_cast<CpuDeviceOptions&>(all) = options;
    all.block_size = kPageTokens;
    all.kv_type = ops::KvType::f32;
    const std::string label = weights->file().label();
    TRY(runner->backend_, make_cpu_backend(std::move(weights), runner->config_, all));
    TRY(const std::int64_t pages, runner->backend_->load({0, runner->config_.n_layers}));
    const std::int64_t needed =
        std::int64_t{runner->config_.n_layers} * ((max_tokens + kPageTokens - 1) / kPageTokens);
    if (pages < needed) {
        return base::Error{
            base::Errc::unavailable,
            fmt::format("{}: no memory for the keys and values of {} tokens", label, max_tokens)};
    }
    return runner;
}

base::Status PromptRunner::run(std::span<const spec::Token> tokens, std::int32_t n_logprobs,
                               const Scored& scored) {
    CHECK(std::ssize(tokens) <= max_tokens_);
    ++runs_;
    const auto count = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t first = 0; first < count; first += kBatchRows) {
        const std::int32_t end = std::min(first + kBatchRows, count);
        core::BatchPlan plan;
        plan.id = runs_;
        core::BatchChunk chunk;
        chunk.key.request.value = runs_;
        chunk.layers = {0, config_.n_layers};
        chunk.first_position = first;
        for (std::int32_t i = first; i < end; ++i) chunk.tokens.push_back(tokens[base::at(i)]);
        for (std::int32_t i = first + 1; i <= end && i < count; ++i)
            chunk.scored.push_back(tokens[base::at(i)]);
        chunk.sampling.n_logprobs = n_logprobs;
        // A text's pages follow one another; nothing else is in the cache.
        const std::int32_t blocks = (end + kPageTokens - 1) / kPageTokens;
        for (std::int32_t layer = 0; layer < config_.n_layers; ++layer) {
            for (std::int32_t block = 0; block < blocks; ++block) {
                chunk.pages.push_back(static_cast<core::PageId>(block * config_.n_layers + layer));
            }
        }
        plan.chunks.push_back(std::move(chunk));
        TRY(const BatchResult result,
            backend_->run(plan, [](const core::PayloadRef&) { return std::span<const float>(); }));
        if (!result.failed.empty()) return base::invalid(result.failed.front().reason);
        if (scored && !result.scored.empty()) TRY_VOID(scored(result.scored));
    }
    return base::Ok{};
}

}  // namespace helix::engine

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/protocol/messages.h"
#include "engine/backend/backend.h"
#include "engine/cpu/cpu_backend.h"
#include "model/model_config.h"
#include "model/weight_source.h"

namespace helix::engine {

// A whole model on the cores of this machine, and texts that are put through it one after the
// other, each by itself: for what is to be known of a model, not for serving it.
class PromptRunner {
  public:
    // Texts have at most so many tokens. Errors: the model cannot be run, or does not fit.
    static base::Result<std::unique_ptr<PromptRunner>> open(
        std::shared_ptr<model::WeightSource> weights, std::int32_t max_tokens,
        const CpuDeviceOptions& options);

    const model::ModelConfig& config() const { return config_; }
    // Told of each token but the first: its log-probability after those before it, and those of the
    // n_logprobs likeliest tokens in its place. They can be looked at until it returns.
    using Scored = std::function<base::Status(std::span<const core::ProducedToken>)>;
    // Tokens are in the model's vocabulary. scored may be empty.
    base::Status run(std::span<const spec::Token> tokens, std::int32_t n_logprobs,
                     const Scored& scored = {});

  private:
    PromptRunner(model::ModelConfig config, std::int32_t max_tokens)
        : config_(std::move(config)), max_tokens_(max_tokens) {}

    model::ModelConfig config_;
    std::int32_t max_tokens_;
    std::unique_ptr<Backend> backend_;
    std::uint64_t runs_ = 0;
};

}  // namespace helix::engine

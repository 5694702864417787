#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/protocol/messages.h"
#include "engine/kernels/kernels.h"
#include "spec/sampling_params.h"

namespace helix::engine {

struct SampleInput {
    std::span<const float> logits;         // [vocab]
    std::span<const spec::Token> history;  // prompt and output so far; for penalties, grammars
    std::int32_t prompt_tokens = 0;        // how much of history is prompt
    std::int32_t position = 0;             // of the token to draw
    std::uint32_t member = 0;              // of the sequence group; each draws its own
    // One bit a token, lowest first: others are not drawn. Empty = all may be.
    std::span<const std::uint64_t> allowed = {};
};

// Draws the next token. In order: logit bias; repetition penalty (a logit above 0 is divided by it,
// another multiplied, for every token of prompt and output); frequency penalty times count and
// presence penalty, over output; tokens that are not allowed leave; then the greatest logit when
// temperature is 0 (below 1e-5), else logits / temperature, min-p (probability at least min_p times
// the greatest), the top_k greatest, and of these the fewest greatest whose share reaches top_p.
// Ties go to the lowest id everywhere.
//
// The draw is a function of (seed, member, position) and the arguments: no state, so that it can be
// resumed anywhere. Log-probabilities are those of the raw logits.
class Sampler {
  public:
    explicit Sampler(const ops::Kernels& kernels) : kernels_(kernels) {}

    // invalid: a NaN or infinite logit, a token outside the vocabulary, a parameter outside its
    // range, no token allowed.
    base::Result<core::ProducedToken> sample(const SampleInput& input,
                                             const spec::SamplingParams& params);

    // The token, which was not drawn, with its log-probability and the n_logprobs greatest: what
    // sample() says of it where it draws it. invalid: a NaN or infinite logit.
    base::Result<core::ProducedToken> score(const SampleInput& input, spec::Token token,
                                            std::int32_t n_logprobs);

  private:
    base::Status adjust(const SampleInput& input, const spec::SamplingParams& params);
    base::Status check_adjusted() const;
    base::Status keep_allowed(const SampleInput& input);
    void penalise(const SampleInput& input, const spec::SamplingParams& params);
    spec::Token draw(const spec::SamplingParams& params, const SampleInput& input);
    void keep_top(const spec::SamplingParams& params);
    void fill_logprobs(const SampleInput& input, std::int32_t count, core::ProducedToken& produced);

    const ops::Kernels& kernels_;
    // Work space.
    std::vector<float> logits_;   // adjusted
    std::vector<float> weights_;  // exp(logit - greatest)
    std::vector<spec::Token> candidates_;
    std::vector<std::int32_t> output_counts_;
    std::vector<std::uint8_t> seen_;
};

}  // namespace helix::engine

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/protocol/messages.h"
#include "engine/kernels/kernels.h"
#include "engine/kernels/reduce_row.h"
#include "engine/runner/reduced_logits.h"
#include "spec/sampling_params.h"

namespace helix::engine {

// The greatest logit is taken; nothing is drawn.
bool is_greedy(const spec::SamplingParams& params);
// Says whether tokens that were there before count.
bool has_penalties(const spec::SamplingParams& params);

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
// temperature is 0 (below 1e-5), else logits / temperature, min-p (those that follow the first in
// the order of logits whose probability is not at least min_p times the greatest leave with it),
// the top_k greatest, and of these the fewest greatest whose share reaches top_p. Ties go to the
// lowest id everywhere.
//
// The draw is a function of (seed, member, position) and the arguments: no state, so that it can be
// resumed anywhere. Log-probabilities are those of the raw logits.
//
// What a device has reduced the row to gives the same token, log-probabilities and top list as the
// row, bit for bit, wherever it is enough to tell.
class Sampler {
  public:
    explicit Sampler(const ops::Kernels& kernels) : kernels_(kernels), reducer_(kernels) {}

    // invalid: a NaN or infinite logit, a token outside the vocabulary, a parameter outside its
    // range, no token allowed.
    base::Result<core::ProducedToken> sample(const SampleInput& input,
                                             const spec::SamplingParams& params);
    // As sample(), of a row that `input` does not have. The tokens that params change are named.
    // Nothing: the row itself is needed.
    base::Result<std::optional<core::ProducedToken>> sample_reduced(
        const SampleInput& input, const ReducedRow& row, const spec::SamplingParams& params);

    // The token, which was not drawn, with its log-probability and the n_logprobs greatest: what
    // sample() says of it where it draws it. invalid: a NaN or infinite logit.
    base::Result<core::ProducedToken> score(const SampleInput& input, spec::Token token,
                                            std::int32_t n_logprobs);
    // As score(). Nothing: the row itself is needed.
    static std::optional<core::ProducedToken> score_reduced(const SampleInput& input,
                                                            const ReducedRow& row,
                                                            spec::Token token,
                                                            std::int32_t n_logprobs);

  private:
    struct Candidate {
        float logit = 0;  // adjusted
        float weight = 0;
        spec::Token token = 0;
    };

    base::Result<ops::RowReducer::Row> reduce(const SampleInput& input, std::int32_t n_logprobs);
    base::Status adjust(const SampleInput& input, const spec::SamplingParams& params);
    void penalise(const SampleInput& input, const spec::SamplingParams& params);
    // top: the greatest adjusted logit of the allowed.
    spec::Token draw(const spec::SamplingParams& params, const SampleInput& input, float top);
    spec::Token draw_from_all(const SampleInput& input, double random);
    void cut(const spec::SamplingParams& params, const SampleInput& input);
    base::Status adjust_named(const SampleInput& input, const ReducedRow& row,
                              const spec::SamplingParams& params);
    void rank(const SampleInput& input, const ReducedRow& row);
    bool cut_ranked(const ReducedRow& row, const spec::SamplingParams& params);
    void keep_top(const spec::SamplingParams& params);
    spec::Token draw_from_candidates(double random) const;

    const ops::Kernels& kernels_;
    ops::RowReducer reducer_;
    std::span<const float> adjusted_;  // the input's logits, or logits_
    // Work space.
    std::vector<float> logits_;
    std::vector<float> weights_;  // exp(logit - greatest)
    std::vector<Candidate> candidates_;
    std::vector<NamedLogit> named_;  // adjusted
    std::vector<std::int32_t> output_counts_;
    std::vector<std::uint8_t> seen_;
};

}  // namespace helix::engine

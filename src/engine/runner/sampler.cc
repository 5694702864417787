#include "engine/runner/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/random.h"
#include "engine/runner/sampler_rules.h"

namespace helix::engine {
namespace {

constexpr float kGreedyBelow = 1e-5F;

base::Status check_bias(const spec::SamplingParams& params, spec::Token vocab) {
    for (const auto& [token, bias] : params.logit_bias) {
        if (token < 0 || token >= vocab) {
            return base::invalid(
                fmt::format("logit_bias names token {}; the vocabulary has {}", token, vocab));
        }
        if (!std::isfinite(bias))
            return base::invalid(fmt::format("logit_bias of token {} is {}", token, bias));
    }
    return base::Ok{};
}

// Of the allowed; -1: none is.
spec::Token greatest(std::span<const float> logits, const SampleInput& input) {
    if (input.allowed.empty()) {
        return static_cast<spec::Token>(std::max_element(logits.begin(), logits.end()) -
                                        logits.begin());
    }
    spec::Token best = -1;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const auto token = static_cast<spec::Token>(i);
        if (!is_allowed(input, token)) continue;
        if (best < 0 || logits[i] > logits[token_index(best)]) best = token;
    }
    return best;
}

void put_logprobs(const SampleInput& input, const ops::RowReducer::Row& row, std::int32_t count,
                  core::ProducedToken& produced) {
    const float top = row.top.front().logit;
    produced.logprob = log_probability(input.logits[token_index(produced.token)], top, row.sum);
    for (const ops::TopLogit& one : row.top.first(std::min(token_index(count), row.top.size())))
        produced.top.push_back({one.token, log_probability(one.logit, top, row.sum)});
}

}  // namespace

bool is_greedy(const spec::SamplingParams& params) {
    return params.temperature < kGreedyBelow;
}

bool has_penalties(const spec::SamplingParams& params) {
    return params.repetition_penalty != 1.0F || params.frequency_penalty != 0.0F ||
           params.presence_penalty != 0.0F;
}

base::Result<core::ProducedToken> Sampler::sample(const SampleInput& input,
                                                  const spec::SamplingParams& params) {
    TRY_VOID(check_params(params));
    TRY(const ops::RowReducer::Row row, reduce(input, params.n_logprobs));
    core::ProducedToken produced;
    produced.position = input.position;
    TRY_VOID(adjust(input, params));
    const bool as_it_is = adjusted_.data() == input.logits.data() && input.allowed.empty();
    produced.token = as_it_is ? row.top.front().token : greatest(adjusted_, input);
    if (produced.token < 0) return no_token_allowed();
    if (!is_greedy(params))
        produced.token = draw(params, input, adjusted_[token_index(produced.token)]);
    if (params.n_logprobs >= 0) put_logprobs(input, row, params.n_logprobs, produced);
    return produced;
}

base::Result<core::ProducedToken> Sampler::score(const SampleInput& input, spec::Token token,
                                                 std::int32_t n_logprobs) {
    TRY(const ops::RowReducer::Row row, reduce(input, n_logprobs));
    core::ProducedToken produced;
    produced.position = input.position;
    produced.token = token;
    if (n_logprobs >= 0) put_logprobs(input, row, n_logprobs, produced);
    return produced;
}

// With what log-probabilities take.
base::Result<ops::RowReducer::Row> Sampler::reduce(const SampleInput& input,
                                                   std::int32_t n_logprobs) {
    const ops::RowReducer::Row row =
        reducer_.reduce(input.logits, std::max(1, n_logprobs), n_logprobs >= 0);
    if (row.broken < 0) return row;
    return base::Error{
        base::Errc::internal,
        fmt::format("the logit of token {} at position {} is {}: the weights or a "
                    "received activation are broken",
                    row.broken, input.position, input.logits[token_index(row.broken)])};
}

base::Status Sampler::adjust(const SampleInput& input, const spec::SamplingParams& params) {
    adjusted_ = input.logits;
    if (params.logit_bias.empty() && !has_penalties(params)) return base::Ok{};
    logits_.assign(input.logits.begin(), input.logits.end());
    adjusted_ = logits_;
    const auto vocab = static_cast<spec::Token>(logits_.size());
    TRY_VOID(check_bias(params, vocab));
    for (const auto& [token, bias] : params.logit_bias) logits_[token_index(token)] += bias;
    if (has_penalties(params)) {
        for (const spec::Token token : input.history) {
            if (token < 0 || token >= vocab) {
                return base::invalid(
                    fmt::format("the history holds token {}; the vocabulary has {}", token, vocab));
            }
        }
        penalise(input, params);
    }
    for (std::size_t i = 0; i < logits_.size(); ++i)
        TRY_VOID(check_adjusted(static_cast<spec::Token>(i), logits_[i]));
    return base::Ok{};
}

void Sampler::penalise(const SampleInput& input, const spec::SamplingParams& params) {
    seen_.assign(logits_.size(), 0);
    output_counts_.assign(logits_.size(), 0);
    for (std::size_t i = 0; i < input.history.size(); ++i) {
        seen_[token_index(input.history[i])] = 1;
        if (i >= token_index(input.prompt_tokens)) ++output_counts_[token_index(input.history[i])];
    }
    for (std::size_t i = 0; i < logits_.size(); ++i)
        penalise_logit(params, seen_[i] != 0, output_counts_[i], logits_[i]);
}

spec::Token Sampler::draw(const spec::SamplingParams& params, const SampleInput& input, float top) {
    weights_.resize(adjusted_.size());
    kernels_.exp_row(adjusted_.data(), std::ssize(adjusted_), top, 1.0F / params.temperature,
                     weights_.data());
    const double random = random_of(params, input);
    if (params.top_k <= 0 && params.top_p >= 1.0F && params.min_p <= 0)
        return draw_from_all(input, random);
    cut(params, input);
    keep_top(params);
    return draw_from_candidates(random);
}

// In one pass more than it takes to add them up.
spec::Token Sampler::draw_from_all(const SampleInput& input, double random) {
    if (!input.allowed.empty()) {
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            if (!is_allowed(input, static_cast<spec::Token>(i))) weights_[i] = 0;
        }
    }
    double total = 0;
    for (const float weight : weights_) total += static_cast<double>(weight);
    double left = random * total;
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        if (weights_[i] <= 0) continue;
        last = i;
        left -= static_cast<double>(weights_[i]);
        if (left < 0) break;
    }
    return static_cast<spec::Token>(last);  // the last of all only by rounding
}

// Candidates are the allowed before the first that is too light, in ascending order of tokens.
// Weights need not fall as logits do, since exp rounds.
void Sampler::cut(const spec::SamplingParams& params, const SampleInput& input) {
    float too_light = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        if (is_heavy_enough(params, weights_[i]) || adjusted_[i] <= too_light) continue;
        if (is_allowed(input, static_cast<spec::Token>(i))) too_light = adjusted_[i];
    }
    candidates_.clear();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        const auto token = static_cast<spec::Token>(i);
        if (adjusted_[i] > too_light && is_allowed(input, token))
            candidates_.push_back({adjusted_[i], weights_[i], token});
    }
}

// Leaves in candidates_ what top_k and top_p keep, in ascending order of tokens.
void Sampler::keep_top(const spec::SamplingParams& params) {
    const bool by_count = params.top_k > 0 && token_index(params.top_k) < candidates_.size();
    const bool by_share = params.top_p < 1.0F;
    const auto better = [](const Candidate& a, const Candidate& b) {
        return ops::is_greater({a.logit, a.token}, {b.logit, b.token});
    };
    if (by_count) {
        const auto end = candidates_.begin() + params.top_k;
        std::nth_element(candidates_.begin(), end - 1, candidates_.end(), better);
        candidates_.erase(end, candidates_.end());
    }
    if (by_share) {
        double total = 0;
        // In one fixed order: the sum must not depend on how nth_element left them.
        std::sort(candidates_.begin(), candidates_.end(), better);
        for (const Candidate& candidate : candidates_)
            total += static_cast<double>(candidate.weight);
        const double wanted = total * static_cast<double>(params.top_p);
        double share = 0;
        std::size_t kept = 0;
        while (kept < candidates_.size() && (kept == 0 || share < wanted)) {
            share += static_cast<double>(candidates_[kept++].weight);
        }
        candidates_.resize(kept);
    }
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

spec::Token Sampler::draw_from_candidates(double random) const {
    double total = 0;
    for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
    double left = random * total;
    for (const Candidate& candidate : candidates_) {
        left -= static_cast<double>(candidate.weight);
        if (left < 0) return candidate.token;
    }
    return candidates_.back().token;  // only by rounding
}

}  // namespace helix::engine

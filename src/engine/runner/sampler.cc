#include "engine/runner/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/random.h"

namespace helix::engine {
namespace {

constexpr float kGreedyBelow = 1e-5F;

std::size_t index(spec::Token token) {
    return static_cast<std::size_t>(token);
}

base::Status check_params(const spec::SamplingParams& p) {
    const auto bad = [](const char* name, float value, const char* range) {
        return base::invalid(fmt::format("{} is {}; it must be {}", name, value, range));
    };
    // Written so that NaN fails.
    if (!(p.temperature >= 0.0F && std::isfinite(p.temperature)))
        return bad("temperature", p.temperature, "0 or more");
    if (!(p.top_p >= 0.0F && p.top_p <= 1.0F)) return bad("top_p", p.top_p, "within [0, 1]");
    if (!(p.min_p >= 0.0F && p.min_p <= 1.0F)) return bad("min_p", p.min_p, "within [0, 1]");
    if (!(p.repetition_penalty > 0.0F && std::isfinite(p.repetition_penalty)))
        return bad("repetition_penalty", p.repetition_penalty, "above 0");
    if (!std::isfinite(p.frequency_penalty))
        return bad("frequency_penalty", p.frequency_penalty, "finite");
    if (!std::isfinite(p.presence_penalty))
        return bad("presence_penalty", p.presence_penalty, "finite");
    return base::Ok{};
}

spec::Token greatest(std::span<const float> logits) {
    return static_cast<spec::Token>(std::max_element(logits.begin(), logits.end()) -
                                    logits.begin());
}

base::Status check_logits(const SampleInput& input) {
    for (std::size_t i = 0; i < input.logits.size(); ++i) {
        if (std::isfinite(input.logits[i])) continue;
        return base::Error{base::Errc::internal,
                           fmt::format("the logit of token {} at position {} is {}: the weights or "
                                       "a received activation are broken",
                                       i, input.position, input.logits[i])};
    }
    return base::Ok{};
}

bool is_allowed(const SampleInput& input, std::size_t token) {
    if (input.allowed.empty()) return true;
    const std::size_t word = token / 64;
    return word < input.allowed.size() && ((input.allowed[word] >> (token % 64)) & 1U) != 0;
}

}  // namespace

base::Result<core::ProducedToken> Sampler::sample(const SampleInput& input,
                                                  const spec::SamplingParams& params) {
    TRY_VOID(check_params(params));
    TRY_VOID(check_logits(input));
    core::ProducedToken produced;
    produced.position = input.position;
    TRY_VOID(adjust(input, params));
    TRY_VOID(check_adjusted());
    TRY_VOID(keep_allowed(input));
    produced.token = params.temperature < kGreedyBelow ? greatest(logits_) : draw(params, input);
    if (params.n_logprobs >= 0) fill_logprobs(input, params.n_logprobs, produced);
    return produced;
}

base::Result<core::ProducedToken> Sampler::score(const SampleInput& input, spec::Token token,
                                                 std::int32_t n_logprobs) {
    TRY_VOID(check_logits(input));
    core::ProducedToken produced;
    produced.position = input.position;
    produced.token = token;
    if (n_logprobs >= 0) fill_logprobs(input, n_logprobs, produced);
    return produced;
}

base::Status Sampler::adjust(const SampleInput& input, const spec::SamplingParams& params) {
    logits_.assign(input.logits.begin(), input.logits.end());
    const auto vocab = static_cast<spec::Token>(logits_.size());
    for (const auto& [token, bias] : params.logit_bias) {
        if (token < 0 || token >= vocab) {
            return base::invalid(
                fmt::format("logit_bias names token {}; the vocabulary has {}", token, vocab));
        }
        if (!std::isfinite(bias))
            return base::invalid(fmt::format("logit_bias of token {} is {}", token, bias));
        logits_[index(token)] += bias;
    }
    if (!params.needs_history()) return base::Ok{};
    for (const spec::Token token : input.history) {
        if (token < 0 || token >= vocab) {
            return base::invalid(
                fmt::format("the history holds token {}; the vocabulary has {}", token, vocab));
        }
    }
    penalise(input, params);
    return base::Ok{};
}

base::Status Sampler::check_adjusted() const {
    for (std::size_t i = 0; i < logits_.size(); ++i) {
        if (!std::isfinite(logits_[i])) {
            return base::invalid(
                fmt::format("bias and penalties make the logit of token {} {}", i, logits_[i]));
        }
    }
    return base::Ok{};
}

// Puts the logits of all others just below the smallest of the allowed, so that none of them is the
// greatest.
base::Status Sampler::keep_allowed(const SampleInput& input) {
    if (input.allowed.empty()) return base::Ok{};
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < logits_.size(); ++i) {
        if (is_allowed(input, i)) least = std::min(least, logits_[i]);
    }
    if (!std::isfinite(least)) return base::invalid("the grammar allows no token here");
    const float below = std::nextafter(least, std::numeric_limits<float>::lowest());
    if (below == least) return base::invalid("a logit is the smallest number there is");
    for (std::size_t i = 0; i < logits_.size(); ++i) {
        if (!is_allowed(input, i)) logits_[i] = below;
    }
    return base::Ok{};
}

void Sampler::penalise(const SampleInput& input, const spec::SamplingParams& params) {
    seen_.assign(logits_.size(), 0);
    output_counts_.assign(logits_.size(), 0);
    for (std::size_t i = 0; i < input.history.size(); ++i) {
        seen_[index(input.history[i])] = 1;
        if (i >= index(input.prompt_tokens)) ++output_counts_[index(input.history[i])];
    }
    for (std::size_t i = 0; i < logits_.size(); ++i) {
        float& logit = logits_[i];
        if (seen_[i] != 0) {
            logit = logit > 0.0F ? logit / params.repetition_penalty
                                 : logit * params.repetition_penalty;
        }
        if (output_counts_[i] > 0) {
            logit -= params.frequency_penalty * static_cast<float>(output_counts_[i]);
            logit -= params.presence_penalty;
        }
    }
}

spec::Token Sampler::draw(const spec::SamplingParams& params, const SampleInput& input) {
    const float top = *std::max_element(logits_.begin(), logits_.end());
    weights_.resize(logits_.size());
    kernels_.exp_row(logits_.data(), static_cast<std::int64_t>(logits_.size()), top,
                     1.0F / params.temperature, weights_.data());
    candidates_.clear();
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        if (weights_[i] > 0.0F && weights_[i] >= params.min_p && is_allowed(input, i))
            candidates_.push_back(static_cast<spec::Token>(i));
    }
    keep_top(params);
    double total = 0;
    for (const spec::Token token : candidates_)
        total += static_cast<double>(weights_[index(token)]);
    const std::uint64_t seed = spec::member_seed(params.seed, input.member);
    const auto counter = static_cast<std::uint64_t>(input.position);
    double left = base::unit_double(base::hash_pair(seed, counter)) * total;
    for (const spec::Token token : candidates_) {
        left -= static_cast<double>(weights_[index(token)]);
        if (left < 0) return token;
    }
    return candidates_.back();  // only by rounding
}

// Leaves in candidates_ what top_k and top_p keep, in ascending order.
void Sampler::keep_top(const spec::SamplingParams& params) {
    const bool by_count = params.top_k > 0 && index(params.top_k) < candidates_.size();
    const bool by_share = params.top_p < 1.0F;
    if (!by_count && !by_share) return;
    const auto better = [this](spec::Token a, spec::Token b) {
        const float wa = weights_[index(a)];
        const float wb = weights_[index(b)];
        return wa != wb ? wa > wb : a < b;
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
        for (const spec::Token token : candidates_)
            total += static_cast<double>(weights_[index(token)]);
        const double wanted = total * static_cast<double>(params.top_p);
        double share = 0;
        std::size_t kept = 0;
        while (kept < candidates_.size() && (kept == 0 || share < wanted)) {
            share += static_cast<double>(weights_[index(candidates_[kept++])]);
        }
        candidates_.resize(kept);
    }
    std::sort(candidates_.begin(), candidates_.end());
}

void Sampler::fill_logprobs(const SampleInput& input, std::int32_t count,
                            core::ProducedToken& produced) {
    const std::span<const float> logits = input.logits;
    const float top = *std::max_element(logits.begin(), logits.end());
    weights_.resize(logits.size());
    kernels_.exp_row(logits.data(), static_cast<std::int64_t>(logits.size()), top, 1.0F,
                     weights_.data());
    double sum = 0;
    for (const float weight : weights_) sum += static_cast<double>(weight);
    const double log_sum = std::log(sum) + static_cast<double>(top);
    const auto logprob = [&](spec::Token token) {
        return static_cast<float>(static_cast<double>(logits[index(token)]) - log_sum);
    };
    produced.logprob = logprob(produced.token);
    candidates_.resize(logits.size());
    std::iota(candidates_.begin(), candidates_.end(), 0);
    const auto wanted = std::min(index(count), candidates_.size());
    std::partial_sort(candidates_.begin(),
                      candidates_.begin() + static_cast<std::ptrdiff_t>(wanted), candidates_.end(),
                      [&](spec::Token a, spec::Token b) {
                          const float la = logits[index(a)];
                          const float lb = logits[index(b)];
                          return la != lb ? la > lb : a < b;
                      });
    for (std::size_t i = 0; i < wanted; ++i) {
        produced.top.push_back({candidates_[i], logprob(candidates_[i])});
    }
}

}  // namespace helix::engine

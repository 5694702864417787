#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "base/random.h"
#include "base/result.h"
#include "engine/runner/sampler.h"
#include "spec/sampling_params.h"

// The sampler's rules for single tokens, which hold for whole rows and for what they are reduced
// to.

namespace helix::engine {

inline std::size_t token_index(spec::Token token) {
    return static_cast<std::size_t>(token);
}

base::Status check_params(const spec::SamplingParams& params);

inline bool is_allowed(const SampleInput& input, spec::Token token) {
    if (input.allowed.empty()) return true;
    const std::size_t word = token_index(token) / 64;
    return word < input.allowed.size() &&
           ((input.allowed[word] >> (token_index(token) % 64)) & 1U) != 0;
}

inline base::Error no_token_allowed() {
    return base::invalid("the grammar allows no token here");
}

// seen: in prompt or output. count: in the output.
inline void penalise_logit(const spec::SamplingParams& params, bool seen, std::int32_t count,
                           float& logit) {
    if (seen) {
        logit =
            logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    if (count > 0) {
        logit -= params.frequency_penalty * static_cast<float>(count);
        logit -= params.presence_penalty;
    }
}

inline base::Status check_adjusted(spec::Token token, float logit) {
    if (std::isfinite(logit)) return base::Ok{};
    return base::invalid(
        fmt::format("bias and penalties make the logit of token {} {}", token, logit));
}

inline bool is_heavy_enough(const spec::SamplingParams& params, float weight) {
    return weight > 0.0F && weight >= params.min_p;
}

// In [0, 1).
inline double random_of(const spec::SamplingParams& params, const SampleInput& input) {
    const std::uint64_t seed = spec::member_seed(params.seed, input.member);
    return base::unit_double(base::hash_pair(seed, static_cast<std::uint64_t>(input.position)));
}

// top: the greatest logit; sum: that of all weights, which are relative to it.
inline float log_probability(float logit, float top, float sum) {
    const double below = static_cast<double>(logit) - static_cast<double>(top);
    return static_cast<float>(below - std::log(static_cast<double>(sum)));
}

}  // namespace helix::engine

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/runner/sampler.h"
#include "engine/runner/sampler_rules.h"

// How the sampler draws from what a row was reduced to. The greatest logits and those that are
// named are known, and that all others come after the last of the greatest. So the order of tokens
// is known down to there.

namespace helix::engine {
namespace {

// False: the row's greatest do not hold so many.
bool put_reduced_logprobs(const ReducedRow& row, std::int32_t count,
                          core::ProducedToken& produced) {
    const std::int64_t wanted = std::min<std::int64_t>(count, row.vocab);
    const auto logit = row.logit_of(produced.token);
    if (!logit || wanted > std::ssize(row.logits)) return false;
    produced.logprob = log_probability(*logit, row.logits.front(), row.sum);
    for (std::size_t i = 0; i < static_cast<std::size_t>(wanted); ++i) {
        produced.top.push_back(
            {row.token(i), log_probability(row.logits[i], row.logits.front(), row.sum)});
    }
    return true;
}

}  // namespace

base::Result<std::optional<core::ProducedToken>> Sampler::sample_reduced(
    const SampleInput& input, const ReducedRow& row, const spec::SamplingParams& params) {
    using Drawn = std::optional<core::ProducedToken>;
    TRY_VOID(check_params(params));
    if (row.broken) return Drawn();
    TRY_VOID(adjust_named(input, row, params));
    rank(input, row);
    if (candidates_.empty()) {
        if (row.complete()) return no_token_allowed();
        return Drawn();
    }
    core::ProducedToken produced;
    produced.position = input.position;
    produced.token = candidates_.front().token;
    if (!is_greedy(params)) {
        if (!cut_ranked(row, params)) return Drawn();
        keep_top(params);
        produced.token = draw_from_candidates(random_of(params, input));
    }
    if (params.n_logprobs >= 0 && !put_reduced_logprobs(row, params.n_logprobs, produced))
        return Drawn();
    return Drawn(std::move(produced));
}

std::optional<core::ProducedToken> Sampler::score_reduced(const SampleInput& input,
                                                          const ReducedRow& row, spec::Token token,
                                                          std::int32_t n_logprobs) {
    if (row.broken) return {};
    core::ProducedToken produced;
    produced.position = input.position;
    produced.token = token;
    if (n_logprobs >= 0 && !put_reduced_logprobs(row, n_logprobs, produced)) return {};
    return produced;
}

// Leaves in named_ what bias and penalties make of the logits that they may change.
base::Status Sampler::adjust_named(const SampleInput& input, const ReducedRow& row,
                                   const spec::SamplingParams& params) {
    named_.assign(row.named.begin(), row.named.end());
    const auto place_of = [this](spec::Token token) {
        const auto at = std::lower_bound(
            named_.begin(), named_.end(), token,
            [](const NamedLogit& one, spec::Token other) { return one.token < other; });
        CHECK(at != named_.end() && at->token == token);
        return static_cast<std::size_t>(at - named_.begin());
    };
    for (const auto& [token, bias] : params.logit_bias) named_[place_of(token)].logit += bias;
    if (has_penalties(params)) {
        seen_.assign(named_.size(), 0);
        output_counts_.assign(named_.size(), 0);
        for (std::size_t i = 0; i < input.history.size(); ++i) {
            const std::size_t at = place_of(input.history[i]);
            seen_[at] = 1;
            if (i >= token_index(input.prompt_tokens)) ++output_counts_[at];
        }
        for (std::size_t i = 0; i < named_.size(); ++i)
            penalise_logit(params, seen_[i] != 0, output_counts_[i], named_[i].logit);
    }
    for (const NamedLogit& one : named_) TRY_VOID(check_adjusted(one.token, one.logit));
    return base::Ok{};
}

// Leaves in candidates_ the allowed tokens in the order of their adjusted logits, as far as it is
// known.
void Sampler::rank(const SampleInput& input, const ReducedRow& row) {
    candidates_.clear();
    for (const NamedLogit& one : named_) candidates_.push_back({one.logit, 0, one.token});
    const auto is_named = [this](spec::Token token) {
        return std::binary_search(
            named_.begin(), named_.end(), NamedLogit{token, 0},
            [](const NamedLogit& a, const NamedLogit& b) { return a.token < b.token; });
    };
    for (std::size_t i = 0; i < row.logits.size(); ++i) {
        if (!is_named(row.token(i))) candidates_.push_back({row.logits[i], 0, row.token(i)});
    }
    const ops::TopLogit last{row.logits.back(), row.token(row.logits.size() - 1)};
    const auto unknown = [&](const Candidate& one) {
        const bool behind = !row.complete() && ops::is_greater(last, {one.logit, one.token});
        return behind || !is_allowed(input, one.token);
    };
    candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), unknown),
                      candidates_.end());
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
        return ops::is_greater({a.logit, a.token}, {b.logit, b.token});
    });
}

// As cut(), of ranked candidates, and at most top_k. False: more may belong to them.
bool Sampler::cut_ranked(const ReducedRow& row, const spec::SamplingParams& params) {
    logits_.clear();
    for (const Candidate& one : candidates_) logits_.push_back(one.logit);
    weights_.resize(logits_.size());
    kernels_.exp_row(logits_.data(), std::ssize(logits_), logits_.front(),
                     1.0F / params.temperature, weights_.data());
    const std::size_t most =
        params.top_k > 0 ? token_index(params.top_k) : std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (i == most || !is_heavy_enough(params, weights_[i])) {
            candidates_.resize(i);
            return true;
        }
        candidates_[i].weight = weights_[i];
    }
    return candidates_.size() == most || row.complete();
}

}  // namespace helix::engine

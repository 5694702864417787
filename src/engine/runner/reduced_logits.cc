#include "engine/runner/reduced_logits.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"
#include "engine/runner/sampler.h"

namespace helix::engine {
namespace {

// Of tokens that bias and penalties may change, counted with repetitions.
constexpr std::size_t kMaxNamed = 1024;
// That min_p leaves of a distribution that is not flat, and among which one is that a grammar
// allows. Where they do not do, the row is read.
constexpr std::int64_t kLikelyEnough = 64;

// How many of the greatest tokens a draw may take, at least. Nothing: all.
std::optional<std::int64_t> draw_width(const spec::SamplingParams& p) {
    if (is_greedy(p)) return 1;
    if (p.top_k > 0 && p.top_k <= ops::kMaxTopLogits) return p.top_k;
    if (p.min_p > 0) return kLikelyEnough;
    return {};
}

// Ascending. Nothing: they are too many, or the sampler has something to say against one.
std::optional<std::vector<spec::Token>> changed_tokens(const core::BatchChunk& chunk,
                                                       std::int64_t vocab) {
    const spec::SamplingParams& p = chunk.sampling;
    std::vector<spec::Token> tokens;
    const std::size_t history = has_penalties(p) ? chunk.history.size() : 0;
    if (p.logit_bias.size() + history > kMaxNamed) return {};
    for (const auto& [token, bias] : p.logit_bias) {
        if (!std::isfinite(bias)) return {};
        tokens.push_back(token);
    }
    if (history > 0) tokens.insert(tokens.end(), chunk.history.begin(), chunk.history.end());
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    if (!tokens.empty() && (tokens.front() < 0 || tokens.back() >= vocab)) return {};
    return tokens;
}

}  // namespace

std::optional<float> ReducedRow::logit_of(spec::Token wanted) const {
    const auto at = std::lower_bound(
        named.begin(), named.end(), wanted,
        [](const NamedLogit& one, spec::Token other) { return one.token < other; });
    if (at != named.end() && at->token == wanted) return at->logit;
    const auto top = std::find(tokens.begin(), tokens.end(), static_cast<float>(wanted));
    if (top == tokens.end()) return {};
    return logits[base::at(top - tokens.begin())];
}

std::optional<ReductionNeeds> reduction_needs(const core::BatchChunk& chunk, std::int64_t vocab) {
    const spec::SamplingParams& p = chunk.sampling;
    const auto width = draw_width(p);
    if (!width || vocab > ops::kMaxReducedVocab) return {};
    const std::int64_t n_logprobs = std::min<std::int64_t>(p.n_logprobs, vocab);
    if (n_logprobs > ops::kMaxTopLogits) return {};
    auto named = changed_tokens(chunk, vocab);
    if (!named) return {};
    // So many are enough, whichever of them bias and penalties change.
    std::int64_t n_top = *width + std::ssize(*named);
    if (p.grammar.present()) n_top += kLikelyEnough;
    n_top = std::min({std::max(n_top, n_logprobs), std::int64_t{ops::kMaxTopLogits}, vocab});
    return ReductionNeeds{static_cast<int>(n_top), p.n_logprobs >= 0, std::move(*named)};
}

std::optional<ReductionNeeds> scoring_needs(const core::BatchChunk& chunk, std::int64_t vocab) {
    const std::int64_t n = std::min<std::int64_t>(chunk.sampling.n_logprobs, vocab);
    if (n > ops::kMaxTopLogits || vocab > ops::kMaxReducedVocab) return {};
    return ReductionNeeds{static_cast<int>(std::max<std::int64_t>(1, n)), true, {}};
}

void ReducedLogits::clear() {
    asked_.clear();
    first_named_.assign(1, 0);
}

void ReducedLogits::add_row(std::span<const spec::Token> named) {
    const auto row = static_cast<std::int32_t>(rows());
    for (const spec::Token token : named) asked_.push_back({row, token});
    first_named_.push_back(std::ssize(asked_));
}

void ReducedLogits::set(std::span<const float> reduced, std::int64_t vocab, int n_top) {
    CHECK(std::ssize(reduced) == ops::reduced_floats(rows(), n_top, std::ssize(asked_)));
    reduced_.assign(reduced.begin(), reduced.end());
    vocab_ = vocab;
    n_top_ = n_top;
    const std::size_t first = reduced_.size() - asked_.size();
    named_.clear();
    for (std::size_t i = 0; i < asked_.size(); ++i)
        named_.push_back({asked_[i].token, reduced_[first + i]});
}

ReducedRow ReducedLogits::row(std::int64_t i) const {
    CHECK(i >= 0 && i < rows());
    using At = ops::ReducedRowAt;
    const auto floats = std::span(reduced_).subspan(base::at(i * At::floats(n_top_)),
                                                    base::size_of(At::floats(n_top_)));
    ReducedRow row;
    row.vocab = vocab_;
    row.broken = floats[At::kBroken] >= 0;
    row.sum = floats[At::kSum];
    row.logits = floats.subspan(At::kLogits, base::size_of(n_top_));
    row.tokens = floats.subspan(base::at(At::kLogits + n_top_), base::size_of(n_top_));
    const std::int64_t named = first_named_[base::at(i)];
    row.named = std::span(named_).subspan(base::at(named),
                                          base::size_of(first_named_[base::at(i) + 1] - named));
    return row;
}

}  // namespace helix::engine

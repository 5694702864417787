#include "engine/runner/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <map>

#include <gtest/gtest.h>

#include "op_helpers.h"

namespace helix::engine::test::sampler_test {
namespace {

using spec::SamplingParams;
using spec::Token;

// What sampler.h promises, written down plainly in double precision: the probability of each token.
std::vector<double> exact_distribution(const std::vector<float>& logits, const SamplingParams& p,
                                       const std::vector<Token>& history,
                                       std::size_t prompt_tokens) {
    std::vector<double> l(logits.begin(), logits.end());
    for (const auto& [token, bias] : p.logit_bias)
        l[static_cast<std::size_t>(token)] += static_cast<double>(bias);
    for (std::size_t i = 0; i < l.size(); ++i) {
        const auto is = [i](Token t) { return t == static_cast<Token>(i); };
        const auto out = history.begin() + static_cast<std::ptrdiff_t>(prompt_tokens);
        const auto repetition = static_cast<double>(p.repetition_penalty);
        if (std::any_of(history.begin(), history.end(), is))
            l[i] = l[i] > 0 ? l[i] / repetition : l[i] * repetition;
        const auto count = static_cast<double>(std::count_if(out, history.end(), is));
        l[i] -= static_cast<double>(p.frequency_penalty) * count;
        if (count > 0) l[i] -= static_cast<double>(p.presence_penalty);
    }
    std::vector<std::size_t> order(l.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return l[a] > l[b]; });
    std::vector<double> w(l.size(), 0.0);
    for (std::size_t i = 0; i < l.size(); ++i) {
        w[i] = std::exp((l[i] - l[order[0]]) / static_cast<double>(p.temperature));
        if (w[i] < static_cast<double>(p.min_p)) w[i] = 0;
    }
    if (p.top_k > 0) {
        for (std::size_t i = static_cast<std::size_t>(p.top_k); i < order.size(); ++i)
            w[order[i]] = 0;
    }
    const double total = std::accumulate(w.begin(), w.end(), 0.0);
    double share = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i > 0 && share >= static_cast<double>(p.top_p) * total) w[order[i]] = 0;
        share += w[order[i]];
    }
    const double kept = std::accumulate(w.begin(), w.end(), 0.0);
    for (double& v : w) v /= kept;
    return w;
}

class SamplerTest : public testing::Test {
  protected:
    base::Result<core::ProducedToken> try_draw(const SamplingParams& p, std::int32_t position = 9) {
        return sampler_.sample({logits_, history_, prompt_tokens_, position}, p);
    }
    core::ProducedToken draw(const SamplingParams& p, std::int32_t position = 9) {
        auto result = try_draw(p, position);
        EXPECT_TRUE(result.ok()) << result.error().message;
        return std::move(result).value();
    }

    // Chi-square of 20,000 draws at successive positions. Limit: mean + 5 sigma of the statistic.
    void expect_distribution(SamplingParams p, const char* what) {
        const auto exact =
            exact_distribution(logits_, p, history_, static_cast<std::size_t>(prompt_tokens_));
        constexpr int kDraws = 20000;
        p.seed = 77;
        std::vector<int> counts(logits_.size(), 0);
        for (int i = 0; i < kDraws; ++i) ++counts[static_cast<std::size_t>(draw(p, i).token)];
        double chi = 0, cells = 0, rest_expected = 0, rest_counted = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
            if (exact[i] == 0) {
                EXPECT_EQ(counts[i], 0) << what << ": token " << i << " is filtered out";
            }
            const double expected = exact[i] * kDraws;
            if (expected < 10) {  // too rare for the approximation: taken together
                rest_expected += expected;
                rest_counted += counts[i];
                continue;
            }
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
            ++cells;
        }
        if (rest_expected >= 10) {
            chi += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
            ++cells;
        }
        EXPECT_LE(chi, cells + 5 * std::sqrt(2 * cells))
            << what << ": " << cells << " cells, seed " << p.seed;
    }

    Sampler sampler_{ops::kernels(ops::best_isa())};
    base::Random random_{41};
    std::vector<float> logits_ = random_floats(random_, 200, 4);
    std::vector<Token> history_{3, 3, 17, 44, 17, 80, 17, 150, 3};
    std::int32_t prompt_tokens_ = 4;
};

TEST_F(SamplerTest, GreedyTakesTheGreatestAndOfEqualOnesTheLowestId) {
    SamplingParams p;
    p.temperature = 0;
    logits_[120] = logits_[60] = logits_[61] = 50;
    EXPECT_EQ(draw(p).token, 60);
    EXPECT_EQ(draw(p).position, 9);
}

TEST_F(SamplerTest, DrawsFollowTheExactDistribution) {
    SamplingParams p;
    expect_distribution(p, "plain");
    p.temperature = 0.6F;
    expect_distribution(p, "temperature");
    p.top_k = 12;
    expect_distribution(p, "top_k");
    p.top_p = 0.8F;
    expect_distribution(p, "top_k and top_p");
    p.top_k = 0;
    p.min_p = 0.05F;
    expect_distribution(p, "top_p and min_p");
    p = {};
    p.temperature = 1.5F;
    p.top_p = 0.5F;
    expect_distribution(p, "top_p");
}

TEST_F(SamplerTest, PenaltiesAndBiasFollowTheirDefinition) {
    SamplingParams p;
    p.repetition_penalty = 1.4F;
    expect_distribution(p, "repetition");
    p.frequency_penalty = 0.7F;
    p.presence_penalty = -0.9F;
    p.logit_bias = {{5, 4.0F}, {9, -100.0F}, {17, 3.0F}};
    expect_distribution(p, "all");
    p.temperature = 0;
    p.logit_bias = {{5, 90.0F}};
    EXPECT_EQ(draw(p).token, 5);
}

TEST_F(SamplerTest, ADrawDependsOnSeedAndPositionOnly) {
    SamplingParams p;
    p.seed = 5;
    std::vector<Token> first, second, other;
    for (int i = 0; i < 200; ++i) first.push_back(draw(p, i).token);
    Sampler fresh(ops::kernels(ops::Isa::portable));
    for (int i = 199; i >= 0; --i) {
        auto again = fresh.sample({logits_, {}, 0, i}, p);
        ASSERT_TRUE(again.ok());
        second.insert(second.begin(), again->token);
    }
    EXPECT_EQ(first, second);
    p.seed = 6;
    for (int i = 0; i < 200; ++i) other.push_back(draw(p, i).token);
    EXPECT_NE(first, other);
}

TEST_F(SamplerTest, LogprobsAreThoseOfTheRawLogits) {
    SamplingParams p;
    p.temperature = 0.3F;
    p.repetition_penalty = 3;
    p.logit_bias = {{7, 50.0F}};
    p.n_logprobs = 5;
    logits_[90] = logits_[30] = 30;
    const core::ProducedToken token = draw(p);
    EXPECT_EQ(token.token, 7);
    double sum = 0;
    for (const float l : logits_) sum += std::exp(static_cast<double>(l));
    EXPECT_NEAR(token.logprob, static_cast<double>(logits_[7]) - std::log(sum), 1e-5);
    ASSERT_EQ(token.top.size(), 5U);
    EXPECT_EQ(token.top[0].token, 30);
    EXPECT_EQ(token.top[1].token, 90);
    for (std::size_t i = 0; i < 5; ++i) {
        const double exact =
            static_cast<double>(logits_[static_cast<std::size_t>(token.top[i].token)]) -
            std::log(sum);
        EXPECT_NEAR(token.top[i].logprob, exact, 1e-5);
        if (i > 0) {
            EXPECT_LE(token.top[i].logprob, token.top[i - 1].logprob);
        }
    }
    p.n_logprobs = 0;
    EXPECT_TRUE(draw(p).top.empty());
    EXPECT_NE(draw(p).logprob, 0.0F);
    p.n_logprobs = -1;
    EXPECT_EQ(draw(p).logprob, 0.0F);
    p.n_logprobs = 100000;
    EXPECT_EQ(draw(p).top.size(), logits_.size());
}

TEST_F(SamplerTest, BrokenLogitsAndBadParametersAreErrorsThatNameThem) {
    const auto expect_error = [&](const SamplingParams& p, const char* part) {
        const auto result = try_draw(p);
        ASSERT_FALSE(result.ok()) << part;
        EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
    };
    SamplingParams p;
    p.temperature = -1;
    expect_error(p, "temperature is -1");
    p = {};
    p.top_p = std::numeric_limits<float>::quiet_NaN();
    expect_error(p, "top_p");
    p = {};
    p.min_p = 2;
    expect_error(p, "min_p is 2");
    p = {};
    p.repetition_penalty = 0;
    expect_error(p, "repetition_penalty");
    p = {};
    p.logit_bias = {{200, 1.0F}};
    expect_error(p, "token 200; the vocabulary has 200");
    p.logit_bias = {{2, 3e38F}, {2, 3e38F}};
    expect_error(p, "token 2 inf");
    p = {};
    p.presence_penalty = 1;
    history_.push_back(-4);
    expect_error(p, "token -4");
    logits_[33] = std::numeric_limits<float>::quiet_NaN();
    expect_error({}, "token 33 at position 9 is nan");
    logits_[33] = -std::numeric_limits<float>::infinity();
    expect_error({}, "token 33 at position 9 is -inf");
}

TEST_F(SamplerTest, ExtremeButLegalParametersLeaveOneToken) {
    SamplingParams p;
    const auto best =
        static_cast<Token>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
    p.top_p = 0;
    EXPECT_EQ(draw(p).token, best);
    p = {};
    p.top_k = 1;
    EXPECT_EQ(draw(p).token, best);
    p = {};
    p.min_p = 1;
    EXPECT_EQ(draw(p).token, best);
    p = {};
    p.temperature = 1.1e-5F;
    EXPECT_EQ(draw(p).token, best);
}

TEST_F(SamplerTest, OnlyAllowedTokensAreDrawnAndInTheirOwnProportions) {
    std::vector<std::uint64_t> mask((logits_.size() + 63) / 64);
    const auto allow = [&](std::size_t token) {
        mask[token / 64] |= std::uint64_t{1} << token % 64;
    };
    std::vector<std::size_t> allowed = {1, 64, 70, 199};
    for (const std::size_t token : allowed) allow(token);
    const auto draw_allowed = [&](const SamplingParams& p, std::int32_t position) {
        auto result = sampler_.sample({logits_, history_, prompt_tokens_, position, 0, mask}, p);
        EXPECT_TRUE(result.ok()) << result.error().message;
        return static_cast<std::size_t>(result->token);
    };
    SamplingParams p;
    std::map<std::size_t, int> counts;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) ++counts[draw_allowed(p, i)];
    double total = 0;
    for (const std::size_t token : allowed) total += std::exp(static_cast<double>(logits_[token]));
    int drawn = 0;
    for (const std::size_t token : allowed) {
        const double expected = std::exp(static_cast<double>(logits_[token])) / total * kDraws;
        EXPECT_NEAR(counts[token], expected, 5 * std::sqrt(expected) + 5) << token;
        drawn += counts[token];
    }
    EXPECT_EQ(drawn, kDraws);
    // The greatest of the allowed, also where all of them are far below the rest.
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = 1000;
    for (const std::size_t token : allowed) logits_[token] = token == 70 ? -999 : -1000;
    p.temperature = 0;
    EXPECT_EQ(draw_allowed(p, 1), 70U);
    p.temperature = 1;
    p.top_k = 1;
    EXPECT_EQ(draw_allowed(p, 1), 70U);
    // Words that are missing allow nothing; no token at all is an error.
    mask = {0};
    const auto none = sampler_.sample({logits_, history_, prompt_tokens_, 1, 0, mask}, p);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().message, "the grammar allows no token here");
}

}  // namespace
}  // namespace helix::engine::test::sampler_test

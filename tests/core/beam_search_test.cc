#include "core/coordinator/beam_search.h"
#include "base/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"

namespace helix::core::beam_search_test {
namespace {

using Scored = std::vector<spec::TokenLogprob>;

// Log-probabilities after each sequence of a few tokens, drawn by a seed.
struct ToyModel {
    std::uint64_t seed = 1;
    Token vocab = 4;
    double spread = 3;

    Scored after(const std::vector<Token>& tokens) const {
        std::uint64_t digest = seed;
        for (const Token token : tokens) {
            digest = base::hash_pair(digest, static_cast<std::uint64_t>(token) + 1);
        }
        base::Random random(digest);
        Scored all;
        double sum = 0;
        for (Token token = 0; token < vocab; ++token) {
            const double logit = spread * random.uniform();
            all.push_back({token, static_cast<float>(logit)});
            sum += std::exp(logit);
        }
        for (auto& one : all) one.logprob -= static_cast<float>(std::log(sum));
        std::stable_sort(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
        return all;
    }
};

constexpr Token kEnd = 0;

BeamLimits limits_of(std::int32_t prompt, std::int32_t most) {
    return {prompt, most, 0, {kEnd}, -1};
}

std::vector<Beams::Finished> search(const ToyModel& model, const BeamSearch& rules,
                                    const BeamLimits& limits, std::size_t n) {
    Beams beams(rules, limits);
    while (!beams.over()) {
        std::vector<Scored> likely;
        for (std::size_t i = 0; i < beams.running(); ++i) {
            likely.push_back(model.after(beams.tokens(i)));
            const auto wanted = 2 * static_cast<std::size_t>(rules.width);
            if (likely.back().size() > wanted) likely.back().resize(wanted);
        }
        const auto parents = beams.advance(likely);
        EXPECT_EQ(parents.size(), beams.running());
        EXPECT_LE(beams.running(), static_cast<std::size_t>(rules.width));
        for (const std::size_t parent : parents) EXPECT_LT(parent, likely.size());
    }
    return beams.best(n);
}

std::vector<Token> tokens_of(const Beams::Finished& one) {
    std::vector<Token> tokens;
    for (const Beams::Step& step : one.steps) tokens.push_back(step.token);
    return tokens;
}

double score_of(double sum, std::int32_t length, double penalty) {
    return sum / std::pow(length, penalty);
}

// ---- every sequence there is
// ----------------------------------------------------------------------

struct Whole {
    std::vector<Token> tokens;
    double score = 0;
};

std::vector<Whole> all_sequences(const ToyModel& model, const BeamLimits& limits, double penalty) {
    std::vector<Whole> found;
    const std::function<void(std::vector<Token>&, double)> walk = [&](std::vector<Token>& tokens,
                                                                      double sum) {
        for (const auto& next : model.after(tokens)) {
            const double more = sum + static_cast<double>(next.logprob);
            tokens.push_back(next.token);
            const auto length = static_cast<std::int32_t>(tokens.size());
            if (next.token == kEnd) {
                found.push_back(
                    {tokens, score_of(more, limits.prompt_tokens + length - 1, penalty)});
            } else if (length == limits.max_output) {
                found.push_back({tokens, score_of(more, limits.prompt_tokens + length, penalty)});
            } else {
                walk(tokens, more);
            }
            tokens.pop_back();
        }
    };
    std::vector<Token> none;
    walk(none, 0);
    std::stable_sort(found.begin(), found.end(),
                     [](const Whole& a, const Whole& b) { return a.score > b.score; });
    return found;
}

TEST(BeamSearch, WideEnoughItFindsTheBestOfAllSequences) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        base::Random random(seed);
        const ToyModel model{seed, static_cast<Token>(2 + random.below(3)),
                             1 + 4 * random.uniform()};
        const BeamLimits limits = limits_of(static_cast<std::int32_t>(1 + random.below(6)),
                                            static_cast<std::int32_t>(1 + random.below(4)));
        BeamSearch rules;
        rules.width = 300;  // more than 4^4
        rules.length_penalty = 2 * random.uniform() - 0.5;
        const auto right = all_sequences(model, limits, rules.length_penalty);
        const auto found = search(model, rules, limits, right.size());
        ASSERT_EQ(found.size(), right.size()) << "seed " << seed;
        for (std::size_t i = 0; i < right.size(); ++i) {
            EXPECT_NEAR(found[i].score, right[i].score, 1e-9) << "seed " << seed;
        }
        EXPECT_EQ(tokens_of(found[0]), right[0].tokens) << "seed " << seed;
    }
}

// With "never" a beam that could still become better is waited for: a search that is wide enough
// not to lose the best one finds it, though it stops before everything has been tried.
TEST(BeamSearch, NeverStopsEarlyOnlyWhenNothingBetterCanCome) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const ToyModel model{seed, 3, 4};
        const BeamLimits limits = limits_of(2, 5);
        BeamSearch rules;
        rules.width = 243;
        rules.early_stopping = EarlyStopping::never;
        rules.length_penalty = 1.5;
        const auto right = all_sequences(model, limits, rules.length_penalty);
        EXPECT_EQ(tokens_of(search(model, rules, limits, 1)[0]), right[0].tokens)
            << "seed " << seed;
    }
}

// ---- the rules, told again
// ------------------------------------------------------------------------

// vLLM's rules of beam search word by word, with whole sequences that are copied and sorted.
struct Told {
    std::vector<Token> tokens;
    double sum = 0;
    bool stopped = false;
    double score = 0;
};

std::vector<Told> told_again(const ToyModel& model, const BeamSearch& rules,
                             const BeamLimits& limits) {
    const auto width = static_cast<std::size_t>(rules.width);
    const auto by_score = [](const Told& a, const Told& b) { return a.score > b.score; };
    std::vector<Told> running = {{}};
    std::vector<Told> finished;
    for (;;) {
        std::vector<std::pair<std::size_t, Told>> candidates;
        for (std::size_t parent = 0; parent < running.size(); ++parent) {
            for (const auto& next : model.after(running[parent].tokens)) {
                Told child = running[parent];
                child.tokens.push_back(next.token);
                child.sum += static_cast<double>(next.logprob);
                candidates.emplace_back(parent, child);
            }
        }
        std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
            if (a.second.sum != b.second.sum) return a.second.sum > b.second.sum;
            if (a.first != b.first) return a.first < b.first;
            return a.second.tokens.back() < b.second.tokens.back();
        });
        if (candidates.size() > 2 * width) candidates.resize(2 * width);
        std::vector<Told> next;
        for (auto& [parent, child] : candidates) {
            const auto output = static_cast<std::int32_t>(child.tokens.size());
            child.stopped = child.tokens.back() == kEnd && output > limits.min_output;
            const std::int32_t length = limits.prompt_tokens + output - (child.stopped ? 1 : 0);
            child.score = score_of(child.sum, length, rules.length_penalty);
            if (child.stopped || output == limits.max_output) {
                finished.push_back(child);
            } else {
                next.push_back(child);
            }
        }
        std::stable_sort(finished.begin(), finished.end(), by_score);
        std::stable_sort(next.begin(), next.end(), by_score);
        if (next.empty()) break;
        if (finished.size() >= width) {
            const double worst = finished[width - 1].score;
            const Told& best = next.front();
            bool stop = rules.early_stopping == EarlyStopping::yes;
            if (rules.early_stopping == EarlyStopping::no) stop = worst >= best.score;
            if (rules.early_stopping == EarlyStopping::never) {
                const std::int32_t length =
                    rules.length_penalty > 0
                        ? limits.prompt_tokens + limits.max_output
                        : limits.prompt_tokens + static_cast<std::int32_t>(best.tokens.size());
                stop = worst >= score_of(best.sum, length, rules.length_penalty);
            }
            if (stop) break;
        }
        if (next.size() > width) next.resize(width);
        if (finished.size() > width) finished.resize(width);
        running = std::move(next);
    }
    if (finished.size() > width) finished.resize(width);
    return finished;
}

TEST(BeamSearch, FollowsTheRulesInThousandsOfDrawnCases) {
    std::int64_t stopped = 0;
    std::int64_t whole = 0;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 300 : 5000); ++seed) {
        base::Random random(seed);
        const ToyModel model{seed, static_cast<Token>(2 + random.below(10)),
                             0.5 + 6 * random.uniform()};
        BeamLimits limits = limits_of(static_cast<std::int32_t>(1 + random.below(20)),
                                      static_cast<std::int32_t>(1 + random.below(12)));
        limits.min_output = static_cast<std::int32_t>(random.below(3));
        BeamSearch rules;
        rules.width = static_cast<std::int32_t>(1 + random.below(6));
        rules.length_penalty = random.chance(0.3) ? 1 : 4 * random.uniform() - 1;
        rules.early_stopping = static_cast<EarlyStopping>(random.below(3));
        const auto right = told_again(model, rules, limits);
        const auto found = search(model, rules, limits, static_cast<std::size_t>(rules.width));
        ASSERT_EQ(found.size(), right.size()) << "seed " << seed;
        for (std::size_t i = 0; i < right.size(); ++i) {
            ASSERT_EQ(tokens_of(found[i]), right[i].tokens) << "seed " << seed << ", " << i;
            ASSERT_DOUBLE_EQ(found[i].score, right[i].score) << "seed " << seed;
            ASSERT_EQ(found[i].reason == FinishReason::stop, right[i].stopped) << "seed " << seed;
            ++(right[i].stopped ? stopped : whole);
        }
    }
    EXPECT_GT(stopped, kSanitized ? 30 : 1000);
    EXPECT_GT(whole, kSanitized ? 30 : 1000);
}

TEST(BeamSearch, TheThreeStoppingRulesDiffer) {
    std::int64_t earlier_with_yes = 0;
    std::int64_t later_with_never = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        const ToyModel model{seed, 6, 4};
        const BeamLimits limits = limits_of(3, 10);
        const auto steps = [&](EarlyStopping rule) {
            BeamSearch rules;
            rules.width = 3;
            rules.length_penalty = 1.2;
            rules.early_stopping = rule;
            Beams beams(rules, limits);
            while (!beams.over()) {
                std::vector<Scored> likely;
                for (std::size_t i = 0; i < beams.running(); ++i) {
                    likely.push_back(model.after(beams.tokens(i)));
                }
                beams.advance(likely);
            }
            return beams.length();
        };
        earlier_with_yes += steps(EarlyStopping::yes) < steps(EarlyStopping::no) ? 1 : 0;
        later_with_never += steps(EarlyStopping::never) > steps(EarlyStopping::no) ? 1 : 0;
        EXPECT_LE(steps(EarlyStopping::yes), steps(EarlyStopping::no));
        EXPECT_LE(steps(EarlyStopping::no), steps(EarlyStopping::never));
    }
    EXPECT_GT(earlier_with_yes, 20);
    EXPECT_GT(later_with_never, 20);
}

TEST(BeamSearch, WidthOneIsGreedy) {
    const ToyModel model{9, 8, 5};
    BeamSearch rules;
    rules.early_stopping = EarlyStopping::yes;
    BeamLimits limits = limits_of(3, 8);
    limits.stop_tokens.clear();
    const auto found = search(model, rules, limits, 1);
    std::vector<Token> greedy;
    while (greedy.size() < 8) greedy.push_back(model.after(greedy).front().token);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(tokens_of(found[0]), greedy);
    EXPECT_EQ(found[0].reason, FinishReason::length);
}

TEST(BeamSearch, TokensThatCannotComeAreNoCandidates) {
    BeamSearch rules;
    rules.width = 2;
    Beams beams(rules, limits_of(1, 1));
    const float never = -std::numeric_limits<float>::infinity();
    const auto parents = beams.advance(std::vector<Scored>{{{3, -0.5F}, {1, never}, {2, never}}});
    EXPECT_TRUE(parents.empty());
    EXPECT_EQ(beams.best(2).size(), 1U);
}

TEST(BeamSearch, KeepsAsManyLogprobsAsWereAskedFor) {
    BeamLimits limits = limits_of(1, 1);
    limits.n_top = 1;
    Beams beams({}, limits);
    beams.advance(std::vector<Scored>{{{3, -0.5F}, {1, -1.0F}}});
    const auto best = beams.best(1);
    ASSERT_EQ(best.size(), 1U);
    EXPECT_EQ(best[0].steps[0].logprob, -0.5F);
    EXPECT_EQ(best[0].steps[0].top, (Scored{{3, -0.5F}}));
}

}  // namespace
}  // namespace helix::core::beam_search_test

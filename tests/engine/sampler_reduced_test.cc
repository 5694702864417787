// The sampler's answers from rows and from what these were reduced to: the same bits, wherever the
// latter do.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "engine/runner/draw_tokens.h"
#include "op_helpers.h"

namespace helix::engine::test::sampler_reduced_test {
namespace {

using core::ProducedToken;
using spec::Token;

// What a device would say of the row.
ReducedLogits reduce(const std::vector<float>& logits, const ReductionNeeds& needs) {
    ReducedLogits reduced;
    reduced.add_row(needs.named);
    ops::RowReducer reducer(ops::kernels(ops::best_isa()));
    const auto row = reducer.reduce(logits, needs.n_top, needs.sum);
    std::vector<float> floats = {static_cast<float>(row.broken), row.sum};
    for (const ops::TopLogit& top : row.top) floats.push_back(top.logit);
    floats.resize(2 + static_cast<std::size_t>(needs.n_top));
    for (const ops::TopLogit& top : row.top) floats.push_back(static_cast<float>(top.token));
    floats.resize(2 + 2 * static_cast<std::size_t>(needs.n_top));
    for (const Token token : needs.named) floats.push_back(logits[static_cast<std::size_t>(token)]);
    reduced.set(floats, std::ssize(logits), needs.n_top);
    return reduced;
}

std::string same(const ProducedToken& a, const ProducedToken& b) {
    const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    if (a.token != b.token) return std::to_string(a.token) + " and " + std::to_string(b.token);
    if (a.position != b.position) return "positions differ";
    if (bits(a.logprob) != bits(b.logprob)) return "log-probabilities differ";
    if (a.top.size() != b.top.size()) return "numbers of top tokens differ";
    for (std::size_t i = 0; i < a.top.size(); ++i) {
        if (a.top[i].token != b.top[i].token) return "top tokens differ";
        if (bits(a.top[i].logprob) != bits(b.top[i].logprob)) return "top logprobs differ";
    }
    return "";
}

// A request's row: of a vocabulary with equal logits, parameters of every kind.
struct Case {
    std::vector<float> logits;
    core::BatchChunk chunk;
    std::vector<std::uint64_t> allowed;
};

Case random_case(base::Random& random) {
    Case made;
    constexpr std::size_t kVocabs[] = {9, 100, 127, 600, 3000};
    const std::size_t vocab = kVocabs[random.below(5)];
    made.logits = random_floats(random, vocab, random.chance(0.5) ? 4 : 1);
    // Equal ones, and such as exp makes equal.
    for (float& logit : made.logits) {
        if (random.chance(0.2)) logit = std::round(logit * 2) / 2;
        if (random.chance(0.05)) logit = std::nextafter(3.0F, random.chance(0.5) ? 0.0F : 9.0F);
    }
    spec::SamplingParams& p = made.chunk.sampling;
    constexpr float kTemperatures[] = {0, 0.3F, 1, 2.5F};
    p.temperature = kTemperatures[random.below(4)];
    constexpr std::int32_t kTopKs[] = {0, 1, 5, 40, 128, 500};
    p.top_k = kTopKs[random.below(6)];
    if (random.chance(0.5)) p.top_p = static_cast<float>(random.uniform());
    if (random.chance(0.5)) p.min_p = static_cast<float>(random.uniform() * 0.2);
    if (random.chance(0.3)) p.repetition_penalty = random.chance(0.5) ? 1.3F : 0.8F;
    if (random.chance(0.2)) p.frequency_penalty = 0.6F;
    if (random.chance(0.2)) p.presence_penalty = random.chance(0.5) ? -1.5F : 0.9F;
    const auto any = [&] { return static_cast<Token>(random.below(vocab)); };
    for (int i = 0; random.chance(0.5) && i < 5; ++i)
        p.logit_bias.emplace_back(any(), static_cast<float>(random.between(-8, 8)));
    if (random.chance(0.1)) p.logit_bias.emplace_back(any(), -100.0F);
    p.seed = random.next();
    p.n_logprobs = static_cast<std::int32_t>(random.between(-1, 20));
    if (random.chance(0.02)) p.n_logprobs = 200;
    made.chunk.prompt_tokens = static_cast<std::int32_t>(random.between(0, 60));
    for (std::int64_t i = random.between(0, 80) + made.chunk.prompt_tokens; i > 0; --i)
        made.chunk.history.push_back(any());
    if (random.chance(0.3)) {
        p.grammar.kind = spec::OutputGrammar::Kind::json_object;
        made.allowed.resize((vocab + 63) / 64);
        const double share = random.chance(0.5) ? 0.4 : 0.01;
        for (std::size_t token = 0; token < vocab; ++token) {
            if (random.chance(share)) made.allowed[token / 64] |= std::uint64_t{1} << token % 64;
        }
    }
    return made;
}

// Of what kind the request is, for counting.
std::string kind_of(const spec::SamplingParams& p) {
    std::string kind = is_greedy(p) ? "greedy" : p.top_k > 0 && p.top_k <= 128 ? "top_k" : "min_p";
    if (p.grammar.present()) kind += ", grammar";
    if (has_penalties(p) || !p.logit_bias.empty()) kind += ", changed";
    return kind;
}

TEST(SamplerReduced, DrawsFromBothAreTheSameBits) {
    base::Random random(121);
    Sampler sampler(ops::kernels(ops::best_isa()));
    std::map<std::string, int> answered, asked;
    for (int i = 0; i < 5000; ++i) {
        Case one = random_case(random);
        const auto vocab = std::ssize(one.logits);
        const auto needs = reduction_needs(one.chunk, vocab);
        const spec::SamplingParams& p = one.chunk.sampling;
        const bool draws_of_all = !is_greedy(p) && (p.top_k <= 0 || p.top_k > 128) && p.min_p <= 0;
        ASSERT_EQ(needs.has_value(), !draws_of_all && (p.n_logprobs <= 128 || vocab <= 128));
        if (!needs) continue;
        SampleInput input{one.logits, one.chunk.history, one.chunk.prompt_tokens, i,
                          0,          one.allowed};
        const auto whole = sampler.sample(input, p);
        const ReducedLogits reduced = reduce(one.logits, *needs);
        input.logits = {};
        const auto got = sampler.sample_reduced(input, reduced.row(0), p);
        ++asked[kind_of(p)];
        if (!whole.ok()) {
            // The row is asked for, or it is said at once.
            if (!got.ok()) {
                EXPECT_EQ(got.error().message, whole.error().message);
            }
            EXPECT_TRUE(!got.ok() || !*got) << whole.error().message;
            continue;
        }
        ASSERT_TRUE(got.ok()) << got.error().message;
        if (!*got) continue;
        ++answered[kind_of(p)];
        EXPECT_EQ(same(**got, *whole), "") << "case " << i << " of seed 121, " << kind_of(p);
    }
    for (const auto& [kind, count] : asked) {
        ASSERT_GT(count, 20) << kind;
        const bool surely = kind == "greedy" || kind == "top_k";
        if (surely) {
            EXPECT_EQ(answered[kind], count) << kind;
        } else {
            EXPECT_GT(answered[kind], count / 3) << kind;
        }
    }
}

TEST(SamplerReduced, ScoresFromBothAreTheSameBits) {
    base::Random random(122);
    Sampler sampler(ops::kernels(ops::best_isa()));
    for (int i = 0; i < 300; ++i) {
        Case one = random_case(random);
        const auto vocab = std::ssize(one.logits);
        core::BatchChunk& chunk = one.chunk;
        chunk.sampling.n_logprobs = static_cast<std::int32_t>(random.between(0, 20));
        auto needs = scoring_needs(chunk, vocab);
        ASSERT_TRUE(needs.has_value());
        const auto token = static_cast<Token>(random.below(static_cast<std::uint64_t>(vocab)));
        needs->named = {token};
        SampleInput input{one.logits, {}, 0, i};
        const auto whole = sampler.score(input, token, chunk.sampling.n_logprobs);
        const ReducedLogits reduced = reduce(one.logits, *needs);
        const auto got =
            Sampler::score_reduced(input, reduced.row(0), token, chunk.sampling.n_logprobs);
        ASSERT_TRUE(whole.ok() && got.has_value());
        EXPECT_EQ(same(*got, *whole), "") << "case " << i << " of seed 122";
    }
}

TEST(SamplerReduced, ARowThatIsBrokenIsAskedFor) {
    core::BatchChunk chunk;
    chunk.sampling.temperature = 0;
    std::vector<float> logits(300, 1.0F);
    logits[270] = std::numeric_limits<float>::infinity();
    const auto needs = reduction_needs(chunk, std::ssize(logits));
    ASSERT_TRUE(needs.has_value());
    const ReducedLogits reduced = reduce(logits, *needs);
    Sampler sampler(ops::kernels(ops::best_isa()));
    const auto got = sampler.sample_reduced({}, reduced.row(0), chunk.sampling);
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(got->has_value());
    EXPECT_FALSE(Sampler::score_reduced({}, reduced.row(0), 3, -1).has_value());
}

TEST(SamplerReduced, WhatTheSamplerObjectsToIsLeftToIt) {
    core::BatchChunk chunk;
    chunk.sampling.temperature = 0;
    chunk.sampling.logit_bias = {{300, 1.0F}};
    EXPECT_FALSE(reduction_needs(chunk, 300).has_value());
    EXPECT_TRUE(reduction_needs(chunk, 301).has_value());
    chunk.sampling.logit_bias = {{3, std::numeric_limits<float>::infinity()}};
    EXPECT_FALSE(reduction_needs(chunk, 300).has_value());
    chunk.sampling.logit_bias.assign(2000, {3, 1.0F});
    EXPECT_FALSE(reduction_needs(chunk, 300).has_value()) << "too many to name";
    chunk.sampling.logit_bias.clear();
    chunk.sampling.n_logprobs = 129;
    EXPECT_FALSE(reduction_needs(chunk, 300).has_value());
    EXPECT_TRUE(reduction_needs(chunk, 120).has_value()) << "all there are";
}

// Of three chunks one needs its row from the outset, one after its grammar, one never.
class OnlyLast final : public TokenFilter {
  public:
    explicit OnlyLast(std::size_t vocab) : allowed_((vocab + 63) / 64) {
        allowed_[(vocab - 1) / 64] = std::uint64_t{1} << (vocab - 1) % 64;
    }
    base::Result<AllowedTokens> allowed(const core::SequenceKey&, const spec::OutputGrammar&,
                                        std::span<const Token>) override {
        return std::make_shared<const std::vector<std::uint64_t>>(allowed_);
    }
    base::Result<std::optional<Token>> instead_of(Token, const core::SequenceKey&,
                                                  const spec::OutputGrammar&,
                                                  std::span<const Token>) override {
        return std::optional<Token>();
    }

  private:
    std::vector<std::uint64_t> allowed_;
};

TEST(SamplerReduced, OnlyRowsThatAreNeededAreRead) {
    constexpr std::size_t kVocab = 1000;
    base::Random random(123);
    auto logits = random_floats(random, 3 * kVocab, 3);
    logits.back() = -50;
    core::BatchChunk chunks[3];
    for (std::uint64_t i = 0; i < 3; ++i) {
        chunks[i].key.request.value = i + 1;
        chunks[i].tokens = chunks[i].history = {1};
        chunks[i].sampling.temperature = i == 1 ? 1.0F : 0.0F;
        chunks[i].sampling.n_logprobs = 2;
    }
    chunks[2].sampling.grammar.kind = spec::OutputGrammar::Kind::json_object;
    EXPECT_FALSE(reduction_needs(chunks[1], kVocab).has_value());
    const ReductionNeeds needs = *reduction_needs(chunks[2], kVocab);
    // Rows: the second chunk's, the first's, the third's.
    const auto row = [&](std::size_t i) {
        return std::vector<float>(logits.begin() + static_cast<std::ptrdiff_t>(i * kVocab),
                                  logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * kVocab));
    };
    ReducedLogits reduced;
    std::vector<float> floats;
    for (const std::size_t i : {1U, 2U}) {
        reduced.add_row({});
        ops::RowReducer reducer(ops::kernels(ops::best_isa()));
        const auto values = row(i);
        const auto of_row = reducer.reduce(values, needs.n_top, true);
        floats.insert(floats.end(), {-1.0F, of_row.sum});
        for (const ops::TopLogit& top : of_row.top) floats.push_back(top.logit);
        for (const ops::TopLogit& top : of_row.top) floats.push_back(static_cast<float>(top.token));
    }
    reduced.set(floats, kVocab, needs.n_top);
    std::vector<std::int64_t> read;
    const ChunkLogits from[] = {{&chunks[0], 1}, {&chunks[1], 0}, {&chunks[2], 2}};
    const DrawLogits mixed{
        kVocab, std::span(logits).first(kVocab), &reduced,
        [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t i = 0; i < count; ++i) read.push_back(first + i);
            return base::Result<std::span<const float>>(
                std::span<const float>(logits).subspan(static_cast<std::size_t>(first) * kVocab,
                                                       static_cast<std::size_t>(count) * kVocab));
        }};
    ThreadPool pool(1);
    Sampler sampler(ops::kernels(ops::best_isa()));
    OnlyLast filter(kVocab);
    const auto got = draw_tokens(pool, {&sampler, 1}, from, mixed, &filter);
    const auto whole = draw_tokens(pool, {&sampler, 1}, from, {kVocab, logits}, &filter);
    ASSERT_TRUE(got.ok() && whole.ok() && got->failed.empty());
    EXPECT_EQ(read, std::vector<std::int64_t>{2});
    ASSERT_EQ(got->tokens.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(same(got->tokens[i], whole->tokens[i]), "") << i;
        EXPECT_EQ(got->tokens[i].key.request.value, i + 1);
    }
    EXPECT_EQ(got->tokens[2].token, 999);
    // What reading says is what drawing says.
    DrawLogits failing = mixed;
    failing.read = [](std::int64_t, std::int64_t) {
        return base::Result<std::span<const float>>(base::Error{base::Errc::internal, "lost"});
    };
    const auto lost = draw_tokens(pool, {&sampler, 1}, from, failing, &filter);
    ASSERT_FALSE(lost.ok());
    EXPECT_EQ(lost.error().message, "lost");
}

}  // namespace
}  // namespace helix::engine::test::sampler_reduced_test

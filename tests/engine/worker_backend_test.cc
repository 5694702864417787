// A worker's KV pages with a real model in them: what is shared, copied or drafted gives the tokens
// and log-probabilities of a sequence that ran alone, bit for bit.

#include <unistd.h>

#include <cstdio>
#include <optional>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/ops/kv_type.h"
#include "model/synth.h"
#include "runner.h"
#include "served_worker.h"

namespace helix::engine::test::worker_backend_test {
namespace {

using core::ProducedToken;
using core::SequenceKey;
using spec::SamplingParams;
using spec::Token;

constexpr std::int32_t kLayers = 3;
constexpr std::int32_t kBlock = 4;

SequenceKey key(std::uint64_t request, std::uint32_t member = 0) {
    return {{request}, 1, member};
}

SamplingParams seeded(float temperature = 0.9F) {
    SamplingParams sampling;
    sampling.temperature = temperature;
    sampling.seed = 5;
    sampling.n_logprobs = 9;
    return sampling;
}

std::vector<Token> plain(const std::vector<ProducedToken>& produced) {
    std::vector<Token> tokens;
    for (const ProducedToken& one : produced) tokens.push_back(one.token);
    return tokens;
}

std::vector<Token> joined(std::vector<Token> a, const std::vector<Token>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

void expect_same(const std::vector<ProducedToken>& got, const std::vector<ProducedToken>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].position, wanted[i].position);
        EXPECT_EQ(got[i].token, wanted[i].token) << "token " << i;
        EXPECT_EQ(got[i].top, wanted[i].top) << "log-probabilities of token " << i;
    }
}

class WorkerBackend : public ::testing::TestWithParam<ops::KvType> {
  protected:
    static void SetUpTestSuite() {
        model::SynthShape shape;
        shape.name = "test";
        shape.n_layers = kLayers;
        shape.hidden = 64;
        shape.n_heads = 4;
        shape.n_kv_heads = 2;
        shape.ffn = 96;
        shape.vocab = 400;
        shape.context_length = 256;
        model::SynthOptions options;
        options.seed = 4;
        options.path = path();
        options.threads = 1;
        const auto made = model::synth_model(shape, model::TensorType::q8_0, options);
        if (!made.ok()) ADD_FAILURE() << made.error().message;
    }
    static void TearDownTestSuite() { std::remove(path().c_str()); }
    static std::string path() {
        return testing::TempDir() + "helix_worker_" + std::to_string(getpid()) + ".gguf";
    }

    static std::unique_ptr<Backend> make() {
        CpuOptions options;
        options.threads = 1;
        options.memory_bytes = 16 << 20;
        options.swap_bytes = 1 << 20;
        options.block_size = kBlock;
        options.kv_type = GetParam();
        auto backend = open_backend(path(), options);
        if (!backend.ok()) ADD_FAILURE() << backend.error().message;
        return std::move(*backend);
    }

    static core::WorkerConfig config(std::int32_t max_rows = 64, bool prefix_cache = false) {
        core::WorkerConfig config;
        config.n_layers = kLayers;
        config.block_size = kBlock;
        config.max_batch_rows = max_rows;
        config.mixed_prefill_rows = max_rows;
        config.prefix_cache = prefix_cache;
        return config;
    }
    ServedWorker serve(std::int64_t pages = 600) {
        return ServedWorker(*backend_, config(), pages);
    }
    std::vector<Token> random_tokens(std::size_t n) {
        std::vector<Token> tokens(n);
        for (Token& token : tokens) token = static_cast<Token>(random_.below(400));
        return tokens;
    }
    // What the tokens give alone: these many more.
    std::vector<ProducedToken> alone(const std::vector<Token>& tokens,
                                     const SamplingParams& sampling, std::size_t count) {
        ServedWorker worker(*reference_, config(), 600);
        worker.start(key(1), tokens, sampling);
        return worker.decode(key(1), count);
    }

    base::Random random_{77};
    std::unique_ptr<Backend> backend_ = make();
    std::unique_ptr<Backend> reference_ = make();
};

INSTANTIATE_TEST_SUITE_P(KvTypes, WorkerBackend, testing::Values(ops::KvType::f16, ops::KvType::q8),
                         [](const auto& given) { return ops::to_string(given.param); });

TEST_P(WorkerBackend, ForkedMembersThatDivergeEqualIndependentRuns) {
    for (const std::size_t length : {7U, 8U, 9U, 1U}) {
        const auto prompt = random_tokens(length);
        const auto n = static_cast<std::int32_t>(length);
        std::vector<std::vector<ProducedToken>> wanted;
        const Token firsts[] = {11, 12, 13};
        for (const Token first : firsts)
            wanted.push_back(alone(joined(prompt, {first}), seeded(0), 12));
        ServedWorker worker = serve();
        worker.start(key(1), prompt, seeded(0));
        worker.take(key(1));
        worker.say(core::ForkSequences{key(1), n, {1, 2}});
        for (std::uint32_t m = 0; m < 3; ++m) {
            worker.rows(key(1, m), n, {firsts[m]}, 0, m == 0 ? -1 : 0);
        }
        // In turns, so that everyone writes to what the others share.
        std::vector<std::vector<ProducedToken>> got(3);
        for (int i = 0; i < 12; ++i) {
            for (std::uint32_t m = 0; m < 3; ++m) {
                for (const ProducedToken& token : worker.decode(key(1, m), 1))
                    got[m].push_back(token);
            }
        }
        for (std::size_t m = 0; m < 3; ++m) expect_same(got[m], wanted[m]);
        EXPECT_EQ(worker.copies > 0, length % kBlock != 0) << length;
        for (std::uint32_t m = 0; m < 3; ++m) worker.say(core::FreeSequences{{key(1, m)}});
        EXPECT_EQ(core::held_when_idle(worker.worker()), "");
    }
}

TEST_P(WorkerBackend, ABeamThatBranchesOffEarlierEqualsItsOwnRun) {
    const auto prompt = random_tokens(6);
    const auto more = random_tokens(7);
    ServedWorker worker = serve();
    worker.start(key(1), joined(prompt, more), seeded(0));
    worker.take(key(1));
    worker.say(core::ForkSequences{key(1), 7, {1}});
    worker.rows(key(1, 1), 7, {42}, 0, 0);
    const auto branch = worker.decode(key(1, 1), 9);
    expect_same(branch, alone(joined(prompt, {more[0], 42}), seeded(0), 9));
    worker.rows(key(1), 13, {42});
    expect_same(worker.decode(key(1), 5), alone(joined(joined(prompt, more), {42}), seeded(0), 5));
}

TEST_P(WorkerBackend, FourDrawsUseThePromptsBlocksOnceAndDiffer) {
    const auto prompt = random_tokens(9);
    ServedWorker worker = serve();
    worker.start(key(1), prompt, seeded(), 4);
    EXPECT_EQ(worker.used_pages(), 3 * kLayers);
    std::vector<std::vector<ProducedToken>> got;
    for (std::uint32_t m = 0; m < 4; ++m) got.push_back(worker.take(key(1, m)));
    worker.say(core::ForkSequences{key(1), 9, {1, 2, 3}});
    EXPECT_EQ(worker.used_pages(), 3 * kLayers);
    for (std::uint32_t m = 0; m < 4; ++m) {
        ASSERT_EQ(got[m].size(), 1U);
        worker.rows(key(1, m), 9, {got[m][0].token}, 0, m == 0 ? -1 : 0);
        for (const ProducedToken& token : worker.decode(key(1, m), 7)) got[m].push_back(token);
    }
    for (std::uint32_t m = 0; m < 4; ++m) {
        SamplingParams own = seeded();
        own.seed = spec::member_seed(own.seed, m);
        expect_same(got[m], alone(prompt, own, 8));
        for (std::uint32_t other = 0; other < m; ++other)
            EXPECT_NE(plain(got[m]), plain(got[other]));
    }
}

// Drafts of every quality: right ones from the plain run, spoilt at random.
TEST_P(WorkerBackend, DraftsGiveTheTokensOfPlainDecoding) {
    SamplingParams greedy = seeded(0);
    SamplingParams drawn = seeded();
    SamplingParams penalised = seeded(0.5F);
    penalised.frequency_penalty = 0.8F;
    penalised.presence_penalty = 0.4F;
    penalised.repetition_penalty = 1.3F;
    for (const SamplingParams& sampling : {greedy, drawn, penalised}) {
        const auto prompt = random_tokens(6);
        constexpr std::size_t kCount = 40;
        const auto wanted = alone(prompt, sampling, kCount + 8);
        ServedWorker worker = serve();
        worker.start(key(1), prompt, sampling);
        std::vector<ProducedToken> got = worker.take(key(1));
        std::size_t accepted = 0;
        std::size_t rejected = 0;
        while (got.size() < kCount) {
            const std::size_t drafts = random_.below(6);
            std::vector<Token> rows{got.back().token};
            for (std::size_t i = 0; i < drafts; ++i) {
                const Token right = wanted[got.size() + i].token;
                rows.push_back(random_.chance(0.8) ? right : (right + 1) % 400);
            }
            worker.rows(key(1), got.back().position, rows, static_cast<std::int32_t>(drafts));
            const auto more = worker.take(key(1));
            ASSERT_GE(more.size(), 1U);
            ASSERT_LE(more.size(), drafts + 1);
            accepted += more.size() - 1;
            rejected += drafts + 1 - more.size();
            got.insert(got.end(), more.begin(), more.end());
        }
        got.resize(kCount);
        expect_same(got, {wanted.begin(), wanted.begin() + kCount});
        EXPECT_GT(accepted, 10U);
        EXPECT_GT(rejected, 5U);
        EXPECT_TRUE(worker.take_stuck().empty());
    }
}

TEST_P(WorkerBackend, DraftsBehindAForkDoNotTouchWhatIsShared) {
    const auto prompt = random_tokens(6);
    const auto wanted = alone(joined(prompt, {20}), seeded(0), 10);
    const auto sibling = alone(joined(prompt, {30}), seeded(0), 10);
    ServedWorker worker = serve();
    worker.start(key(1), prompt, seeded(0));
    worker.take(key(1));
    worker.rows(key(1, 1), 6, {20, 1, 2, 3, 4, 5, 6, 7}, 7, 0);  // all wrong but by luck
    std::vector<ProducedToken> got = worker.take(key(1, 1));
    worker.rows(key(1), 6, {30});
    expect_same(worker.decode(key(1), 10), sibling);
    worker.rows(key(1, 1), got.back().position, {got.back().token});
    for (const ProducedToken& token : worker.decode(key(1, 1), 10 - got.size()))
        got.push_back(token);
    expect_same(got, wanted);
}

TEST_P(WorkerBackend, WhatWasSwappedOutAndInGoesOnAsIfNothingHadHappened) {
    const auto prompt = random_tokens(7);
    const auto wanted = alone(prompt, seeded(0), 15);
    ServedWorker worker = serve(60);
    worker.start(key(1), prompt, seeded(0));
    auto got = worker.decode(key(1), 5);
    worker.say(core::ForkSequences{key(1), 11, {1}});
    const std::vector<SequenceKey> group{key(1), key(1, 1)};
    worker.say(core::SwapSequences{true, group});
    EXPECT_EQ(worker.report().used_pages, 0);
    EXPECT_EQ(worker.report().swapped_pages, 3 * kLayers);
    // Others write over every page.
    for (std::uint64_t other = 2; other < 6; ++other) {
        worker.start(key(other), random_tokens(70), seeded());
        worker.say(core::FreeSequences{{key(other)}});
    }
    worker.say(core::SwapSequences{false, group});
    EXPECT_EQ(worker.swaps, 2U * 3 * kLayers);
    for (const ProducedToken& token : worker.decode(key(1), 10)) got.push_back(token);
    expect_same(got, wanted);
    worker.rows(key(1, 1), 11, {got[4].token});
    expect_same(worker.decode(key(1, 1), 10), {wanted.begin() + 5, wanted.end()});
}

TEST_P(WorkerBackend, WhatBeginsWithKeptBlocksGivesWhatItGivesAlone) {
    const auto prompt = random_tokens(19);
    ServedWorker worker(*backend_, config(64, true), 600);
    worker.start(key(1), prompt, seeded());
    const auto first = worker.decode(key(1), 12);
    worker.say(core::FreeSequences{{key(1)}});
    EXPECT_EQ(worker.report().cached_pages, 7 * kLayers);
    // The same prompt; the prompt and the answer; another end.
    worker.start(key(2), prompt, seeded(), 1, 16);
    expect_same(worker.decode(key(2), 12), first);
    auto longer = joined(joined(prompt, plain(first)), random_tokens(3));
    worker.start(key(3), longer, seeded(), 1, 28);
    expect_same(worker.decode(key(3), 6), alone(longer, seeded(), 6));
    auto other = joined({prompt.begin(), prompt.begin() + 8}, random_tokens(9));
    SamplingParams penalised = seeded();
    penalised.repetition_penalty = 1.5F;
    worker.start(key(4), other, penalised, 1, 8);
    expect_same(worker.decode(key(4), 6), alone(other, penalised, 6));
    EXPECT_TRUE(worker.take_stuck().empty());
}

TEST_P(WorkerBackend, PlansThatMovePagesThatAreNotThereMoveNothing) {
    ASSERT_TRUE(backend_->load({0, kLayers}).ok());
    const auto error = [&](const core::BatchPlan& plan) {
        const auto result = backend_->run(plan, {});
        return result.ok() ? std::string("ok") : result.error().message;
    };
    core::BatchPlan plan;
    plan.id = 3;
    EXPECT_EQ(error(plan), "ok") << "nothing to do";
    plan.copies = {{0, 1}};
    EXPECT_EQ(error(plan), "ok");
    plan.copies = {{0, 4000000000U}};
    EXPECT_NE(error(plan).find("batch 3 moves page 4000000000 of"), std::string::npos);
    plan.copies = {{4000000000U, 0}};
    EXPECT_NE(error(plan).find("page 4000000000"), std::string::npos);
    plan.copies = {{7, 7}};
    EXPECT_NE(error(plan).find("copies page 7 to itself"), std::string::npos);
    plan.copies.clear();
    plan.swap_out = {{0, 99999999}};
    EXPECT_NE(error(plan).find("swapped page 99999999 of"), std::string::npos);
    plan.swap_out = {{0, 0}};
    plan.swap_in = {{1, 1}};
    EXPECT_NE(error(plan).find("out and in at once"), std::string::npos);
}

// However the prompt is cut into chunks, and as if each of its tokens had been drawn.
TEST_P(WorkerBackend, APromptsLogProbabilitiesAreThoseThatDrawingItsTokensGives) {
    const auto prompt = random_tokens(150);  // more than the head gets at once
    std::vector<std::vector<ProducedToken>> scored;
    for (const std::int32_t rows : {1, 7, 256}) {
        ServedWorker worker(*backend_, config(rows), 600);
        worker.start(key(1), prompt, seeded(), 1, 0, true);
        scored.push_back(worker.take_scored());
        expect_same(worker.take(key(1)), alone(prompt, seeded(), 1));
    }
    ASSERT_EQ(scored[0].size(), prompt.size() - 1);
    EXPECT_EQ(scored[1], scored[0]) << "chunks of 7";
    EXPECT_EQ(scored[2], scored[0]) << "one chunk";
    for (std::size_t i = 1; i < prompt.size(); i += 8) {
        SamplingParams forced = seeded(0);
        forced.logit_bias = {{prompt[i], 1000.0F}};
        ServedWorker worker = serve();
        worker.start(key(1), {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i)},
                     forced);
        const auto drawn = worker.take(key(1));
        ASSERT_EQ(drawn.size(), 1U);
        EXPECT_EQ(scored[0][i - 1], drawn[0]) << "position " << i;
    }
}

TEST_P(WorkerBackend, AfterAPromptThatIsScoredOutputAndOtherSequencesAreNot) {
    const auto prompt = random_tokens(9);
    ServedWorker worker = serve();
    worker.start(key(1), prompt, seeded(), 2, 0, true);
    EXPECT_EQ(worker.take_scored().size(), 8U);
    worker.start(key(2), prompt, seeded());
    worker.rows(key(1), 9, {5});
    worker.rows(key(1, 1), 9, {6}, 0, 0);
    EXPECT_TRUE(worker.take_scored().empty());
}

}  // namespace
}  // namespace helix::engine::test::worker_backend_test

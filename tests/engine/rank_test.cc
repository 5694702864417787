// Scores of documents, against a forward pass in double precision that shares no code with the
// engine, and against themselves however prompts are cut and with whomever they share batches.

#include <cmath>

#include <gmock/gmock.h>

#include "engine/runner/rank_rows.h"
#include "pooled_prompt.h"
#include "reference_model.h"

namespace helix::engine::test::rank_test {
namespace {

using spec::Pooling;

constexpr SynthKind kReranker{"reranker", [](model::SynthShape& s) {
                                  s.architecture = "qwen3";
                                  s.head_dim = 32;
                                  s.tied_embeddings = true;
                                  s.reranks = true;
                              }};

std::vector<float> score(const SynthFile& file, const std::vector<spec::Token>& tokens,
                         PooledRun run = {}) {
    run.pooling = Pooling::rank;
    return pooled_prompt(file, tokens, run);
}

class Rank : public ::testing::Test {
  protected:
    const SynthFile file_{shape_of(kReranker), model::TensorType::f32};
};

TEST_F(Rank, IsTheSoftmaxOverTheHeadsRowsOfAReferenceForward) {
    auto weights = model::LocalWeights::open(file_.path());
    auto config = model::read_model_config(**weights);
    EXPECT_EQ(config->rank_head.tensor, "cls.output.weight");
    ReferenceModel reference(**weights, *config);
    base::Random random(31);
    for (const std::size_t length : {1U, 40U, 150U}) {
        const auto tokens = random_tokens(random, length);
        const auto state = reference.hidden_states(tokens).back();
        const auto logits = reference.products("cls.output.weight", state);
        ASSERT_EQ(logits.size(), 2U);
        const double expected = 1 / (1 + std::exp(logits[1] - logits[0]));
        const auto got = score(file_, tokens);
        ASSERT_EQ(got.size(), 1U);
        EXPECT_NEAR(static_cast<double>(got[0]), expected, 2e-6);
        EXPECT_GT(std::abs(expected - 0.5), 1e-3) << "it says nothing";
    }
}

TEST_F(Rank, HasTheSameBitsHoweverThePromptIsCutAndWithWhomeverItRuns) {
    base::Random random(32);
    for (const std::size_t length : {1U, 2U, 67U}) {
        const auto tokens = random_tokens(random, length);
        const auto whole = score(file_, tokens);
        ASSERT_EQ(whole.size(), 1U);
        for (const std::int32_t rows : tried_batch_rows()) {
            EXPECT_EQ(score(file_, tokens, {.max_rows = rows}), whole) << "batches of " << rows;
            EXPECT_EQ(score(file_, tokens, {.max_rows = rows, .company = 6}), whole)
                << "in company, of " << rows;
        }
    }
    const auto tokens = random_tokens(random, 70);
    EXPECT_EQ(score(file_, tokens, {.max_rows = 64, .cached = 48}), score(file_, tokens))
        << "behind a cached prefix";
}

TEST_F(Rank, AModelWithoutAHeadForItSaysSo) {
    const SynthFile plain(shape_of(kQwen3), model::TensorType::f32);
    auto backend = open_backend(plain.path(), test_options());
    ASSERT_TRUE((*backend)->load(kAllLayers).ok());
    core::BatchPlan plan;
    core::BatchChunk chunk;
    chunk.layers = kAllLayers;
    chunk.tokens = {1};
    chunk.pages.resize(kLayers);
    chunk.sample = true;
    chunk.pooling = Pooling::rank;
    plan.chunks = {chunk};
    const auto ran = (*backend)->run(plan, {});
    ASSERT_FALSE(ran.ok());
    EXPECT_THAT(ran.error().message, testing::HasSubstr("no head that ranks documents"));
}

TEST_F(Rank, RowsOfAnOutputHeadAreTakenFromWhateverTypeItHas) {
    for (const model::TensorType type : {model::TensorType::f32, model::TensorType::q8_0}) {
        const SynthFile file(shape_of(kQwen3), type);
        auto weights = model::LocalWeights::open(file.path());
        auto config = model::read_model_config(**weights);
        ReferenceModel reference(**weights, *config);
        const model::RankHead head{"token_embd.weight", {7, 3}};
        const auto rows = load_rank_rows(**weights, head, config->hidden);
        ASSERT_TRUE(rows.ok()) << rows.error().message;
        const auto width = static_cast<std::size_t>(config->hidden);
        ASSERT_EQ(rows->size(), 2 * width);
        for (std::size_t i = 0; i < 2; ++i) {
            const auto row = reference.row_of("token_embd.weight", head.rows[i]);
            for (std::size_t d = 0; d < width; ++d)
                EXPECT_EQ(static_cast<double>((*rows)[i * width + d]), row[d]);
        }
        EXPECT_FALSE(load_rank_rows(**weights, {"token_embd.weight", {kVocab}}, 96).ok());
        EXPECT_FALSE(load_rank_rows(**weights, {"cls.output.weight", {0}}, 96).ok());
    }
}

TEST(RankRows, HaveTheFactorOfTheirMatrix) {
    model::SynthShape shape = shape_of(kReranker);
    shape.hidden = 128;
    shape.ffn = 192;
    const SynthFile file(shape, model::TensorType::nvfp4);
    auto weights = model::LocalWeights::open(file.path());
    auto config = model::read_model_config(**weights);
    ReferenceModel reference(**weights, *config);
    EXPECT_EQ(reference.row_of("cls.output.scale", 0).size(), 1U);
    const auto rows = load_rank_rows(**weights, {"cls.output.weight", {1}}, 128);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    const auto row = reference.row_of("cls.output.weight", 1);
    for (std::size_t d = 0; d < row.size(); ++d) EXPECT_EQ(static_cast<double>((*rows)[d]), row[d]);
}

TEST(RankScore, IsWholeWhereOneAnswerIsCertainAndAnErrorWhereANumberIsBroken) {
    const std::vector<float> rows = {1, 0, 0, 1};
    EXPECT_EQ(*rank_score(rows, std::vector<double>{2, 2}), 0.5F);
    EXPECT_EQ(*rank_score(rows, std::vector<double>{5000, 0}), 1.0F);
    EXPECT_EQ(*rank_score(rows, std::vector<double>{0, 5000}), 0.0F);
    EXPECT_FALSE(rank_score(rows, std::vector<double>{std::nan(""), 0}).ok());
    EXPECT_FALSE(rank_score(rows, std::vector<double>{0, std::nan("")}).ok());
    EXPECT_NEAR(
        static_cast<double>(*rank_score(std::vector<float>{1, 2, 3}, std::vector<double>{1})),
        std::exp(1.0) / (std::exp(1.0) + std::exp(2.0) + std::exp(3.0)), 1e-7);
}

}  // namespace
}  // namespace helix::engine::test::rank_test

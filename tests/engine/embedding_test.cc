// Embeddings of prompts, against a forward pass in double precision that shares no code with the
// engine, and against themselves however prompts are cut and with whomever they share batches.

#include <cmath>

#include <gtest/gtest.h>

#include "engine/runner/pool_rows.h"
#include "pooled_prompt.h"
#include "reference_model.h"

namespace helix::engine::test::embedding_test {
namespace {

using spec::Pooling;
using Values = std::vector<float>;

constexpr Pooling kAll[] = {Pooling::mean, Pooling::cls, Pooling::last};

class Embedding : public ::testing::Test {
  protected:
    Values embed(const std::vector<spec::Token>& tokens, Pooling pooling,
                 std::int32_t max_rows = 256, int company = 0) {
        return pooled_prompt(file_, tokens, {pooling, max_rows, company});
    }

    std::vector<double> reference(const std::vector<spec::Token>& tokens, Pooling pooling) {
        auto weights = model::LocalWeights::open(file_.path());
        auto config = model::read_model_config(**weights);
        const auto states = ReferenceModel(**weights, *config).hidden_states(tokens);
        std::vector<double> sum(states[0].size(), 0.0);
        for (std::size_t i = 0; i < states.size(); ++i) {
            const bool counts = pooling == Pooling::mean || (pooling == Pooling::cls && i == 0) ||
                                (pooling == Pooling::last && i + 1 == states.size());
            for (std::size_t d = 0; counts && d < sum.size(); ++d) sum[d] += states[i][d];
        }
        double squares = 0;
        for (const double value : sum) squares += value * value;
        for (double& value : sum) value /= std::sqrt(squares);
        return sum;
    }

    const SynthFile file_{shape_of(kQwen3), model::TensorType::f32};
};

TEST_F(Embedding, IsThePooledHiddenStateOfAReferenceForward) {
    base::Random random(21);
    const auto tokens = random_tokens(random, 150);
    for (const Pooling pooling : kAll) {
        SCOPED_TRACE(spec::to_string(pooling));
        const Values got = embed(tokens, pooling);
        const auto expected = reference(tokens, pooling);
        ASSERT_EQ(got.size(), expected.size());
        double squares = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(static_cast<double>(got[i]), expected[i], 2e-6) << i;
            squares += static_cast<double>(got[i]) * static_cast<double>(got[i]);
        }
        EXPECT_NEAR(squares, 1, 1e-6);
    }
}

TEST_F(Embedding, HasTheSameBitsHoweverThePromptIsCutAndWithWhomeverItRuns) {
    base::Random random(22);
    for (const std::size_t length : {1U, 2U, 67U}) {
        const auto tokens = random_tokens(random, length);
        for (const Pooling pooling : kAll) {
            SCOPED_TRACE(spec::to_string(pooling));
            const Values whole = embed(tokens, pooling);
            ASSERT_FALSE(whole.empty());
            for (const std::int32_t rows : tried_batch_rows()) {
                EXPECT_EQ(embed(tokens, pooling, rows), whole) << "batches of " << rows;
                EXPECT_EQ(embed(tokens, pooling, rows, 6), whole) << "in company, of " << rows;
            }
        }
    }
}

TEST_F(Embedding, OfDifferentTextsAndPoolingsDiffer) {
    base::Random random(23);
    const auto one = random_tokens(random, 9);
    const auto other = random_tokens(random, 9);
    EXPECT_NE(embed(one, Pooling::mean, 64), embed(other, Pooling::mean, 64));
    EXPECT_NE(embed(one, Pooling::mean, 64), embed(one, Pooling::last, 64));
    EXPECT_NE(embed(one, Pooling::cls, 64), embed(one, Pooling::last, 64));
}

TEST(PoolRows, ASumWithoutADirectionIsAnErrorAndNoEmbedding) {
    EXPECT_EQ(*to_embedding(std::vector<double>{3, 4}), (Values{0.6F, 0.8F}));
    EXPECT_FALSE(to_embedding(std::vector<double>{0, 0}).ok());
    EXPECT_FALSE(to_embedding(std::vector<double>{1, std::nan("")}).ok());
}

}  // namespace
}  // namespace helix::engine::test::embedding_test

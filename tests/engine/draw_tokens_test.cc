#include "engine/runner/draw_tokens.h"

#include <gtest/gtest.h>

#include "op_helpers.h"

namespace helix::engine::test::draw_tokens_test {
namespace {

using spec::Token;

// Allows any token, and has another written in place of 1.
class Replaces final : public TokenFilter {
  public:
    base::Result<AllowedTokens> allowed(const core::SequenceKey&, const spec::OutputGrammar&,
                                        std::span<const Token>) override {
        return AllowedTokens();
    }
    base::Result<std::optional<Token>> instead_of(Token drawn, const core::SequenceKey&,
                                                  const spec::OutputGrammar&,
                                                  std::span<const Token> output) override {
        outputs.push_back(output.size());
        if (drawn != 1) return std::optional<Token>();
        return std::optional<Token>(2);
    }
    std::vector<std::size_t> outputs;
};

class DrawTokens : public testing::Test {
  protected:
    core::ProducedToken draw(std::vector<float> logits, std::int32_t n_logprobs) {
        core::BatchChunk chunk;
        chunk.tokens = {7};
        chunk.history = {5, 6, 7};
        chunk.prompt_tokens = 2;
        chunk.sampling.temperature = 0;
        chunk.sampling.n_logprobs = n_logprobs;
        chunk.sampling.grammar.thought = {"", "</think>", {}, 1};
        const ChunkLogits from{&chunk, 0};
        const DrawLogits rows{std::ssize(logits), logits};
        const auto drawn = draw_tokens(pool_, {&sampler_, 1}, {&from, 1}, rows, &filter_);
        EXPECT_TRUE(drawn.ok() && drawn->failed.empty());
        EXPECT_EQ(drawn->tokens.size(), 1U);
        return drawn->tokens.at(0);
    }
    ThreadPool pool_{1};
    Sampler sampler_{ops::kernels(ops::best_isa())};
    Replaces filter_;
};

TEST_F(DrawTokens, ATokenInPlaceOfTheDrawnIsSentAsIfItHadBeenDrawn) {
    const std::vector<float> logits = {0, 3, 1, 2, -1, 0, 0, 0};
    for (const std::int32_t n_logprobs : {-1, 0, 2}) {
        const core::ProducedToken other = draw(logits, n_logprobs);
        EXPECT_EQ(other.token, 2);
        EXPECT_EQ(other.top.size(), static_cast<std::size_t>(std::max(0, n_logprobs)));
        EXPECT_EQ(other.logprob != 0, n_logprobs >= 0);
        if (n_logprobs > 0) {
            EXPECT_EQ(other.top[0].token, 1);
        }
    }
    EXPECT_EQ(filter_.outputs, (std::vector<std::size_t>{1, 1, 1})) << "without the prompt";
    const core::ProducedToken kept = draw({0, 0, 0, 9, 0, 0, 0, 0}, -1);
    EXPECT_EQ(kept.token, 3);
    EXPECT_TRUE(kept.top.empty());
}

}  // namespace
}  // namespace helix::engine::test::draw_tokens_test

// A trained model against llama.cpp's recorded answers.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner.h"

namespace helix::engine::test {
namespace {

const std::string kModel = HELIX_DATA_DIR "/models/stories260K.gguf";
const std::string kAnswers = HELIX_DATA_DIR "/models/stories260K_greedy.json";
constexpr spec::LayerRange kAll{0, 5};

bool have_data() {
    return std::ifstream(kModel).good() && std::ifstream(kAnswers).good();
}

Piece greedy_piece(std::uint64_t request, std::int32_t first, std::vector<spec::Token> tokens) {
    Piece piece;
    piece.request = request;
    piece.layers = kAll;
    piece.first_position = first;
    piece.tokens = std::move(tokens);
    piece.sample = true;
    piece.sampling.temperature = 0;
    piece.sampling.n_logprobs = 5;
    return piece;
}

void expect_top(const core::ProducedToken& token, const nlohmann::json& expected,
                const std::string& where) {
    ASSERT_EQ(token.top.size(), expected.size()) << where;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(token.top[i].token, expected[i][0].get<int>()) << where << ", place " << i;
        EXPECT_NEAR(token.top[i].logprob, expected[i][1].get<float>(), 1e-3)
            << where << ", place " << i;
    }
}

class Stories : public testing::TestWithParam<ops::KvType> {};

TEST_P(Stories, GreedyTokensAndLogprobsEqualLlamaCpp) {
    if (!have_data()) GTEST_SKIP() << "no " << kModel;
    CpuOptions options;
    options.threads = 2;
    options.memory_bytes = 64 << 20;
    options.kv_type = GetParam();
    auto backend = open_backend(kModel, options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), kAll, options.block_size, 1);
    std::ifstream in(kAnswers);
    std::uint64_t request = 0;
    for (const nlohmann::json& answer : nlohmann::json::parse(in)) {
        const auto expected = answer["tokens"].get<std::vector<spec::Token>>();
        auto next = answer["prompt_tokens"].get<std::vector<spec::Token>>();
        std::int32_t position = 0;
        std::vector<spec::Token> got;
        ++request;
        while (got.size() < expected.size()) {
            auto result = runner.run({greedy_piece(request, position, next)});
            ASSERT_TRUE(result.ok()) << result.error().message;
            const core::ProducedToken& token = result->front().token;
            if (got.size() < answer["probs"].size()) {
                expect_top(token, answer["probs"][got.size()],
                           answer["prompt"].get<std::string>() + " +" + std::to_string(got.size()));
            }
            position += static_cast<std::int32_t>(next.size());
            EXPECT_EQ(token.position, position);
            next = {token.token};
            got.push_back(token.token);
        }
        EXPECT_EQ(got, expected) << answer["prompt"];
        runner.free_sequence(request);
    }
    EXPECT_EQ(request, 6U);
}

INSTANTIATE_TEST_SUITE_P(KvTypes, Stories, testing::Values(ops::KvType::f16, ops::KvType::f32));

}  // namespace
}  // namespace helix::engine::test

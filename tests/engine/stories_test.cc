// A trained model against llama.cpp's recorded answers.

#include <algorithm>
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/effort.h"
#include "checked_vulkan.h"
#include "reference_model.h"
#include "runner.h"

namespace helix::engine::test::stories_test {
namespace {

const std::string kModel = HELIX_DATA_DIR "/models/stories260K.gguf";
const std::string kAnswers = HELIX_DATA_DIR "/models/stories260K_greedy.json";
constexpr spec::LayerRange kAll{0, 5};
// The recorded log-probabilities were made with attention in half precision: they are up to 0.0071
// away from double precision, and so is llama.cpp itself with float keys and values. Half keys and
// values on our side come on top. The exact figures are held to 1e-3 by the test below.
constexpr double kRecordedError = 0.015;

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
    piece.sampling.n_logprobs = 20;
    return piece;
}

// Every expected pair (token, log-probability) is among the top ones.
void expect_logprobs(const core::ProducedToken& token, const nlohmann::json& expected,
                     double tolerance, const std::string& where) {
    for (const auto& pair : expected) {
        const auto found = std::find_if(token.top.begin(), token.top.end(), [&](const auto& top) {
            return top.token == pair[0].get<int>();
        });
        ASSERT_NE(found, token.top.end()) << where << ", token " << pair[0];
        EXPECT_NEAR(found->logprob, pair[1].get<double>(), tolerance)
            << where << ", token " << pair[0];
    }
}

class Stories : public testing::TestWithParam<ops::KvType> {};

// Each of llama.cpp's recorded answers, from a backend that holds all layers.
void expect_recorded_answers(Runner& runner) {
    std::ifstream in(kAnswers);
    std::uint64_t request = 0;
    for (const nlohmann::json& answer : nlohmann::json::parse(in)) {
        auto expected = answer["tokens"].get<std::vector<spec::Token>>();
        expected.resize(few(expected.size()));
        auto next = answer["prompt_tokens"].get<std::vector<spec::Token>>();
        std::int32_t position = 0;
        std::vector<spec::Token> got;
        ++request;
        while (got.size() < expected.size()) {
            auto result = runner.run({greedy_piece(request, position, next)});
            ASSERT_TRUE(result.ok()) << result.error().message;
            const core::ProducedToken& token = result->front().token;
            if (got.size() < answer["probs"].size()) {
                expect_logprobs(
                    token, answer["probs"][got.size()], kRecordedError,
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

TEST_P(Stories, GreedyTokensAndLogprobsEqualLlamaCpp) {
    if (!have_data()) GTEST_SKIP() << "no " << kModel;
    CpuOptions options;
    options.threads = 2;
    options.memory_bytes = 64 << 20;
    options.kv_type = GetParam();
    auto backend = open_backend(kModel, options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), kAll, options.block_size, 1);
    expect_recorded_answers(runner);
}

TEST(VulkanStories, GreedyTokensAndLogprobsEqualLlamaCpp) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and its host runs other models";
    if (!have_data()) GTEST_SKIP() << "no " << kModel;
    const auto vulkan = CheckedVulkan::open();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    auto backend = vulkan->open_backend(kModel, 16);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    {
        Runner runner(std::move(*backend), kAll, 16, 1);
        expect_recorded_answers(runner);
    }
    EXPECT_EQ(vulkan->objections(), "");
}

TEST_P(Stories, TopLogprobsEqualDoublePrecision) {
    if (!have_data()) GTEST_SKIP() << "no " << kModel;
    CpuOptions options;
    options.threads = 1;
    options.memory_bytes = 64 << 20;
    options.kv_type = GetParam();
    auto backend = open_backend(kModel, options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), kAll, options.block_size, 1);
    auto weights = model::LocalWeights::open(kModel);
    auto config = model::read_model_config(**weights);
    ReferenceModel reference(**weights, *config);
    const double tolerance = GetParam() == ops::KvType::f32 ? 1e-4 : 8e-3;
    std::ifstream in(kAnswers);
    std::uint64_t request = 0;
    for (const nlohmann::json& answer : nlohmann::json::parse(in)) {
        auto tokens = answer["prompt_tokens"].get<std::vector<spec::Token>>();
        const auto output = answer["tokens"].get<std::vector<spec::Token>>();
        tokens.insert(tokens.end(), output.begin(), output.begin() + 24);
        auto result = runner.run({greedy_piece(++request, 0, tokens)});
        ASSERT_TRUE(result.ok()) << result.error().message;
        const auto exact = reference.logits(tokens).back();
        double sum = 0;
        for (const double logit : exact) sum += std::exp(logit);
        for (std::size_t i = 0; i < 5; ++i) {
            const spec::TokenLogprob& top = result->front().token.top[i];
            EXPECT_NEAR(top.logprob, exact[static_cast<std::size_t>(top.token)] - std::log(sum),
                        tolerance)
                << answer["prompt"] << ", place " << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(KvTypes, Stories, testing::Values(ops::KvType::f16, ops::KvType::f32));

}  // namespace
}  // namespace helix::engine::test::stories_test

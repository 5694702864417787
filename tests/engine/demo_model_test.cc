// The models of the repository against the numpy forward pass of tools/demo_model/reference.py, and
// against llama.cpp.

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/effort.h"
#include "checked_vulkan.h"
#include "runner.h"

namespace helix::engine::test::demo_model_test {
namespace {

// The numpy pass computes in F32 throughout; the engine keeps K and V as F16, and rows that are
// multiplied with Q8_0 weights are rounded too.
constexpr double kLogprobTolerance = 0.05;
// llama.cpp rounds such rows as well, in other places.
constexpr double kLlamaCppTolerance = 0.08;
// Where the best token leads by less (in log-probability), rounding may choose the second.
constexpr double kClearLead = 0.1;
constexpr spec::LayerRange kAll{0, 8};

Piece next_piece(std::uint64_t request, spec::LayerRange layers, std::int32_t first,
                 std::vector<spec::Token> tokens) {
    Piece piece;
    piece.request = request;
    piece.layers = layers;
    piece.first_position = first;
    piece.tokens = std::move(tokens);
    piece.sample = true;
    piece.sampling.temperature = 0;
    piece.sampling.n_logprobs = 2;
    return piece;
}

// Feeds the expected tokens whatever the engine chose, so that one near tie does not spoil the
// rest.
void expect_continuation(Runner& runner, spec::LayerRange layers, std::uint64_t request,
                         const nlohmann::json& expected, double tolerance) {
    auto next = expected["ids"].get<std::vector<spec::Token>>();
    const auto tokens = expected["greedy_ids"].get<std::vector<spec::Token>>();
    ASSERT_GE(tokens.size(), 4U);
    std::int32_t position = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        auto result = runner.run({next_piece(request, layers, position, next)});
        ASSERT_TRUE(result.ok()) << result.error().message;
        const core::ProducedToken& token = result->front().token;
        ASSERT_EQ(token.top.size(), 2U);
        if (expected["leads"][i].get<double>() > kClearLead) {
            EXPECT_EQ(token.token, tokens[i]) << expected["greedy_text"] << " at " << i;
            EXPECT_NEAR(token.top[0].logprob, expected["logprobs"][i].get<double>(), tolerance)
                << expected["greedy_text"] << " at " << i;
        }
        position += static_cast<std::int32_t>(next.size());
        next = {tokens[i]};
    }
    runner.free_sequence(request);
}

class DemoModel : public testing::TestWithParam<const char*> {};

// All that the numpy pass recorded, from a backend that holds all layers.
void expect_reference(Runner& runner, const std::string& name) {
    std::ifstream in(std::string(HELIX_SOURCE_DIR) + "/tests/golden/" + name + ".json");
    ASSERT_TRUE(in) << "no tests/golden/" << name << ".json";
    const nlohmann::json vectors = nlohmann::json::parse(in);
    std::uint64_t request = 0;
    for (const char* kind : {"chat", "completion"}) {
        for (const auto& one : vectors[kind]) {
            expect_continuation(runner, kAll, ++request, one, kLogprobTolerance);
        }
    }
    ASSERT_GE(request, 7U);
}

std::string file_of(const std::string& name) {
    return std::string(HELIX_SOURCE_DIR) + "/models/" + name + ".gguf";
}

CpuOptions cpu_options() {
    CpuOptions options;
    options.threads = 1;
    options.memory_bytes = 64 << 20;
    return options;
}

TEST_P(DemoModel, AnswersAsTheReferenceDoes) {
    const CpuOptions options = cpu_options();
    auto backend = open_backend(file_of(GetParam()), options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), kAll, options.block_size, 1);
    expect_reference(runner, GetParam());
}

// llama.cpp's greedy answers of 120 tokens, the first of which is clear throughout.
nlohmann::json recorded_answers() {
    std::ifstream in(std::string(HELIX_SOURCE_DIR) + "/tests/golden/helix-demo-greedy.json");
    return nlohmann::json::parse(in)["answers"];
}

TEST(DemoModelGreedily, SaysWhatLlamaCppSays) {
    const CpuOptions options = cpu_options();
    auto backend = open_backend(file_of("helix-demo"), options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), kAll, options.block_size, 1);
    std::uint64_t request = 0;
    for (const nlohmann::json& answer : recorded_answers()) {
        ASSERT_EQ(answer["greedy_ids"].size(), 120U);
        expect_continuation(runner, kAll, ++request, answer, kLlamaCppTolerance);
    }
    EXPECT_EQ(request, 5U);
}

// The greedy answer of 120 tokens is the CPU's and llama.cpp's, and each log-probability the CPU's.
TEST(VulkanDemoModel, SaysWhatTheCpuSays) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device, and its host runs other models";
    const auto vulkan = CheckedVulkan::open();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const CpuOptions options = cpu_options();
    auto right = open_backend(file_of("helix-demo"), options);
    auto backend = vulkan->open_backend(file_of("helix-demo"), options.block_size);
    ASSERT_TRUE(right.ok()) << right.error().message;
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    const nlohmann::json answer = recorded_answers().at(0);
    const auto leads = answer["leads"].get<std::vector<double>>();
    ASSERT_GT(*std::min_element(leads.begin(), leads.end()), kClearLead);
    {
        Runner cpu(std::move(*right), kAll, options.block_size, 1);
        Runner runner(std::move(*backend), kAll, options.block_size, 1);
        auto next = answer["ids"].get<std::vector<spec::Token>>();
        auto said = answer["greedy_ids"].get<std::vector<spec::Token>>();
        said.resize(few(said.size()));
        std::int32_t position = 0;
        for (const spec::Token token : said) {
            const auto piece = next_piece(1, kAll, position, next);
            const auto expected = cpu.run({piece});
            const auto got = runner.run({piece});
            ASSERT_TRUE(expected.ok() && got.ok());
            ASSERT_EQ(got->front().token, expected->front().token) << "after " << position;
            ASSERT_EQ(got->front().token.token, token) << "after " << position;
            position += static_cast<std::int32_t>(next.size());
            next = {got->front().token.token};
        }
    }
    EXPECT_EQ(vulkan->objections(), "");
}

INSTANTIATE_TEST_SUITE_P(All, DemoModel, testing::Values("helix-demo", "helix-demo-tools"),
                         [](const auto& model) {
                             return std::string(model.index == 0 ? "Talks" : "CallsTools");
                         });

}  // namespace
}  // namespace helix::engine::test::demo_model_test

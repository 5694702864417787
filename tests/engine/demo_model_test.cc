// The models of the repository against the numpy forward pass of tools/demo_model/reference.py.

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner.h"

namespace helix::engine::test::demo_model_test {
namespace {

// The reference computes in F32 throughout; the engine keeps K and V as F16, and rows that are
// multiplied with Q8_0 weights are rounded too.
constexpr double kLogprobTolerance = 0.05;
// Where the best token leads by less (in log-probability), rounding may choose the second.
constexpr double kClearLead = 0.1;

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
                         const nlohmann::json& expected) {
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
            EXPECT_NEAR(token.top[0].logprob, expected["logprobs"][i].get<double>(),
                        kLogprobTolerance)
                << expected["greedy_text"] << " at " << i;
        }
        position += static_cast<std::int32_t>(next.size());
        next = {tokens[i]};
    }
    runner.free_sequence(request);
}

class DemoModel : public testing::TestWithParam<const char*> {};

TEST_P(DemoModel, AnswersAsTheReferenceDoes) {
    const std::string root = HELIX_SOURCE_DIR;
    const std::string name = GetParam();
    std::ifstream in(root + "/tests/golden/" + name + ".json");
    ASSERT_TRUE(in) << "no tests/golden/" << name << ".json";
    const nlohmann::json vectors = nlohmann::json::parse(in);
    CpuOptions options;
    options.threads = 1;
    options.memory_bytes = 64 << 20;
    auto backend = open_backend(root + "/models/" + name + ".gguf", options);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    const spec::LayerRange all{0, 8};
    Runner runner(std::move(*backend), all, options.block_size, 1);
    std::uint64_t request = 0;
    for (const char* kind : {"chat", "completion"}) {
        for (const auto& one : vectors[kind]) {
            expect_continuation(runner, all, ++request, one);
        }
    }
    ASSERT_GE(request, 7U);
}

INSTANTIATE_TEST_SUITE_P(All, DemoModel, testing::Values("helix-demo", "helix-demo-tools"),
                         [](const auto& model) {
                             return std::string(model.index == 0 ? "Talks" : "CallsTools");
                         });

}  // namespace
}  // namespace helix::engine::test::demo_model_test

// The log-probabilities of a prompt's tokens, against forward passes that share no code with the
// engine.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/kernels/kernels.h"
#include "engine/runner/draw_tokens.h"
#include "reference_model.h"
#include "served_worker.h"
#include "synth_file.h"

namespace helix::engine::test::scored_prompt_test {
namespace {

using core::ProducedToken;

const std::string kStories = HELIX_DATA_DIR "/models/stories260K.gguf";
const std::string kAnswers = HELIX_DATA_DIR "/models/stories260K_greedy.json";

double log_softmax(const std::vector<double>& logits, spec::Token token) {
    double sum = 0;
    const double top = *std::max_element(logits.begin(), logits.end());
    for (const double logit : logits) sum += std::exp(logit - top);
    return logits[static_cast<std::size_t>(token)] - top - std::log(sum);
}

// Of the tokens' second and on, by a worker whose batches have at most so many rows.
std::vector<ProducedToken> scored(const std::string& path, ops::KvType kv_type,
                                  std::int32_t n_layers, const std::vector<spec::Token>& tokens,
                                  std::int32_t max_rows) {
    CpuOptions options = test_options();
    options.kv_type = kv_type;
    auto backend = open_backend(path, options);
    if (!backend.ok()) {
        ADD_FAILURE() << backend.error().message;
        return {};
    }
    core::WorkerConfig config;
    config.n_layers = n_layers;
    config.block_size = options.block_size;
    config.max_batch_rows = config.mixed_prefill_rows = max_rows;
    ServedWorker worker(**backend, config, 4096);
    spec::SamplingParams sampling;
    sampling.temperature = 0;
    sampling.n_logprobs = 5;
    // What bends a draw plays no part in what a prompt is worth.
    sampling.repetition_penalty = 1.3F;
    sampling.logit_bias = {{tokens.back(), 5.0F}};
    worker.start({{1}, 1}, tokens, sampling, 1, 0, true);
    return worker.take_scored();
}

// The greatest distance of any log-probability from what these logits after each token say.
double largest_error(const std::vector<ProducedToken>& got, const std::vector<spec::Token>& tokens,
                     const std::vector<ReferenceModel::Row>& logits) {
    double error = 0;
    EXPECT_EQ(got.size(), tokens.size() - 1);
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].position, static_cast<std::int32_t>(i) + 1);
        EXPECT_EQ(got[i].token, tokens[i + 1]) << "position " << i + 1;
        EXPECT_EQ(got[i].top.size(), 5U);
        const auto off = [&](spec::Token token, float logprob) {
            return std::abs(static_cast<double>(logprob) - log_softmax(logits[i], token));
        };
        error = std::max(error, off(got[i].token, got[i].logprob));
        for (const auto& top : got[i].top) error = std::max(error, off(top.token, top.logprob));
    }
    return error;
}

TEST(ScoredPrompt, IsTheLogSoftmaxOfAReferenceForwardHoweverItIsChunked) {
    model::SynthShape shape;
    shape.name = "scored";
    shape.n_layers = kLayers;
    shape.hidden = 64;
    shape.n_heads = 4;
    shape.n_kv_heads = 2;
    shape.ffn = 96;
    shape.vocab = kVocab;
    shape.context_length = 256;
    const SynthFile file(shape, model::TensorType::f32);
    base::Random random(21);
    const auto tokens = random_tokens(random, 80);  // more than the head gets at once
    auto weights = model::LocalWeights::open(file.path());
    ASSERT_TRUE(weights.ok());
    auto config = model::read_model_config(**weights);
    ASSERT_TRUE(config.ok());
    const auto logits = ReferenceModel(**weights, *config).logits(tokens);
    const auto whole = scored(file.path(), ops::KvType::f32, kLayers, tokens, 256);
    EXPECT_LE(largest_error(whole, tokens, logits), 5e-5);
    for (const std::int32_t rows : {1, 6, 79}) {
        EXPECT_EQ(scored(file.path(), ops::KvType::f32, kLayers, tokens, rows), whole)
            << "batches of " << rows;
    }
}

TEST(ScoredPrompt, OfATrainedModelIsThatOfDoublePrecisionAndOfLlamaCpp) {
    if (!std::ifstream(kStories).good() || !std::ifstream(kAnswers).good())
        GTEST_SKIP() << "no " << kStories;
    auto weights = model::LocalWeights::open(kStories);
    ASSERT_TRUE(weights.ok());
    auto config = model::read_model_config(**weights);
    ASSERT_TRUE(config.ok());
    ReferenceModel reference(**weights, *config);
    std::ifstream in(kAnswers);
    std::size_t recorded = 0;
    for (const nlohmann::json& answer : nlohmann::json::parse(in)) {
        SCOPED_TRACE(answer["prompt"].get<std::string>());
        auto tokens = answer["prompt_tokens"].get<std::vector<spec::Token>>();
        const std::size_t n_prompt = tokens.size();
        const auto output = answer["tokens"].get<std::vector<spec::Token>>();
        tokens.insert(tokens.end(), output.begin(), output.begin() + 24);
        const auto logits = reference.logits(tokens);
        const auto exact = scored(kStories, ops::KvType::f32, config->n_layers, tokens, 256);
        EXPECT_LE(largest_error(exact, tokens, logits), 1e-4);
        const auto half = scored(kStories, ops::KvType::f16, config->n_layers, tokens, 7);
        EXPECT_LE(largest_error(half, tokens, logits), 0.015);  // half keys and values: 0.0101
        // What llama.cpp said of the tokens when it drew them; for the tolerance see stories_test.
        for (std::size_t i = 0; i < std::min<std::size_t>(24, answer["probs"].size()); ++i) {
            for (const auto& pair : answer["probs"][i]) {
                if (pair[0].get<spec::Token>() != output[i]) continue;
                EXPECT_NEAR(half[n_prompt - 1 + i].logprob, pair[1].get<double>(), 0.015)
                    << "output token " << i;
                ++recorded;
            }
        }
    }
    EXPECT_EQ(recorded, 48U);
}

TEST(ScoredPrompt, BrokenLogitsAreNamedAndTheirPosition) {
    ThreadPool pool(1);
    std::vector<Sampler> samplers;
    samplers.emplace_back(ops::kernels(ops::best_isa()));
    core::BatchChunk chunk;
    chunk.key = {{7}, 1};
    chunk.first_position = 10;
    chunk.tokens = {1, 2};
    chunk.scored = {2, 3};
    chunk.sampling.n_logprobs = 0;
    std::vector<float> logits(8, 0.5F);
    std::vector<ProducedToken> out(2);
    ASSERT_TRUE(score_tokens(pool, samplers, chunk, 0, logits, out).ok());
    EXPECT_EQ(out[1].position, 12);
    EXPECT_NEAR(out[1].logprob, -std::log(4.0), 1e-6);
    logits[5] = std::numeric_limits<float>::quiet_NaN();
    const base::Status status = score_tokens(pool, samplers, chunk, 0, logits, out);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("token 1 at position 12"), std::string::npos)
        << status.error().message;
}

}  // namespace
}  // namespace helix::engine::test::scored_prompt_test

// The same runner and the same architectures on a device that shares nothing with the CPU device
// but the interface: what they do does not depend on which device they do it on.

#include "reference_device.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runner/model_runner.h"
#include "model/local_weights.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::reference_device_test {
namespace {

using spec::Token;

constexpr std::int32_t kBlock = 5;

constexpr SynthKind kKinds[] = {
    {"llama", [](model::SynthShape&) {}},
    {"qwen2_window",
     [](model::SynthShape& s) {
         s.architecture = "qwen2";
         s.sliding_window = 7;
     }},
    kQwen3,
    kMixtral,
    kQwen2Moe,
    kQwen3Moe,
    kSmolLm3,
    kOlmo3,
    kGlm4,
    kPhi4,
    kGranite,
    kGraniteMoe,
    kGlm4Moe,
    kGlm4MoeGroups,
    kMiniMaxM2,
    kGptOss,
    kCommandRPlus,
    kNemotron,
    kCohere2,
    kGemma2,
    kGemma3,
    kGemma4,
    kGemma4Moe,
    kGemma4E,
    kLlama4,
    kLlama4Sparse,
};

Runner on_cpu(const SynthFile& file, spec::LayerRange layers, ops::KvType kv_type) {
    CpuOptions options = test_options(kBlock, 2);
    options.kv_type = kv_type;
    return make_runner(file, layers, options, 1);
}

Runner on_reference(const SynthFile& file, spec::LayerRange layers, ops::KvType kv_type,
                    std::unique_ptr<ReferenceDevice> device = nullptr) {
    if (device == nullptr) device = std::make_unique<ReferenceDevice>();
    auto weights = model::LocalWeights::open(file.path());
    CHECK(weights.ok());
    auto config = model::read_model_config(**weights);
    CHECK(config.ok());
    RunnerOptions options;
    options.block_size = kBlock;
    options.kv_type = kv_type;
    options.swap_bytes = 1 << 20;
    auto backend = ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(*weights)),
                                       *config, std::move(device), options);
    CHECK(backend.ok());
    return Runner(std::move(*backend), layers, kBlock, 2);
}

Piece greedy(std::uint64_t request, spec::LayerRange layers, std::int32_t first,
             std::vector<Token> tokens, std::vector<float> input = {}) {
    Piece piece = piece_of(request, layers, first, std::move(tokens), std::move(input));
    piece.sampling.temperature = 0;
    return piece;
}

// The largest difference of the log-probabilities of the same tokens.
double difference(const core::ProducedToken& a, const core::ProducedToken& b) {
    std::map<Token, double> of_a;
    for (const spec::TokenLogprob& top : a.top) of_a[top.token] = static_cast<double>(top.logprob);
    double largest = 0;
    for (const spec::TokenLogprob& top : b.top) {
        const auto found = of_a.find(top.token);
        if (found == of_a.end()) continue;  // one of the two leaves out the last
        largest = std::max(largest, std::abs(found->second - static_cast<double>(top.logprob)));
    }
    return largest;
}

class ReferenceDeviceTokens : public testing::TestWithParam<SynthKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ReferenceDeviceTokens, testing::ValuesIn(kKinds),
                         [](const auto& given) { return given.param.name; });

// Two sequences, whose prompts come in pieces beside each other and which then decode together.
TEST_P(ReferenceDeviceTokens, AreThoseOfTheCpuDevice) {
    const SynthFile file(shape_of(GetParam()), TensorType::bf16);
    Runner cpu = on_cpu(file, kAllLayers, ops::KvType::f32);
    Runner reference = on_reference(file, kAllLayers, ops::KvType::f32);
    base::Random random(81);
    const std::vector<Token> a = random_tokens(random, 13);
    const std::vector<Token> b = random_tokens(random, 9);
    std::vector<Piece> pieces = {greedy(1, kAllLayers, 0, {a.begin(), a.begin() + 6}),
                                 greedy(2, kAllLayers, 0, {b.begin(), b.begin() + 1})};
    must_run(cpu, pieces);
    must_run(reference, pieces);
    pieces = {greedy(1, kAllLayers, 6, {a.begin() + 6, a.end()}),
              greedy(2, kAllLayers, 1, {b.begin() + 1, b.end()})};
    std::int32_t at[] = {13, 9};
    for (int step = 0; step < 12; ++step) {
        const auto expected = must_run(cpu, pieces);
        const auto got = must_run(reference, pieces);
        pieces.clear();
        for (std::size_t s = 0; s < 2; ++s) {
            ASSERT_EQ(got[s].token.token, expected[s].token.token) << "step " << step;
            EXPECT_LT(difference(got[s].token, expected[s].token), 1e-4) << "step " << step;
            pieces.push_back(greedy(s + 1, kAllLayers, at[s]++, {expected[s].token.token}));
        }
        if (step == 5) {
            ASSERT_TRUE(reference.shuffle_pages().ok());
        }
    }
}

// A pipeline of one worker with each device; then the pages of the CPU's layers go to a reference
// device, which goes on in its place.
TEST_P(ReferenceDeviceTokens, AreThoseOfAPipelineOfBothAndPagesTravelBetweenThem) {
    const SynthFile file(shape_of(GetParam()), TensorType::bf16);
    constexpr spec::LayerRange kFirst{0, 2};
    constexpr spec::LayerRange kLast{2, kLayers};
    for (const ops::KvType type : {ops::KvType::f32, ops::KvType::f16}) {
        Runner whole = on_cpu(file, kAllLayers, type);
        Runner first = on_cpu(file, kFirst, type);
        Runner other = on_reference(file, kFirst, type);
        Runner last = on_reference(file, kLast, type);
        ASSERT_EQ(first.backend().kv_format(), other.backend().kv_format());
        ASSERT_EQ(first.backend().kv_page_bytes(), other.backend().kv_page_bytes());
        base::Random random(82);
        std::vector<Token> tokens = random_tokens(random, 11);
        std::int32_t at = 0;
        Runner* stage = &first;
        for (int step = 0; step < 10; ++step) {
            const auto expected = must_run(whole, {greedy(1, kAllLayers, at, tokens)});
            const auto rows = must_run(*stage, {greedy(1, kFirst, at, tokens)});
            const auto got = must_run(last, {greedy(1, kLast, at, tokens, rows[0].output)});
            ASSERT_EQ(got[0].token.token, expected[0].token.token) << "step " << step;
            EXPECT_LT(difference(got[0].token, expected[0].token), 1e-3) << "step " << step;
            at += static_cast<std::int32_t>(tokens.size());
            tokens = {expected[0].token.token};
            if (step != 4) continue;
            other.take_pages(1, kFirst, first.pages(1, 0).size());
            for (std::int32_t layer = kFirst.begin; layer < kFirst.end; ++layer) {
                const std::vector<core::PageId>& pages = first.pages(1, layer);
                std::vector<std::byte> bytes(
                    pages.size() * static_cast<std::size_t>(first.backend().kv_page_bytes()));
                ASSERT_TRUE(first.backend().read_pages(pages, bytes).ok());
                ASSERT_TRUE(other.backend().write_pages(other.pages(1, layer), bytes).ok());
                std::vector<std::byte> back(bytes.size());
                ASSERT_TRUE(other.backend().read_pages(other.pages(1, layer), back).ok());
                ASSERT_TRUE(first.backend().write_pages(pages, back).ok());
            }
            stage = &other;
        }
    }
}

// Of the rows of logits those that are drawn from as a whole; of the others the greatest.
TEST(ReferenceDeviceReads, AreTheRowsThatDrawsNeed) {
    const SynthFile file(shape_of(kQwen3), TensorType::bf16);
    auto owned = std::make_unique<ReferenceDevice>();
    ReferenceDevice& device = *owned;
    Runner runner = on_reference(file, kAllLayers, ops::KvType::f32, std::move(owned));
    const std::int64_t vocab = kVocab;
    // What a batch reads besides the activations that the pieces put out.
    const auto reads = [&](const std::vector<Piece>& pieces) {
        const std::int64_t before = device.floats_read;
        must_run(runner, pieces);
        return device.floats_read - before - std::ssize(pieces) * runner.hidden();
    };
    std::uint64_t request = 0;
    const auto piece = [&](float temperature, std::int32_t top_k, std::int32_t n_logprobs) {
        Piece one = greedy(++request, kAllLayers, 0, {5});
        one.sampling.temperature = temperature;
        one.sampling.top_k = top_k;
        one.sampling.n_logprobs = n_logprobs;
        return one;
    };
    EXPECT_EQ(reads({piece(0, 0, -1)}), ops::reduced_floats(1, 1, 0));
    EXPECT_EQ(reads({piece(0, 0, 5)}), ops::reduced_floats(1, 5, 0));
    EXPECT_EQ(reads({piece(1, 0, 5)}), vocab);
    EXPECT_EQ(reads({piece(0, 0, 5), piece(1, 0, -1), piece(1, 20, -1)}),
              vocab + ops::reduced_floats(2, 20, 0));
    Piece biased = piece(0, 0, -1);
    biased.sampling.logit_bias = {{7, 1.0F}, {9, 2.0F}};
    EXPECT_EQ(reads({biased}), ops::reduced_floats(1, 3, 2));
}

}  // namespace
}  // namespace helix::engine::test::reference_device_test

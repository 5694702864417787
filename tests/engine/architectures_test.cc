// Every architecture on synthetic models: against the reference forward, and bit for bit against
// itself however the work is cut up.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/gguf_writer.h"
#include "op_helpers.h"
#include "reference_model.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::architectures_test {
namespace {

using spec::Token;

void scale_rope(model::SynthShape& shape, const char* type, float factor) {
    shape.rope_scaling = {type, factor, 16};
}

// Layer 3, without the window, reads the keys and values of 1, and 4 those of 2.
constexpr SynthKind kBothShared{"gemma4_e_both_shared", [](model::SynthShape& s) {
                                    kGemma4E.change(s);
                                    s.n_shared_kv_layers = 2;
                                }};

constexpr SynthKind kKinds[] = {
    {"qwen2", [](model::SynthShape& s) { s.architecture = "qwen2"; }},
    kQwen3,
    {"mistral_window_13", [](model::SynthShape& s) { s.sliding_window = 13; }},
    {"mistral_window_16", [](model::SynthShape& s) { s.sliding_window = 16; }},
    {"qwen2_window_1",
     [](model::SynthShape& s) {
         s.architecture = "qwen2";
         s.sliding_window = 1;
     }},
    {"linear", [](model::SynthShape& s) { scale_rope(s, "linear", 4); }},
    {"llama3", [](model::SynthShape& s) { scale_rope(s, "llama3", 8); }},
    {"yarn", [](model::SynthShape& s) { scale_rope(s, "yarn", 4); }},
    {"qwen2_yarn",
     [](model::SynthShape& s) {
         s.architecture = "qwen2";
         scale_rope(s, "yarn", 4);
     }},
    kMixtral,
    {"mixtral_all_experts", [](model::SynthShape& s) { make_experts(s, "llama", 3, 3); }},
    kQwen2Moe,
    kQwen3Moe,
    kSmolLm3,
    {"olmo2", [](model::SynthShape& s) { s.architecture = "olmo2"; }},
    kOlmo3,
    kGlm4,
    kPhi4,
    {"phi3_window_short_context",
     [](model::SynthShape& s) {
         s.architecture = "phi3";
         s.sliding_window = 13;
         s.rope_scaling = {"longrope", 3, 512};
     }},
    kGranite,
    kGraniteMoe,
    kGlm4Moe,
    kGlm4MoeGroups,
    kMiniMaxM2,
    kGptOss,
    {"command_r",
     [](model::SynthShape& s) {
         s.architecture = "command-r";
         s.qk_norm = false;
         s.logit_scale = 0.5F;
     }},
    kCommandRPlus,
    kNemotron,
    kCohere2,
    kGemma2,
    kGemma3,
    kGemma4,
    kGemma4Moe,
    kGemma4E,
    kBothShared,
    {"gemma4_e_keys_are_values",
     [](model::SynthShape& s) {
         kGemma4E.change(s);
         s.keys_are_values = true;
         s.shared_kv_ffn = 0;
     }},
    kLlama4,
    kLlama4Sparse,
    {"gemma3_windows_alone",
     [](model::SynthShape& s) {
         s.architecture = "gemma3";
         s.sliding_window = 13;
         s.logit_softcap = 4;
     }},
};

// The largest difference of a log-probability from the reference's after the last token, as a share
// of the logits' deviation.
double largest_error(const SynthFile& file, const std::vector<Token>& tokens) {
    CpuOptions options = test_options();
    options.kv_type = ops::KvType::f32;
    Runner runner = make_runner(file, kAllLayers, options, 1);
    auto weights = model::LocalWeights::open(file.path());
    auto config = model::read_model_config(**weights);
    EXPECT_TRUE(config.ok()) << config.error().message;
    ReferenceModel reference(**weights, *config);
    const auto result = must_run(runner, {piece_of(1, kAllLayers, 0, tokens)});
    const auto exact = reference.logits(tokens).back();
    double sum = 0, mean = 0, variance = 0, error = 0;
    for (const double l : exact) sum += std::exp(l), mean += l / kVocab;
    for (const double l : exact) variance += (l - mean) * (l - mean) / kVocab;
    EXPECT_GT(variance, 1e-6) << "the logits say nothing";
    for (const spec::TokenLogprob& top : result[0].token.top) {
        const double difference = static_cast<double>(top.logprob) -
                                  (exact[static_cast<std::size_t>(top.token)] - std::log(sum));
        error = std::max(error, std::abs(difference));
    }
    return error / std::sqrt(variance);
}

class Architectures : public testing::TestWithParam<SynthKind> {};

std::vector<SynthKind> kinds() {
    return cases_or_few(kKinds,
                        {"qwen2_yarn", "olmo3", "phi4", "glm4moe_groups", "gpt_oss", "cohere2",
                         "gemma4moe", "gemma4_e_both_shared", "llama4_sparse"},
                        [](const SynthKind& kind) { return kind.name; });
}
INSTANTIATE_TEST_SUITE_P(Kinds, Architectures, testing::ValuesIn(kinds()),
                         [](const auto& given) { return given.param.name; });

TEST_P(Architectures, LogprobsAreThoseOfTheReferenceForward) {
    base::Random random(61);
    const auto tokens = random_tokens(random, 40);
    const model::SynthShape shape = shape_of(GetParam());
    EXPECT_LE(largest_error(SynthFile(shape, TensorType::f32), tokens), 2e-5);
    EXPECT_LE(largest_error(SynthFile(shape, TensorType::bf16), tokens), 2e-5);
    // A router near a tie may send a row elsewhere when activations have eight bits.
    if (shape.n_experts == shape.n_experts_used) {
        EXPECT_LE(largest_error(SynthFile(shape, TensorType::q8_0), tokens), 0.15);
    }
}

// Random ways to run the same sequences: chunks, batches, page sizes, threads, instruction sets.
TEST_P(Architectures, AnyChunkingAndBatchingGivesTheSameBits) {
    const SynthFile file(shape_of(GetParam()), TensorType::q8_0);
    base::Random random(62);
    constexpr std::size_t kSequences = 3;
    std::vector<std::vector<Token>> sequences;
    for (std::size_t s = 0; s < kSequences; ++s)
        sequences.push_back(random_tokens(random, 20 + 15 * s));
    // Expected: each alone, one row at a time, as decoding does it.
    std::vector<std::vector<PieceResult>> expected(kSequences);
    Runner single = make_runner(file, kAllLayers, test_options(16, 1), 1);
    for (std::size_t s = 0; s < kSequences; ++s) {
        for (std::size_t p = 0; p < sequences[s].size(); ++p) {
            const auto at = static_cast<std::int32_t>(p);
            expected[s].push_back(
                must_run(single, {piece_of(s, kAllLayers, at, {sequences[s][p]})})[0]);
        }
    }
    for (int trial = 0; trial < 4; ++trial) {
        const std::int32_t block_sizes[] = {16, 5, 32, 1};
        CpuOptions options = test_options(block_sizes[trial], 1 + trial % 3);
        if (trial == 1) options.isa = ops::Isa::portable;
        if (trial == 2 && ops::supported(ops::Isa::avx2)) options.isa = ops::Isa::avx2;
        Runner runner = make_runner(file, kAllLayers, options, static_cast<std::uint64_t>(trial));
        std::vector<std::size_t> done(kSequences, 0);
        while (!all_done(sequences, done)) {
            const auto pieces = next_pieces(sequences, done, kAllLayers, 0.3, random);
            const auto results = must_run(runner, pieces);
            for (std::size_t i = 0; i < pieces.size(); ++i) {
                const std::size_t s = pieces[i].request;
                done[s] += pieces[i].tokens.size();
                const PieceResult& last = expected[s][done[s] - 1];
                ASSERT_TRUE(same_bits(std::span(results[i].output).last(96), last.output))
                    << "trial " << trial << ", sequence " << s << ", " << done[s] << " rows done";
                ASSERT_EQ(results[i].token.top, last.token.top);
            }
        }
    }
}

// Layers on two workers, cut at every layer that they can be cut at, give what one worker gives.
TEST_P(Architectures, AnySplitOfTheLayersGivesTheSameBits) {
    const SynthFile file(shape_of(GetParam()), TensorType::q4_0);
    base::Random random(63);
    const auto tokens = random_tokens(random, 30);
    Runner whole = make_runner(file, kAllLayers, test_options(), 9);
    const auto expected = must_run(whole, {piece_of(1, kAllLayers, 0, tokens)});
    const auto config = model::read_model_config(**model::LocalWeights::open(file.path()));
    ASSERT_TRUE(config.ok()) << config.error().message;
    for (std::int32_t cut = 1; cut <= std::min(kLayers - 1, kLayers - config->joined_layers());
         ++cut) {
        Runner first = make_runner(file, {0, cut}, test_options(), 1);
        Runner second = make_runner(file, {cut, kLayers}, test_options(), 2);
        const auto half = must_run(first, {piece_of(1, {0, cut}, 0, tokens)});
        const auto rest =
            must_run(second, {piece_of(1, {cut, kLayers}, 0, tokens, half[0].output)});
        EXPECT_TRUE(same_bits(rest[0].output, expected[0].output)) << "cut at " << cut;
        EXPECT_EQ(rest[0].token.top, expected[0].token.top) << "cut at " << cut;
    }
}

// The model of a file, with the gates of its shared experts as matrices of one row.
class GatesAsMatrices final : public model::WeightSource {
  public:
    explicit GatesAsMatrices(const std::string& path) : from_(*model::open_weights(path)) {
        model::GgufBuilder builder;
        for (const model::RawEntry& entry : from_->file().raw_metadata()) {
            if (entry.key != "general.alignment")
                builder.set_raw(entry.key, {entry.value.begin(), entry.value.end()});
        }
        for (const model::TensorInfo& tensor : from_->file().tensors()) {
            std::vector<std::int64_t> shape = tensor.shape;
            if (tensor.name.ends_with("ffn_gate_inp_shexp.weight")) shape.push_back(1);
            builder.add_tensor(tensor.name, tensor.type, shape);
        }
        file_ = *model::GgufFile::from_header(builder.header(), path);
    }
    const model::GgufFile& file() const override { return *file_; }
    base::Result<std::span<const std::byte>> tensor(std::string_view name) override {
        return from_->tensor(name);
    }

  private:
    std::shared_ptr<model::WeightSource> from_;
    std::shared_ptr<const model::GgufFile> file_;
};

TEST(SharedGate, MayBeAVectorOrAMatrix) {
    const SynthFile file(shape_of(kQwen2Moe), TensorType::q8_0);
    const auto source = std::make_shared<GatesAsMatrices>(file.path());
    const std::string gate = "blk.4.ffn_gate_inp_shexp.weight";
    ASSERT_EQ(source->file().find_tensor(gate)->shape, (std::vector<std::int64_t>{96, 1}));
    const auto config = model::read_model_config(source->file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    auto backend = make_cpu_backend(source, *config, test_options());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    Runner matrices(std::move(*backend), kAllLayers, 16, 1);
    Runner vectors = make_runner(file, kAllLayers, test_options(), 1);
    base::Random random(64);
    const Piece piece = piece_of(1, kAllLayers, 0, random_tokens(random, 20));
    const auto got = must_run(matrices, {piece});
    const auto expected = must_run(vectors, {piece});
    EXPECT_TRUE(same_bits(got[0].output, expected[0].output));
    EXPECT_EQ(got[0].token.top, expected[0].token.top);
}

TEST(SharedKeys, LayersAreNotRunWithoutThoseWhoseKeysTheyRead) {
    const SynthFile file(shape_of(kBothShared), TensorType::q8_0);
    auto backend = open_backend(file.path(), test_options());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    EXPECT_TRUE((*backend)->load({1, kLayers}).ok());
    EXPECT_TRUE((*backend)->load({1, 2}).ok()) << "layers that have their own can be measured";
    const auto loaded = (*backend)->load({2, kLayers});
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().message,
              "layers [2, 5) without layer 1, whose keys and values layer 3 reads");
    // Nor are they where all are loaded and a batch begins late.
    Runner runner = make_runner(file, kAllLayers, test_options(), 1);
    const auto late = runner.run({piece_of(1, {3, kLayers}, 0, {7}, std::vector<float>(96, 0.5F))});
    ASSERT_FALSE(late.ok());
    EXPECT_NE(late.error().message.find("layers [3, 5) without layer 1"), std::string::npos)
        << late.error().message;
}

}  // namespace
}  // namespace helix::engine::test::architectures_test

// A model out of a folder of safetensors says what its GGUF file says.

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "model/hf_folder.h"
#include "model/model_folder.h"
#include "model/quantised_folder.h"
#include "model/temporary_folder.h"
#include "op_helpers.h"
#include "reference_model.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::folder_test {
namespace {

// Greedy tokens after a prompt.
std::vector<spec::Token> greedy(std::shared_ptr<model::WeightSource> weights, std::int32_t layers) {
    const auto config = model::read_model_config(*weights);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto backend = make_cpu_backend(std::move(weights), *config, test_options());
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    Runner runner(std::move(*backend), {0, layers}, 16, 1);
    std::vector<spec::Token> next{5, 77, 301, 12, 12, 40};
    std::vector<spec::Token> said;
    std::int32_t position = 0;
    while (said.size() < few(24)) {
        Piece piece;
        piece.request = 1;
        piece.layers = {0, layers};
        piece.first_position = position;
        piece.tokens = next;
        piece.sample = true;
        piece.sampling.temperature = 0;
        position += static_cast<std::int32_t>(next.size());
        next = {must_run(runner, {piece})[0].token.token};
        said.push_back(next[0]);
    }
    return said;
}

void write_folder(const model::SynthShape& shape, const std::string& gguf,
                  const std::string& folder) {
    const auto file = *model::GgufFile::open(gguf);
    model::test_support::HfFolderWriter writer(*file, folder);
    const model::SynthRopeScaling& scaling = shape.rope_scaling;
    if (scaling.type == "llama3")
        writer.set_llama3_scaling(scaling.factor, scaling.trained_context);
    writer.write();
}

TEST(Folder, GreedyTokensAreThoseOfTheGgufFile) {
    const model::test_support::TemporaryFolder folder;
    std::vector<model::SynthShape> shapes = model::synth_likes();
    for (const model::SynthShape& shape : model::synth_shapes()) {
        if (shape.name.starts_with("tiny")) shapes.push_back(shape);
    }
    // Every third under a sanitizer: how folders are read is watched in the room model.
    for (std::size_t i = 0; i < shapes.size(); i += kSanitized ? 3 : 1) {
        const model::SynthShape& shape = shapes[i];
        if (shape.architecture == "gpt-oss") continue;  // below
        // What embeds or ranks says nothing.
        if (shape.pooling != spec::Pooling::none || shape.reranks) continue;
        const SynthFile file(shape, TensorType::bf16);
        const SynthFile plain(shape, TensorType::f32);
        const std::string path = folder.file(shape.name);
        write_folder(shape, file.path(), path);
        const auto expected = greedy(*model::open_weights(file.path()), shape.n_layers);
        const auto opened = model::open_weights(path);
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        EXPECT_EQ(greedy(*opened, shape.n_layers), expected) << shape.name;

        // Quantised when it is loaded: as the file that was quantised when it was written.
        const SynthFile eight_bits(shape, TensorType::q8_0);
        write_folder(shape, plain.path(), path);
        EXPECT_EQ(greedy(*model::open_weights(path, {.quantize = "q8_0"}), shape.n_layers),
                  greedy(*model::open_weights(eight_bits.path()), shape.n_layers))
            << shape.name;
    }
}

// Its folders have experts in MXFP4; all other matrices become so when they are loaded.
TEST(Folder, OfGptOssSaysWhatItsGgufFileSays) {
    const model::test_support::TemporaryFolder folder;
    for (const model::SynthShape& shape : model::synth_likes()) {
        if (shape.architecture != "gpt-oss") continue;
        const SynthFile packed(shape, TensorType::mxfp4);
        const SynthFile plain(shape, TensorType::f32);
        const auto experts = *model::GgufFile::open(packed.path());
        const auto gguf = *model::GgufFile::open(plain.path());
        model::test_support::HfFolderWriter writer(*gguf, folder.file(shape.name));
        writer.experts = experts.get();
        writer.write();
        const auto opened = model::open_weights(folder.file(shape.name), {.quantize = "mxfp4"});
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        const auto said = greedy(*model::open_weights(packed.path()), shape.n_layers);
        EXPECT_EQ(greedy(*opened, shape.n_layers), said);
    }
}

struct QuantisedCase {
    model::test_support::Publisher publisher;
    const char* architecture;
    double allowed;  // of the deviation of the logits; activations of int4 are quantised
};

// Against the forward pass in double precision on the weights that the folder's numbers stand for.
TEST(Folder, QuantisedMatricesSayWhatTheWeightsSayThatTheyStandFor) {
    using model::test_support::Publisher;
    const model::test_support::TemporaryFolder folder;
    const QuantisedCase cases[] = {{Publisher::fp8_blocks, "qwen3moe", 2e-5},
                                   {Publisher::fp8_rows, "llama", 2e-5},
                                   {Publisher::gptq, "llama", 0.12},
                                   {Publisher::awq, "qwen3", 0.12},
                                   {Publisher::packed_zeros, "llama", 0.12}};
    for (const QuantisedCase& one : cases) {
        model::SynthShape shape;
        shape.name = one.architecture;
        shape.architecture = one.architecture;
        shape.n_layers = kLayers;
        shape.hidden = 192;
        shape.n_heads = 4;
        shape.n_kv_heads = 2;
        shape.ffn = 128;
        shape.vocab = kVocab;
        shape.context_length = 256;
        if (shape.architecture == "qwen3moe") shape.n_experts = 4, shape.n_experts_used = 2;
        const SynthFile plain(shape, TensorType::f32);
        const auto gguf = *model::GgufFile::open(plain.path());
        model::test_support::MatrixQuantiser quantiser;
        quantiser.publisher = one.publisher;
        const auto open = [&](const char* name) {
            model::test_support::HfFolderWriter writer(*gguf, folder.file(name));
            writer.quantise = quantiser;
            if (!quantiser.plain) writer.config["quantization_config"] = quantiser.config();
            writer.write();
            auto weights = model::open_weights(folder.file(name));
            EXPECT_TRUE(weights.ok()) << weights.error().message;
            return *weights;
        };
        const auto weights = open("quantised");
        quantiser.plain = true;
        const auto stood_for = open("stood_for");
        const auto config = model::read_model_config(*weights);
        ASSERT_TRUE(config.ok()) << config.error().message;
        ReferenceModel reference(*stood_for, *config);
        CpuOptions options = test_options();
        options.kv_type = ops::KvType::f32;
        auto backend = make_cpu_backend(weights, *config, options);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        Runner runner(std::move(*backend), {0, kLayers}, 16, 1);
        base::Random random(71);
        const auto tokens = random_tokens(random, 20);
        const auto result = must_run(runner, {piece_of(1, {0, kLayers}, 0, tokens)});
        const auto exact = reference.logits(tokens).back();
        double sum = 0, mean = 0, variance = 0, error = 0;
        for (const double l : exact) sum += std::exp(l), mean += l / kVocab;
        for (const double l : exact) variance += (l - mean) * (l - mean) / kVocab;
        for (const spec::TokenLogprob& top : result[0].token.top) {
            const double wanted = exact[static_cast<std::size_t>(top.token)] - std::log(sum);
            error = std::max(error, std::abs(static_cast<double>(top.logprob) - wanted));
        }
        EXPECT_LE(error, one.allowed * std::sqrt(variance)) << one.architecture;
        EXPECT_GT(variance, 1e-6) << "the logits say nothing";
    }
}

}  // namespace
}  // namespace helix::engine::test::folder_test

// A model out of a folder of safetensors says what its GGUF file says.

#include <filesystem>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "model/hf_folder.h"
#include "model/model_folder.h"
#include "model/temporary_folder.h"
#include "op_helpers.h"
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
        // A head that ranks is a thing of GGUF files.
        if (shape.name.starts_with("tiny") && !shape.reranks) shapes.push_back(shape);
    }
    // Every third under a sanitizer: how folders are read is watched in the room model.
    for (std::size_t i = 0; i < shapes.size(); i += kSanitized ? 3 : 1) {
        const model::SynthShape& shape = shapes[i];
        if (shape.architecture == "gpt-oss") continue;  // below
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

}  // namespace
}  // namespace helix::engine::test::folder_test

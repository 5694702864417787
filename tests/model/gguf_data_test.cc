#include <filesystem>

#include <gtest/gtest.h>

#include "model/model_config.h"

// Real files of the reference data; each test skips when they are not there.

namespace helix::model::gguf_data_test {
namespace {

TEST(GgufData, Stories260KIsReadWhole) {
    const std::string path = HELIX_DATA_DIR "/models/stories260K.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto config = read_model_config(**file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->n_layers, 5);
    EXPECT_EQ(config->hidden, 64);
    EXPECT_EQ(config->n_heads, 8);
    EXPECT_EQ(config->n_kv_heads, 4);
    EXPECT_EQ(config->head_dim, 8);
    EXPECT_EQ(config->vocab, 512);
    const auto spec = read_model_spec(**file);
    ASSERT_TRUE(spec.ok());
    EXPECT_EQ(spec->kv_bytes_per_token_layer, 4 * 8 * 2 * 2);
}

TEST(GgufData, EveryVocabularyFileIsRead) {
    const std::filesystem::path folder = HELIX_DATA_DIR "/vocab";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
    int read = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") continue;
        const auto file = GgufFile::open(entry.path().string());
        ASSERT_TRUE(file.ok()) << file.error().message;
        EXPECT_NE((*file)->find("tokenizer.ggml.tokens"), nullptr) << entry.path();
        ++read;
    }
    EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace helix::model::gguf_data_test

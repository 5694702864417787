#include <gtest/gtest.h>

#include <filesystem>

#include "model/gguf.h"
#include "model/model_config.h"
#include "spec/model_shape.h"

namespace helix::model::model_spec_test {
namespace {

// The sizes measured in a file and those computed from its hyperparameters are the same.
TEST(ModelSpec, OfAFileIsThatOfItsShape) {
    const std::string path = std::string(HELIX_DATA_DIR) + "/models/stories260K.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << path;
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto config = read_model_config(**file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    const auto measured = read_model_spec(**file);
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    const spec::ModelShape shape{.name = config->name,
                                 .n_layers = config->n_layers,
                                 .hidden = config->hidden,
                                 .n_heads = config->n_heads,
                                 .n_kv_heads = config->n_kv_heads,
                                 .head_dim = config->head_dim,
                                 .ffn = config->ffn,
                                 .vocab = config->vocab,
                                 .context_length = config->context_length,
                                 .tied_embeddings = config->tied_embeddings};
    const spec::ModelSpec computed = spec::model_spec(shape, spec::WeightFormat::f32);
    EXPECT_EQ(computed.layer_bytes, measured->layer_bytes);
    EXPECT_EQ(computed.embedding_bytes, measured->embedding_bytes);
    EXPECT_EQ(computed.head_bytes, measured->head_bytes);
    EXPECT_EQ(computed.kv_bytes_per_token_layer, measured->kv_bytes_per_token_layer);
    EXPECT_EQ(computed.activation_bytes_per_token, measured->activation_bytes_per_token);
    EXPECT_EQ(computed.flops_per_token_layer, measured->flops_per_token_layer);
}

}  // namespace
}  // namespace helix::model::model_spec_test

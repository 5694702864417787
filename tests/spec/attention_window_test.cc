// What layers with a window attend to, and how much of a sequence's KV they keep.

#include <gtest/gtest.h>

#include "spec/attention_window.h"
#include "spec/model_shape.h"
#include "spec/model_spec.h"

namespace helix::spec::attention_window_test {
namespace {

TEST(AttentionWindow, ARowSeesTheLastPositionsOrItsOwnChunk) {
    EXPECT_EQ(first_attended(9, 0, false), 0) << "no window";
    EXPECT_EQ(first_attended(2, 4, false), 0);
    EXPECT_EQ(first_attended(3, 4, false), 0);
    EXPECT_EQ(first_attended(4, 4, false), 1);
    EXPECT_EQ(first_attended(7, 4, true), 4);
    EXPECT_EQ(first_attended(8, 4, true), 8);
    EXPECT_EQ(first_attended(6, 1, false), 6) << "its own alone";
}

TEST(AttentionWindow, CountsItsLayers) {
    const AttentionWindow window{4, false, all_but_every(3, 7)};
    EXPECT_EQ(window.layers, (std::vector<bool>{true, true, false, true, true, false, true}));
    EXPECT_EQ(window.count({0, 7}), 5);
    EXPECT_EQ(window.count({2, 3}), 0);
    EXPECT_FALSE(window.has(7)) << "no such layer";
    EXPECT_FALSE(AttentionWindow().any());
    EXPECT_EQ(AttentionWindow().count({0, 7}), 0);
    EXPECT_EQ(AttentionWindow().first_position(100), 0);
}

// Tried with every sequence: never does it need more blocks than that, and now and then as many.
TEST(AttentionWindow, MostBlocksAreNeededNowAndThenAndNeverMore) {
    for (const bool chunked : {false, true}) {
        for (const std::int32_t positions : {1, 2, 5, 8, 16, 17}) {
            for (const std::int32_t size : {1, 4, 16}) {
                for (const std::int64_t rows : {1, 3, 20}) {
                    const AttentionWindow window{positions, chunked, {true}};
                    std::int64_t most = 0;
                    for (std::int64_t first = 0; first + rows <= 200; ++first) {
                        const std::int64_t end = (first + rows + size - 1) / size;
                        most = std::max(most, end - window.needless_blocks(first, size));
                    }
                    const std::int64_t bound = window.most_blocks(200, rows, size);
                    EXPECT_LE(most, bound) << positions << " " << size << " " << rows;
                    if (!chunked) {
                        EXPECT_EQ(most, bound) << positions << " " << size << " " << rows;
                    }
                }
            }
        }
    }
    const AttentionWindow window{8, false, {true}};
    EXPECT_EQ(window.most_blocks(7, 1, 4), 2) << "no more than it has tokens";
}

TEST(AttentionWindow, KnownModelsHaveTheirs) {
    const ModelSpec gpt = *find_model("gpt-oss-20b", WeightFormat::f16);
    EXPECT_EQ(gpt.window.positions, 128);
    EXPECT_EQ(gpt.window.count({0, gpt.n_layers}), 12);
    EXPECT_TRUE(gpt.window.has(0));
    EXPECT_DOUBLE_EQ(kept_tokens(gpt, 100), 100);
    EXPECT_DOUBLE_EQ(kept_tokens(gpt, 4096), (4096 + 128) / 2.0);
    const ModelSpec gemma = *find_model("gemma-4-31b", WeightFormat::f16);
    EXPECT_EQ(gemma.window.count({0, gemma.n_layers}), 50);
    const ModelSpec llama = *find_model("llama-4-scout", WeightFormat::f16);
    EXPECT_TRUE(llama.window.chunked);
    EXPECT_EQ(llama.window.count({0, llama.n_layers}), 36);
    const ModelSpec plain = *find_model("llama2-70b", WeightFormat::f16);
    EXPECT_FALSE(plain.window.any());
    EXPECT_DOUBLE_EQ(kept_tokens(plain, 4096), 4096);
}

AttentionWindow window_of(const std::string& fields) {
    const auto shape = parse_model_config(
        R"({"hidden_size": 64, "intermediate_size": 100, "vocab_size": 10,
            "num_attention_heads": 4, "num_hidden_layers": 4, )" +
            fields + "}",
        "config.json");
    EXPECT_TRUE(shape.ok()) << shape.error().message;
    return shape.ok() ? shape->window : AttentionWindow();
}

TEST(AttentionWindow, ConfigFilesSayWhichLayersHaveIt) {
    using Layers = std::vector<bool>;
    EXPECT_FALSE(window_of(R"("model_type": "llama")").any());
    EXPECT_FALSE(window_of(R"("model_type": "mistral", "sliding_window": null)").any());
    const AttentionWindow mistral = window_of(R"("model_type": "mistral", "sliding_window": 9)");
    EXPECT_EQ(mistral, (AttentionWindow{9, false, Layers(4, true)}));
    EXPECT_FALSE(window_of(R"("model_type": "qwen2", "sliding_window": 9,
                              "use_sliding_window": false)")
                     .any());
    EXPECT_EQ(window_of(R"("model_type": "qwen2", "sliding_window": 9, "use_sliding_window": true,
                           "max_window_layers": 3)")
                  .layers,
              (Layers{false, false, false, true}));
    EXPECT_FALSE(window_of(R"("model_type": "qwen2", "sliding_window": 9,
                              "use_sliding_window": true, "max_window_layers": 4)")
                     .any());
    EXPECT_EQ(window_of(R"("model_type": "gemma3_text", "sliding_window": 9,
                           "sliding_window_pattern": 2)")
                  .layers,
              (Layers{true, false, true, false}));
    EXPECT_EQ(window_of(R"("model_type": "gemma2", "sliding_window": 9)").layers,
              (Layers{true, false, true, false}));
    EXPECT_EQ(window_of(R"("model_type": "gemma2", "sliding_window": 9, "layer_types":
                           ["full_attention", "sliding_attention", "sliding_attention",
                            "full_attention"])")
                  .layers,
              (Layers{false, true, true, false}));
    const char* llama4 = R"("model_type": "llama4_text", "num_local_experts": 2,
                            "num_experts_per_tok": 1)";
    EXPECT_EQ(window_of(llama4), (AttentionWindow{8192, true, {true, true, true, false}}));
    EXPECT_EQ(window_of(std::string(llama4) +
                        R"(, "attention_chunk_size": 64, "no_rope_layers": [1, 0, 0, 1])"),
              (AttentionWindow{64, true, {true, false, false, true}}));
    const auto wrong = parse_model_config(
        R"({"hidden_size": 64, "intermediate_size": 100, "vocab_size": 10, "model_type": "gemma2",
            "num_attention_heads": 4, "num_hidden_layers": 4, "sliding_window": 9,
            "layer_types": ["full_attention"]})",
        "config.json");
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().message.find("layer_types"), std::string::npos);
}

}  // namespace
}  // namespace helix::spec::attention_window_test

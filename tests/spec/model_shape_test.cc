#include "spec/model_shape.h"

#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paper_data.h"
#include "spec/profile_tables.h"

namespace helix::spec::model_shape_test {
namespace {

using testing::HasSubstr;

TEST(ModelShape, ParameterCountsAreThePublishedOnes) {
    const std::pair<const char*, double> published[] = {{"llama1-30b", 32.529e9},
                                                        {"llama1-65b", 65.286e9},
                                                        {"llama2-7b", 6.738e9},
                                                        {"llama2-13b", 13.016e9},
                                                        {"llama2-70b", 68.977e9},
                                                        {"codellama-34b", 33.744e9},
                                                        {"llama3-8b", 8.030e9},
                                                        {"llama3-70b", 70.554e9},
                                                        {"llama3.1-405b", 405.853e9},
                                                        {"llama3.2-1b", 1.2358e9},
                                                        {"llama3.2-3b", 3.2127e9},
                                                        {"tinyllama-1.1b", 1.1000e9},
                                                        {"mistral-7b", 7.242e9},
                                                        {"mistral-nemo-12b", 12.248e9},
                                                        {"mistral-small-24b", 23.572e9},
                                                        {"mistral-large-123b", 122.61e9},
                                                        {"yi-34b", 34.389e9},
                                                        {"smollm2-135m", 134.5e6},
                                                        {"smollm2-360m", 361.8e6},
                                                        {"smollm2-1.7b", 1.7114e9},
                                                        {"qwen2.5-0.5b", 494.0e6},
                                                        {"qwen2.5-1.5b", 1.5437e9},
                                                        {"qwen2.5-3b", 3.0859e9},
                                                        {"qwen2.5-7b", 7.6156e9},
                                                        {"qwen2.5-14b", 14.770e9},
                                                        {"qwen2.5-32b", 32.764e9},
                                                        {"qwen2.5-72b", 72.706e9},
                                                        {"qwen3-0.6b", 596.0e6},
                                                        {"qwen3-1.7b", 1.7206e9},
                                                        {"qwen3-4b", 4.0225e9},
                                                        {"qwen3-8b", 8.1907e9},
                                                        {"qwen3-14b", 14.768e9},
                                                        {"qwen3-32b", 32.762e9}};
    for (const auto& [name, parameters] : published) {
        const auto shape = find_model_shape(name);
        ASSERT_TRUE(shape.ok()) << shape.error().message;
        EXPECT_NEAR(static_cast<double>(parameter_count(*shape)) / parameters, 1, 5e-4) << name;
    }
}

TEST(ModelShape, NamesAreFoundHoweverTheyAreWritten) {
    const std::pair<const char*, const char*> same[] = {
        {"LLaMA2-70B", "llama2-70b"},
        {"meta-llama/Llama-2-70b-chat-hf", "llama2-70b"},
        {"meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"},
        {"Llama-3.1-405B", "llama3.1-405b"},
        {"Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"},
        {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
        {"llama-30b", "llama1-30b"},
        {"qwen3_14b", "qwen3-14b"}};
    for (const auto& [asked, expected] : same) {
        const auto shape = find_model_shape(asked);
        ASSERT_TRUE(shape.ok()) << shape.error().message;
        EXPECT_EQ(shape->name, expected);
    }
    const auto unknown = find_model("llama2-80b", WeightFormat::f16);
    EXPECT_EQ(unknown.error().code, base::Errc::not_found);
    EXPECT_THAT(unknown.error().message, HasSubstr("did you mean"));
    EXPECT_THAT(unknown.error().message, HasSubstr("tinyllama-1.1b"));
}

TEST(ModelShape, EveryKnownModelIsFoundByItsNameAndHasSizes) {
    for (const ModelShape& shape : known_models()) {
        SCOPED_TRACE(shape.name);
        const auto found = find_model_shape(shape.name);
        ASSERT_TRUE(found.ok());
        EXPECT_TRUE(*found == shape);
        EXPECT_EQ(shape.n_heads % shape.n_kv_heads, 0);
        const ModelSpec spec = model_spec(shape, WeightFormat::q8_0);
        EXPECT_GT(spec.layer_bytes, 0);
        EXPECT_GT(spec.kv_bytes_per_token_layer, 0);
        EXPECT_GT(spec.flops_per_token_layer, 0);
        EXPECT_GT(spec.context_length, 0);
    }
}

TEST(ModelShape, SpecFollowsTheWeightFormat) {
    const ModelSpec half = *find_model("llama2-70b", WeightFormat::f16);
    EXPECT_EQ(half.n_layers, 80);
    EXPECT_EQ(half.layer_bytes, 2 * (855'638'016 + 2 * 8192));
    EXPECT_EQ(half.embedding_bytes, 2LL * 32000 * 8192);
    EXPECT_EQ(half.head_bytes, 2LL * 32000 * 8192 + 2 * 8192);
    EXPECT_EQ(half.kv_bytes_per_token_layer, 4096);
    EXPECT_EQ(half.activation_bytes_per_token, 32768);
    EXPECT_EQ(half.flops_per_token_layer, 2.0 * 855'638'016);
    EXPECT_EQ(half.context_length, 4096);
    const ModelSpec eight = *find_model("llama2-70b", WeightFormat::q8_0);
    EXPECT_EQ(eight.layer_bytes, 855'638'016 / 32 * 34 + 4 * 2 * 8192);
    const ModelSpec four = *find_model("llama2-70b", WeightFormat::q4_k);
    EXPECT_EQ(four.layer_bytes, 855'638'016LL / 256 * 144 + 4 * 2 * 8192);
    EXPECT_EQ(four.head_bytes, 32000LL * 8192 / 256 * 210 + 4 * 8192);
}

TEST(ModelShape, WeightFormatsHaveNames) {
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::f16, WeightFormat::q8_0,
                                      WeightFormat::q4_0, WeightFormat::q4_k}) {
        EXPECT_EQ(*parse_weight_format(to_string(format)), format);
    }
    EXPECT_EQ(*parse_weight_format("BF16"), WeightFormat::f16);
    EXPECT_EQ(*parse_weight_format("Q4_K"), WeightFormat::q4_k);
    EXPECT_THAT(parse_weight_format("q5_0").error().message, HasSubstr("q4_k"));
}

TEST(ModelShape, ExpertsAreStoredAndMostlyUnused) {
    const ModelShape mixtral = *find_model_shape("mixtral-8x7b");
    EXPECT_NEAR(static_cast<double>(parameter_count(mixtral)), 46.7e9, 0.05e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(mixtral)), 12.9e9, 0.05e9);
    const ModelShape qwen = *find_model_shape("qwen3-30b-a3b");
    EXPECT_NEAR(static_cast<double>(parameter_count(qwen)), 30.5e9, 0.05e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(qwen)), 3.35e9, 0.05e9);

    const ModelSpec spec = *find_model("mixtral-8x7b", WeightFormat::q8_0);
    EXPECT_EQ(spec.layer_expert_bytes, 8LL * 3 * 4096 * 14336 / 32 * 34);
    EXPECT_EQ(spec.flops_per_token_layer,
              2.0 * (4096.0 * (2 * 4096 + 2 * 1024 + 8) + 2.0 * 3 * 4096 * 14336));
    // One token reads 2 of 8 experts, many tokens all.
    const auto all = static_cast<double>(spec.layer_bytes);
    const auto experts = static_cast<double>(spec.layer_expert_bytes);
    EXPECT_NEAR(layer_bytes_read(spec, 1), all - experts * 6 / 8, 1);
    EXPECT_NEAR(layer_bytes_read(spec, 2), all - experts * 36 / 64, 1);
    EXPECT_NEAR(layer_bytes_read(spec, 200), all, 1);
    EXPECT_EQ(layer_bytes_read(*find_model("llama3-8b", WeightFormat::q8_0), 1),
              static_cast<double>(find_model("llama3-8b", WeightFormat::q8_0)->layer_bytes));
}

// As published, in billions; GLM's without the layer that predicts more tokens, and those that a
// token uses with the embedding and the head, which publishers leave out in part.
TEST(ModelShape, ModelsWithDenseLayersAndSharedExpertsHaveTheirParameters) {
    const struct {
        const char* name;
        double all, active;
    } models[] = {{"glm-4.5-air", 106.9, 13.4},          {"glm-4.6", 352.8, 33.6},
                  {"minimax-m2", 228.7, 11.0},           {"gemma-4-31b", 30.7, 30.7},
                  {"gemma-4-26b-a4b", 25.2, 3.8},        {"gpt-oss-20b", 20.9, 4.2},
                  {"gpt-oss-120b", 116.8, 5.7},          {"minitron-4b", 4.19, 4.19},
                  {"command-r-plus-104b", 103.8, 103.8}, {"llama-4-scout", 107.8, 17.2},
                  {"llama-4-maverick", 400.7, 17.2},     {"qwen1.5-moe-a2.7b", 14.3, 2.7},
                  {"qwen2-57b-a14b", 57.4, 14.25}};
    for (const auto& model : models) {
        const ModelShape shape = *find_model_shape(model.name);
        EXPECT_NEAR(static_cast<double>(parameter_count(shape)) / 1e9, model.all, 0.06)
            << model.name;
        EXPECT_NEAR(static_cast<double>(active_parameter_count(shape)) / 1e9, model.active, 0.06)
            << model.name;
    }
}

TEST(ModelShape, LayersWithoutExpertsHaveTheirOwnSize) {
    ModelShape glm = *find_model_shape("glm-4.5-air");
    const ModelSpec spec = model_spec(glm, WeightFormat::q4_k);
    ASSERT_EQ(spec.bytes_of_layer.size(), 46U);
    EXPECT_LT(spec.bytes_of_layer[0], spec.layer_bytes);
    EXPECT_EQ(spec.bytes_of_layer[1], spec.layer_bytes);
    glm.n_dense_layers = 0;
    EXPECT_EQ(model_spec(glm, WeightFormat::q4_k).layer_bytes, spec.layer_bytes);
    EXPECT_TRUE(model_spec(glm, WeightFormat::q4_k).bytes_of_layer.empty());
    glm.n_dense_layers = 1;
    glm.dense_ffn = 1 << 20;
    EXPECT_GT(model_spec(glm, WeightFormat::q4_k).layer_bytes, spec.layer_bytes);

    // Every second layer of Maverick: what is stored is what its parameters take.
    const ModelShape maverick = *find_model_shape("llama-4-maverick");
    const ModelSpec half = model_spec(maverick, WeightFormat::f16);
    EXPECT_EQ(stored_bytes(half, {0, 48}), 2 * parameter_count(maverick));
    EXPECT_EQ(half.bytes_of_layer[1], half.layer_bytes);
    EXPECT_LT(most_stored_bytes(half, 2), 1.05 * static_cast<double>(half.layer_bytes));
    // A token's work is that of the parameters that it uses, without embedding and head.
    EXPECT_NEAR(half.flops_per_token_layer * 48 / 2,
                static_cast<double>(active_parameter_count(maverick)) - 2.0 * 202048 * 5120, 1e6);
    EXPECT_NEAR(
        layer_bytes_read(half, 1e9) * 48,
        static_cast<double>(stored_bytes(half, {0, 48}) - half.embedding_bytes - half.head_bytes),
        48);
}

TEST(ModelConfigFile, ReadsExperts) {
    const auto mixtral = parse_model_config(
        R"({"_name_or_path": "mixtral-8x7b", "model_type": "mixtral", "hidden_size": 4096,
            "intermediate_size": 14336, "max_position_embeddings": 32768, "vocab_size": 32000,
            "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
            "num_local_experts": 8, "num_experts_per_tok": 2})",
        "config.json");
    ASSERT_TRUE(mixtral.ok()) << mixtral.error().message;
    EXPECT_TRUE(*mixtral == *find_model_shape("mixtral-8x7b"));
    const auto qwen = parse_model_config(
        R"({"_name_or_path": "qwen3-30b-a3b", "model_type": "qwen3_moe", "hidden_size": 2048,
            "intermediate_size": 6144, "moe_intermediate_size": 768, "vocab_size": 151936,
            "max_position_embeddings": 40960, "head_dim": 128, "num_attention_heads": 32,
            "num_hidden_layers": 48, "num_key_value_heads": 4, "num_experts": 128,
            "num_experts_per_tok": 8})",
        "config.json");
    ASSERT_TRUE(qwen.ok()) << qwen.error().message;
    EXPECT_TRUE(*qwen == *find_model_shape("qwen3-30b-a3b"));
}

// The widths of the others' feed-forwards say nothing: every layer has experts.
TEST(ModelConfigFile, ReadsASharedExpertWithAGate) {
    const std::string text =
        R"({"_name_or_path": "qwen2-57b-a14b", "model_type": "qwen2_moe", "hidden_size": 3584,
            "intermediate_size": 18944, "moe_intermediate_size": 2560, "vocab_size": 151936,
            "shared_expert_intermediate_size": 20480, "max_position_embeddings": 131072,
            "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
            "num_experts": 64, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "use_sliding_window": false, "sliding_window": 65536})";
    const auto qwen = parse_model_config(text, "config.json");
    ASSERT_TRUE(qwen.ok()) << qwen.error().message;
    EXPECT_TRUE(*qwen == *find_model_shape("Qwen/Qwen2-57B-A14B-Instruct"));
    // Its gate is a vector of the hidden size.
    ModelShape without = *qwen;
    without.shared_gate = false;
    EXPECT_EQ(parameter_count(*qwen), parameter_count(without) + 28 * 3584);
    EXPECT_EQ(model_spec(*qwen, WeightFormat::q8_0).layer_bytes,
              model_spec(without, WeightFormat::q8_0).layer_bytes + 4 * 3584);
    for (const auto& [from, to, problem] :
         {std::tuple("step\": 1", "step\": 2", "decoder_sparse_step: expected 1"),
          std::tuple("[]", "[3]", "mlp_only_layers: expected an empty array"),
          std::tuple("shared_expert_", "other_", "has no \"shared_expert_intermediate_size\"")}) {
        std::string other = text;
        other.replace(other.find(from), std::string(from).size(), to);
        EXPECT_THAT(parse_model_config(other, "config.json").error().message, HasSubstr(problem));
    }
}

constexpr const char* kConfig = R"({
  "_name_or_path": "Qwen/Qwen2.5-7B", "model_type": "qwen2", "hidden_size": 3584,
  "intermediate_size": 18944, "max_position_embeddings": 32768, "num_attention_heads": 28,
  "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": false,
  "vocab_size": 152064, "rope_scaling": null})";

TEST(ModelConfigFile, GivesTheShapeOfTheKnownModel) {
    const auto shape = parse_model_config(kConfig, "config.json");
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    ModelShape expected = *find_model_shape("qwen2.5-7b");
    expected.name = "Qwen2.5-7B";
    EXPECT_TRUE(*shape == expected);
    const auto heads = parse_model_config(
        R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "vocab_size": 10,
            "num_attention_heads": 4, "num_hidden_layers": 2})",
        "/models/tiny/config.json");
    ASSERT_TRUE(heads.ok()) << heads.error().message;
    EXPECT_EQ(heads->name, "tiny");
    EXPECT_EQ(heads->n_kv_heads, 4);
    EXPECT_EQ(heads->head_dim, 16);
}

TEST(ModelConfigFile, NullIsAsIfItWereNotThere) {
    std::string text = kConfig;
    const std::string scaling = "\"rope_scaling\": null";
    text.replace(text.find(scaling), scaling.size(),
                 R"("use_sliding_window": null, "sliding_window": 4096, "attention_bias": null,
                    "head_dim": null)");
    const auto nulls = parse_model_config(text, "config.json");
    ASSERT_TRUE(nulls.ok()) << nulls.error().message;
    EXPECT_TRUE(*nulls == *parse_model_config(kConfig, "config.json"));
}

// As published, but for what only images need.
TEST(ModelConfigFile, GivesTheShapeOfLlama4) {
    const std::string text = R"({"hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "max_position_embeddings": 1048576, "head_dim": 128,
        "model_type": "llama4_text", "num_attention_heads": 40, "num_experts_per_tok": 1,
        "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128,
        "use_qk_norm": false, "vocab_size": 202048, "_name_or_path": "llama-4-maverick",
        "interleave_moe_layer_step": 2})";
    const auto maverick = parse_model_config(
        R"({"model_type": "llama4", "vision_config": {}, "text_config": )" + text + "}",
        "config.json");
    ASSERT_TRUE(maverick.ok()) << maverick.error().message;
    EXPECT_TRUE(*maverick == *find_model_shape("Llama-4-Maverick"));
    std::string shorter = text;
    const std::string width = "\"intermediate_size_mlp\": 16384, ";
    shorter.erase(shorter.find(width), width.size());
    const auto usual = parse_model_config(shorter, "config.json");
    ASSERT_TRUE(usual.ok()) << usual.error().message;
    EXPECT_TRUE(*usual == *maverick);
}

TEST(ModelConfigFile, ErrorsNameThePlace) {
    const auto with = [](const std::string& from, const std::string& to) {
        std::string text = kConfig;
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    const std::pair<std::string, const char*> bad[] = {
        {"[1]", "an object"},
        {"{}", "\"model_type\""},
        {with("\"qwen2\"", "\"gpt2\""), "one of llama, mistral"},
        {with("\"vocab_size\"", "\"vocab\""), "has no \"vocab_size\""},
        {with("3584", "-1"), "hidden_size: expected 1 to 100000000"},
        {with("3584", "3585"), "no multiple"},
        {with("\"num_key_value_heads\": 4", "\"num_key_value_heads\": 3"), "no multiple"},
        {with("false", "\"no\""), "true or false"},
        {with("\"rope_scaling\": null", "\"num_experts\": 8"), "experts"},
        {with("3584", "28000000"), "beyond"},
        {R"({"model_type": "gemma4_text", "hidden_size": 3840, "intermediate_size": 15360,
             "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 8,
             "head_dim": 256, "global_head_dim": 200000, "vocab_size": 10, "sliding_window": 1024,
             "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
                             "sliding_attention", "sliding_attention", "full_attention"]})",
         "global_head_dim: expected 1 to 100000"},
        {R"({"model_type": "glm4_moe", "hidden_size": 1000000, "intermediate_size": 100000000,
             "moe_intermediate_size": 1408, "num_hidden_layers": 100000, "n_routed_experts": 128,
             "num_experts_per_tok": 8, "first_k_dense_replace": 99999, "num_attention_heads": 100,
             "vocab_size": 10})",
         "beyond"}};
    for (const auto& [text, what] : bad) {
        const auto shape = parse_model_config(text, "config.json");
        ASSERT_FALSE(shape.ok()) << text;
        EXPECT_THAT(shape.error().message, HasSubstr("config.json"));
        EXPECT_THAT(shape.error().message, HasSubstr(what)) << text;
    }
}

TEST(ProfileTables, KnownModelsHaveKvBytesAndWork) {
    const std::string directory = kPaperData + "/profiles";
    const auto large = ProfileTables::read(directory, "llama2-70b");
    const auto small = ProfileTables::read(directory, "llama1-30b");
    ASSERT_TRUE(large.ok() && small.ok());
    EXPECT_EQ(large->model().layer_bytes, 1'530'000'000);  // the file's, not the shape's
    EXPECT_EQ(large->model().kv_bytes_per_token_layer, 4096);
    EXPECT_EQ(small->model().kv_bytes_per_token_layer, 26624);
    EXPECT_EQ(small->model().context_length, 2048);
}

}  // namespace
}  // namespace helix::spec::model_shape_test

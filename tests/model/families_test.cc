// What is read of the small models of families: each mechanism that an architecture has, and the
// sizes that planning goes by.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/header_config.h"
#include "model/info.h"
#include "model/model_config.h"
#include "model/rope_scaling.h"
#include "model/synth.h"
#include "model/synth_tokenizers.h"
#include "temporary_folder.h"

namespace helix::model::families_test {
namespace {

using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Families : public ::testing::Test {
  protected:
    std::shared_ptr<const GgufFile> like(const std::string& name,
                                         const std::string& quant = "f32") {
        const std::string path = folder_.file(name + quant + ".gguf");
        const base::Status made = synth_model({name, quant, 1, path, 1});
        EXPECT_TRUE(made.ok()) << made.error().message;
        return *GgufFile::open(path);
    }
    std::shared_ptr<const GgufFile> made(const SynthShape& shape) {
        const std::string path = folder_.file(shape.name + "made.gguf");
        const base::Status made = synth_model(shape, TensorType::f32, {"", "", 1, path, 1});
        EXPECT_TRUE(made.ok()) << made.error().message;
        return *GgufFile::open(path);
    }
    // With one more layer, which only predicts: no tensors of it are in the file.
    std::shared_ptr<const GgufFile> glm4_moe_that_predicts() {
        SynthShape shape = shape_like("glm4-moe");
        shape.n_skipped_layers = 1;
        return made(shape);
    }
    static SynthShape shape_like(const std::string& name) {
        for (const SynthShape& shape : synth_likes()) {
            if (shape.name == name) return shape;
        }
        ADD_FAILURE() << "no shape " << name;
        return {};
    }
    ModelConfig config_of(const std::string& name) {
        const auto config = read_model_config(*like(name));
        EXPECT_TRUE(config.ok()) << config.error().message;
        return config.ok() ? *config : ModelConfig{};
    }

  private:
    TemporaryFolder folder_;
};

TEST_F(Families, EachIsSmallAndCanBeRunInEveryKindOfWeights) {
    for (const SynthShape& shape : synth_likes()) {
        for (const char* quant : {"bf16", "q8_0", "q4_k"}) {
            const auto file = like(shape.name, quant);
            const ModelInfo info = collect_info(*file);
            EXPECT_EQ(info.problem, "") << shape.name;
            EXPECT_LT(info.file_bytes, 100 << 20) << shape.name;
            const SynthTokenizer* tokenizer = find_synth_tokenizer(shape.tokenizer);
            if (tokenizer != nullptr) {
                EXPECT_EQ(*file->get_string("tokenizer.ggml.model"), tokenizer->model);
                EXPECT_EQ(file->get_string("tokenizer.ggml.pre").ok(), !tokenizer->pre.empty());
            }
            std::int64_t layer_bytes = 0;  // of the last layer, which has experts if any has
            for (const TensorInfo& tensor : file->tensors()) {
                if (layer_of_tensor(tensor.name) == shape.n_layers - 1)
                    layer_bytes += static_cast<std::int64_t>(tensor.bytes);
            }
            EXPECT_EQ(info.spec.layer_bytes, layer_bytes) << shape.name;
            const std::int32_t keys = std::max(shape.n_kv_heads * shape.head_size(),
                                               shape.windowed_kv_heads * shape.windowed_head_dim);
            EXPECT_EQ(info.spec.kv_bytes_per_token_layer, 4 * keys) << shape.name;
        }
    }
}

TEST_F(Families, SmolLm3HasLayersWithoutRope) {
    const ModelConfig config = config_of("smollm3");
    EXPECT_THAT(config.rope_layers, ElementsAre(true, true, true, false, true, true, true, false));
    EXPECT_EQ(config.rope_pairs, RopePairs::adjacent);
    EXPECT_THAT(describe_text(*like("smollm3")),
                HasSubstr("32 of 32 dimensions, base 5000000, none in 2 layers"));
}

TEST_F(Families, Glm4HasFourNormsAPartOfRopeAndOneTensorOfGateAndUp) {
    const auto file = like("glm4");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_TRUE(config.input_norms && config.output_norms && config.fused_gate_up);
    EXPECT_FALSE(config.fused_qkv || config.qkv_bias);
    EXPECT_EQ(config.rope_dim, 16);
    EXPECT_EQ(config.head_dim, 32);
    EXPECT_EQ(file->find_tensor("blk.3.ffn_gate.weight"), nullptr);
    EXPECT_EQ(file->find_tensor("blk.3.ffn_up.weight")->shape,
              (std::vector<std::int64_t>{256, 2 * 768}));
}

TEST_F(Families, Olmo2NormsWhatBlocksAddAndNotWhatTheyRead) {
    const auto file = like("olmo2");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_FALSE(config.input_norms);
    EXPECT_TRUE(config.output_norms);
    EXPECT_EQ(config.qk_norm, QkNorm::projection);
    EXPECT_EQ(file->find_tensor("blk.0.attn_norm.weight"), nullptr);
    EXPECT_EQ(file->find_tensor("blk.0.attn_k_norm.weight")->rows(), 1);
    EXPECT_EQ(file->find_tensor("blk.0.attn_k_norm.weight")->row_length(), 8 * 32);
}

TEST_F(Families, Phi4TakesTheLongFactorsOfItsContext) {
    const auto file = like("phi4");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_TRUE(config.fused_qkv && config.fused_gate_up);
    EXPECT_EQ(config.rope_dim, 24);
    EXPECT_EQ(config.rope_factors_tensor, kLongRopeFactors);
    ASSERT_EQ(config.rope_factors.size(), 12U);
    EXPECT_NEAR(config.rope_factors[3], 3.0F, 1.0F);
    EXPECT_EQ(config.rope_magnitude, 1.1F);
}

TEST_F(Families, GraniteHasFourFactors) {
    const ModelConfig config = config_of("granite");
    EXPECT_EQ(config.embedding_scale, 12.0F);
    EXPECT_EQ(config.residual_scale, 0.22F);
    EXPECT_EQ(config.attention_scale, 0.03125F);
    EXPECT_EQ(config.logit_scale, 0.5F);  // the file says by what logits are divided
    EXPECT_THAT(describe_text(*like("granite")),
                HasSubstr("embeddings 12, residuals 0.22, scores 0.03125, logits 0.5"));
}

TEST_F(Families, Llama4HasChunksATemperatureAndExpertsThatReadWeightedRows) {
    const auto file = like("llama4");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_TRUE(config.chunked_attention && config.weighted_expert_inputs);
    EXPECT_EQ(config.sliding_window, 8192);
    EXPECT_EQ(config.temperature_length, 8192);
    EXPECT_EQ(config.temperature_scale, 0.1F);
    EXPECT_THAT(config.full_attention, ElementsAre(false, false, false, true));
    EXPECT_THAT(config.rope_layers, ElementsAre(true, true, true, false));
    EXPECT_FALSE(config.has_temperature(2));
    EXPECT_TRUE(config.has_temperature(3));
    EXPECT_EQ(config.qk_norm, QkNorm::unweighted);
    EXPECT_EQ(file->find_tensor("blk.0.attn_q_norm.weight"), nullptr);
    EXPECT_FALSE(config.has_experts(0) || config.has_experts(2));
    EXPECT_TRUE(config.has_experts(1) && config.has_experts(3));
    EXPECT_EQ(config.dense_width(0), 768);
    EXPECT_EQ(config.shared_ffn, 256);
    EXPECT_FALSE(config.normalise_expert_weights || config.selection_bias);
    const std::string text = describe_text(*file);
    EXPECT_THAT(text, HasSubstr("chunks of 8192 positions, all of them in 1 layer"));
    EXPECT_THAT(text, HasSubstr("in one of 2 layers, the others' feed-forward is 768 wide"));
}

// Llama 4's bounds of what is divided and what is kept are the same.
TEST(RopeFactors, AreWholeWhereNoneFadesIn) {
    Llama3RopeScaling scaling;
    scaling.rope_dim = 128;
    scaling.factor = 16.0F;
    scaling.high_frequency_factor = scaling.low_frequency_factor = 1.0F;
    const std::vector<float> factors = llama3_rope_factors(scaling);
    const auto divided = std::count(factors.begin(), factors.end(), 16.0F);
    EXPECT_EQ(divided + std::count(factors.begin(), factors.end(), 1.0F), 64);
    // The wavelength 2 pi 500000^(i / 64) is beyond 8,192 from i = 35 on.
    EXPECT_EQ(divided, 29);
}

// Published files say nothing of it, but have another number of experts.
TEST_F(Families, Llama4With128ExpertsNormsNeitherQueriesNorKeys) {
    TemporaryFolder folder;
    for (const auto& shape : synth_likes()) {
        if (shape.name != "llama4") continue;
        SynthShape large = shape;
        large.hidden = 32;
        large.n_heads = 2;
        large.ffn = large.dense_ffn = large.shared_ffn = 32;
        large.n_experts = 128;
        SynthOptions options;
        options.path = folder.file("large.gguf");
        ASSERT_TRUE(synth_model(large, TensorType::q8_0, options).ok());
        EXPECT_EQ(read_model_config(**GgufFile::open(options.path))->qk_norm, QkNorm::none);
    }
}

TEST_F(Families, CommandRHasBlocksSideBySideAndRopeWithTheWindow) {
    const auto file = like("command-r");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.architecture, "cohere2");
    EXPECT_EQ(config.norm, NormKind::layer);
    EXPECT_TRUE(config.parallel_blocks);
    EXPECT_EQ(config.logit_scale, 0.25F);
    EXPECT_EQ(config.rope_layers, (std::vector<bool>{1, 1, 1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(config.window_of(3), 0);
    EXPECT_EQ(config.window_of(4), 512);
    EXPECT_EQ(file->find_tensor("blk.0.ffn_norm.weight"), nullptr);
}

TEST_F(Families, CommandRPlusNormsEachHeadWithWeightsOfItsOwn) {
    const auto file = like("command-r-plus", "nvfp4");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.qk_norm, QkNorm::centred);
    EXPECT_EQ(config.sliding_window, 0);
    const TensorInfo& norm = *file->find_tensor("blk.3.attn_q_norm.weight");
    EXPECT_EQ(norm.shape, (std::vector<std::int64_t>{32, 8}));
    EXPECT_EQ(norm.type, TensorType::f32);
    EXPECT_EQ(file->find_tensor("blk.3.attn_k_norm.weight")->rows(), 2);
    EXPECT_EQ(file->find_tensor("blk.3.attn_q_norm.scale"), nullptr);
}

TEST_F(Families, NemotronHasBiasesOfNormsAndNoGate) {
    const auto file = like("nemotron");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.norm, NormKind::layer);
    EXPECT_TRUE(config.norm_bias);
    EXPECT_FALSE(config.has_gate());
    EXPECT_EQ(config.rope_dim, 16);
    EXPECT_EQ(config.rope_pairs, RopePairs::halves);
    EXPECT_EQ(file->find_tensor("blk.0.ffn_gate.weight"), nullptr);
    EXPECT_NE(file->find_tensor("blk.0.ffn_norm.bias"), nullptr);
    EXPECT_NE(file->find_tensor("output_norm.bias"), nullptr);
}

TEST_F(Families, GemmasHaveGeluCapsAndWindows) {
    const ModelConfig second = config_of("gemma2");
    EXPECT_EQ(second.activation, Activation::gelu);
    EXPECT_EQ(second.embedding_scale, 16.0F);
    EXPECT_EQ(second.attention_softcap, 50.0F);
    EXPECT_EQ(second.logit_softcap, 30.0F);
    EXPECT_EQ(second.full_attention, (std::vector<bool>{0, 1, 0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(second.windowed_rope_base, 0.0F);
    EXPECT_EQ(second.head_dim, 64);
    const ModelConfig third = config_of("gemma3");
    EXPECT_EQ(third.qk_norm, QkNorm::heads);
    EXPECT_EQ(third.attention_softcap, 0.0F);
    EXPECT_EQ(third.full_attention, (std::vector<bool>{0, 0, 0, 0, 0, 1, 0, 0}));
    EXPECT_TRUE(third.has_windowed_rope(0));
    EXPECT_FALSE(third.has_windowed_rope(5));
    EXPECT_EQ(third.windowed_rope_base, 10000.0F);
    EXPECT_EQ(third.rope_base, 1e6F);
    EXPECT_EQ(third.rope_scale, 0.125F);
}

TEST_F(Families, Gemma4HasHeadsOfTwoSizes) {
    const auto file = like("gemma4");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.full_attention, (std::vector<bool>{0, 0, 0, 0, 0, 1}));
    EXPECT_EQ(config.head_dim_of(4), 64);
    EXPECT_EQ(config.kv_heads_of(4), 8);
    EXPECT_EQ(config.rope_dim_of(4), 64);
    EXPECT_EQ(config.head_dim_of(5), 128);
    EXPECT_EQ(config.kv_heads_of(5), 2);
    EXPECT_EQ(config.rope_dim_of(5), 128);
    EXPECT_TRUE(config.has_values(4));
    EXPECT_FALSE(config.has_values(5));
    EXPECT_EQ(file->find_tensor("blk.5.attn_v.weight"), nullptr);
    EXPECT_EQ(config.page_kv_heads(), 8);
    EXPECT_EQ(config.page_head_dim(), 64);
    EXPECT_TRUE(config.value_norm && config.layer_scales);
    EXPECT_EQ(config.attention_scale, 1.0F);
    EXPECT_EQ(config.logit_softcap, 30.0F);
    EXPECT_EQ(config.windowed_rope_base, 10000.0F);
    EXPECT_EQ(config.rope_base, 1e6F);
    ASSERT_EQ(config.rope_factors.size(), 64U);
    EXPECT_EQ(config.rope_factors[15], 1.0F);
    EXPECT_EQ(config.rope_factors[16], 1e30F);
    EXPECT_THAT(describe_text(*file),
                HasSubstr("8 heads of 128, 2 KV heads, 8 of 64 in layers with "
                          "the window, the last 512 positions"));
    const ModelConfig mixed = config_of("gemma4-moe");
    EXPECT_TRUE(mixed.dense_beside_experts && mixed.fused_experts);
    EXPECT_EQ(mixed.dense_width(0), 512);
    EXPECT_EQ(mixed.ffn, 256);
}

TEST_F(Families, Glm4MoeHasADenseLayerASharedExpertAndSigmoids) {
    const auto file = glm4_moe_that_predicts();
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.n_layers, 4);  // one of five predicts more tokens and is left out
    EXPECT_EQ(config.n_skipped_layers, 1);
    EXPECT_FALSE(config.has_experts(0));
    EXPECT_TRUE(config.has_experts(1));
    EXPECT_EQ(config.gating, Gating::sigmoid);
    EXPECT_TRUE(config.selection_bias && config.qkv_bias);
    EXPECT_EQ(config.expert_weight_scale, 2.5F);
    EXPECT_TRUE(config.normalise_expert_weights);
    EXPECT_TRUE(*file->get_bool("glm4moe.expert_weights_norm"));
    EXPECT_EQ(config.shared_ffn, 256);
    EXPECT_EQ(config.dense_width(0), 768);
    EXPECT_EQ(config.feed_forward_norm, "post_attention_norm.weight");
    EXPECT_EQ(file->find_tensor("blk.0.ffn_gate_inp.weight"), nullptr);
    EXPECT_EQ(file->find_tensor("blk.1.ffn_gate.weight"), nullptr);
    const ModelInfo info = collect_info(*file);
    EXPECT_EQ(info.parameters - info.active_parameters, 3 * (8 - 2) * 3 * 256 * 256);
    EXPECT_THAT(describe_text(info),
                HasSubstr("; one more of width 256; none in the first layer, whose feed-forward "
                          "is 768 wide"));
}

TEST_F(Families, MiniMaxM2NormsQueriesAsAWholeAndChoosesBySigmoids) {
    const ModelConfig config = config_of("minimax-m2");
    EXPECT_EQ(config.qk_norm, QkNorm::projection);
    EXPECT_EQ(config.gating, Gating::sigmoid);
    EXPECT_TRUE(config.selection_bias);
    EXPECT_EQ(config.rope_dim, 16);
    EXPECT_EQ(config.rope_pairs, RopePairs::halves);
    EXPECT_EQ(config.shared_ffn + config.n_dense_layers, 0);
}

// What files leave out is as the architecture says.
TEST_F(Families, FilesSayAsMuchOfTheirRoutersAsPublishedOnes) {
    EXPECT_EQ(*like("glm4-moe")->get_int("glm4moe.expert_gating_func"), 2);
    EXPECT_EQ(*like("minimax-m2")->get_int("minimax-m2.expert_gating_func"), 2);
    EXPECT_EQ(like("minimax-m2")->find("minimax-m2.expert_weights_norm"), nullptr);
    for (const std::string name : {"gpt-oss", "llama4"}) {
        EXPECT_EQ(like(name)->find(name + ".expert_gating_func"), nullptr) << name;
        EXPECT_EQ(like(name)->find(name + ".expert_weights_norm"), nullptr) << name;
    }
}

TEST_F(Families, GptOssHasSinksBiasesAndAWindowInEverySecondLayer) {
    const auto file = like("gpt-oss");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_TRUE(config.attention_sinks && config.output_bias && config.qkv_bias);
    EXPECT_TRUE(config.expert_biases);
    EXPECT_EQ(config.gating, Gating::softmax);
    EXPECT_TRUE(config.normalise_expert_weights);
    EXPECT_EQ(config.activation, Activation::clamped_silu);
    EXPECT_EQ(config.window_of(0), 128);
    EXPECT_EQ(config.window_of(1), 0);
    EXPECT_GT(config.rope_magnitude, 1.0F);
    EXPECT_EQ(file->find_tensor("blk.0.ffn_gate_exps.bias")->shape,
              (std::vector<std::int64_t>{256, 8}));
    EXPECT_THAT(describe_text(*file), HasSubstr("all of them in 2 layers, with sinks"));
}

// A header with the tensors of a family's small model, and the keys of its experts and others.
std::string problem_with(const GgufFile& file, const std::string& key, GgufValue value,
                         const std::string& spare = "") {
    const std::string architecture = *file.get_string("general.architecture");
    GgufBuilder builder;
    builder.set("general.architecture", architecture);
    for (const char* rest :
         {"block_count", "embedding_length", "context_length", "feed_forward_length",
          "attention.head_count", "attention.head_count_kv", "rope.dimension_count", "expert_count",
          "expert_used_count", "expert_feed_forward_length", "leading_dense_block_count",
          "expert_shared_feed_forward_length", "nextn_predict_layers", "expert_gating_func",
          "interleave_moe_layer_step", "expert_group_count", "expert_group_used_count"}) {
        const auto number = file.get_int(architecture + "." + rest);
        if (number.ok() && key != rest)
            builder.set(architecture + "." + rest, static_cast<std::uint32_t>(*number));
    }
    if (!key.empty()) builder.set(architecture + "." + key, std::move(value));
    for (const TensorInfo& tensor : file.tensors())
        builder.add_tensor(tensor.name, tensor.type, tensor.shape);
    if (!spare.empty()) builder.add_tensor(spare, TensorType::f32, {4, 4});
    const auto config = read_model_config(**GgufFile::from_header(builder.header(), "m.gguf"));
    return config.ok() ? "" : config.error().message;
}

TEST_F(Families, Glm4MoeMayHaveItsExpertsInGroups) {
    SynthShape shape = shape_like("glm4-moe");
    shape.n_expert_groups = 4;
    shape.n_expert_groups_used = 2;
    const auto file = made(shape);
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.n_expert_groups, 4);
    EXPECT_EQ(config.n_expert_groups_used, 2);
    EXPECT_THAT(describe_text(collect_info(*file)), HasSubstr("; of 2 of 4 groups"));
    const struct {
        const char* key;
        std::uint32_t value;
        const char* problem;
    } cases[] = {
        {"expert_group_count", 1, ""},
        {"expert_group_count", 2, ""},
        {"expert_group_used_count", 4, ""},
        {"expert_group_count", 3,
         "glm4moe.expert_group_count: 3, expected a number of groups that "
         "divides the 8 experts"},
        {"expert_group_count", 8, "glm4moe.expert_group_count: 8, expected groups of at least two"},
        {"expert_group_count", 33, "glm4moe.expert_group_count: 33, expected 0 to 32"},
        {"expert_group_used_count", 0, "glm4moe.expert_group_used_count: 0, expected 1 to 4"},
        {"expert_group_used_count", 5, "glm4moe.expert_group_used_count: 5, expected 1 to 4"},
        {"expert_used_count", 5,
         "glm4moe.expert_group_count: 4, 5 of 8 experts are used, but 2 "
         "groups have 4"},
        {"expert_gating_func", 1,
         "glm4moe.expert_group_count: 4, groups of experts are supported "
         "with expert_gating_func 2 (sigmoid)"},
    };
    for (const auto& one : cases) {
        const std::string problem = problem_with(*file, one.key, one.value);
        EXPECT_THAT(problem, HasSubstr(one.problem));
        EXPECT_EQ(problem.empty(), std::string(one.problem).empty()) << problem;
    }
    shape.n_expert_groups = 3;
    EXPECT_THAT(synth_model(shape, TensorType::f32, {}).error().message,
                HasSubstr("groups of experts that the architecture"));
}

TEST_F(Families, Qwen2MoeHasAGateOfTheExpertThatEveryRowVisits) {
    const auto file = like("qwen2-moe", "q8_0");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_TRUE(config.qkv_bias && config.shared_gate);
    EXPECT_EQ(config.qk_norm, QkNorm::none);
    EXPECT_EQ(config.rope_pairs, RopePairs::halves);
    EXPECT_EQ(config.gating, Gating::softmax);
    EXPECT_FALSE(config.normalise_expert_weights);
    EXPECT_EQ(config.ffn, 256);
    EXPECT_EQ(config.shared_ffn, 1024);
    const TensorInfo& gate = *file->find_tensor("blk.2.ffn_gate_inp_shexp.weight");
    EXPECT_EQ(gate.shape, std::vector<std::int64_t>{256});
    EXPECT_EQ(gate.type, TensorType::f32);
    const ModelInfo info = collect_info(*file);
    EXPECT_EQ(info.parameters - info.active_parameters, 4 * (8 - 2) * 3 * 256 * 256);
    EXPECT_THAT(describe_text(info), HasSubstr("; one more of width 1024, with a gate"));
    EXPECT_FALSE(config_of("glm4-moe").shared_gate);
    SynthShape without = shape_like("qwen2-moe");
    without.shared_ffn = 0;
    EXPECT_THAT(synth_model(without, TensorType::f32, {}).error().message,
                HasSubstr("a shared expert or a bias where there are no such"));
}

// How the small Qwen 2 with experts is edited.
struct GateEdit {
    const char* key = "";                     // has this value, or is left out without one
    std::optional<GgufValue> value = {};      // an integer or a boolean
    std::vector<std::int64_t> shape = {256};  // of the gates; empty: there are none
    TensorType type = TensorType::f32;
};

base::Result<ModelConfig> edited_qwen2_moe(const GgufFile& file, const GateEdit& edit) {
    GgufBuilder builder;
    const std::string key = std::string("qwen2moe.") + edit.key;
    for (const RawEntry& entry : file.raw_metadata()) {
        if (entry.key != key) builder.set_raw(entry.key, {entry.value.begin(), entry.value.end()});
    }
    if (edit.value) builder.set(key, *edit.value);
    for (const TensorInfo& tensor : file.tensors()) {
        const bool is_gate = tensor.name.ends_with("ffn_gate_inp_shexp.weight");
        if (is_gate && edit.shape.empty()) continue;
        builder.add_tensor(tensor.name, is_gate ? edit.type : tensor.type,
                           is_gate ? edit.shape : tensor.shape);
    }
    return read_model_config(**GgufFile::from_header(builder.header(), "m.gguf"));
}

TEST_F(Families, Qwen2MoesThatWeCannotRunAreRefusedByName) {
    const auto file = like("qwen2-moe");
    const auto problem = [&](const GateEdit& edit) {
        const auto config = edited_qwen2_moe(*file, edit);
        return config.ok() ? "" : config.error().message;
    };
    const std::string gate = "m.gguf: tensor blk.0.ffn_gate_inp_shexp.weight: ";
    EXPECT_EQ(problem({}), "");
    EXPECT_EQ(problem({.shape = {256, 1}}), "");
    EXPECT_EQ(problem({.shape = {256, 1}, .type = TensorType::f16}), "");
    EXPECT_EQ(problem({.shape = {}}), gate + "missing");
    EXPECT_EQ(problem({.shape = {255}}), gate + "shape [255], expected [256]");
    EXPECT_EQ(problem({.shape = {256, 2}}), gate + "shape [256, 2], expected [256, 1]");
    EXPECT_EQ(problem({.shape = {1, 256}}), gate + "shape [1, 256], expected [256, 1]");
    EXPECT_EQ(problem({.shape = {256, 1, 1}}), gate + "shape [256, 1, 1], expected [256]");
    EXPECT_EQ(problem({.type = TensorType::f16}), gate + "type f16, expected f32");
    const char* width = "expert_shared_feed_forward_length";
    EXPECT_THAT(problem({.key = width}), HasSubstr("feed_forward_length: missing"));
    EXPECT_THAT(problem({.key = width, .value = 0U}), HasSubstr(": 0, expected 1 to 4194304"));
    EXPECT_THAT(problem({.key = width, .value = 512U}),
                HasSubstr("ffn_down_shexp.weight: shape [1024, 256], expected [512, 256]"));
    const auto normed = edited_qwen2_moe(*file, {.key = "expert_weights_norm", .value = true});
    ASSERT_TRUE(normed.ok()) << normed.error().message;
    EXPECT_TRUE(normed->normalise_expert_weights);
    // Of other families nobody reads a gate.
    EXPECT_THAT(problem_with(*like("glm4-moe"), "", 0U, "blk.1.ffn_gate_inp_shexp.weight"),
                HasSubstr("ffn_gate_inp_shexp.weight: not part of a glm4moe model"));
}

TEST_F(Families, Llama4sThatWeCannotRunAreRefusedByName) {
    const auto file = like("llama4");
    EXPECT_THAT(problem_with(*file, "attention.sliding_window", 0U),
                HasSubstr("llama4.attention.sliding_window: 0, expected the 8192 positions of a "
                          "chunk"));
    EXPECT_THAT(problem_with(*file, "rope.scaling.type", std::string("yarn")),
                HasSubstr("llama4.rope.scaling.type: yarn is not supported in llama4 models"));
    EXPECT_THAT(problem_with(*file, "interleave_moe_layer_step", 3U),
                HasSubstr("tensor blk.1.ffn_down.weight: missing"));
    EXPECT_THAT(problem_with(*file, "interleave_moe_layer_step", 5U),
                HasSubstr("llama4.interleave_moe_layer_step: 5, expected 1 to 4"));
    EXPECT_THAT(problem_with(*file, "leading_dense_block_count", 1U),
                HasSubstr("llama4.leading_dense_block_count: 1, supported in this"));
    EXPECT_THAT(problem_with(*file, "expert_weights_norm", true),
                HasSubstr("llama4.expert_weights_norm: true, supported in this"));
    EXPECT_THAT(problem_with(*file, "expert_gating_func", 3U),
                HasSubstr("llama4.expert_gating_func: supported in this architecture is 2"));
}

TEST_F(Families, ExpertsThatAreRoutedInAnotherWayAreRefusedByName) {
    const auto file = glm4_moe_that_predicts();
    EXPECT_EQ(problem_with(*file, "", 0U), "");
    // What the layers left out are made of does not matter.
    EXPECT_EQ(problem_with(*file, "", 0U, "blk.4.nextn.eh_proj.weight"), "");
    EXPECT_THAT(problem_with(*file, "", 0U, "blk.5.nextn.eh_proj.weight"),
                HasSubstr("tensor blk.5.nextn.eh_proj.weight: not part of a glm4moe model of 4"));
    EXPECT_EQ(problem_with(*file, "expert_group_count", 1U), "");
    EXPECT_THAT(problem_with(*like("minimax-m2"), "expert_group_count", 4U),
                HasSubstr("minimax-m2.expert_group_count: 4, groups of experts are not supported"));
    EXPECT_THAT(problem_with(*file, "expert_gating_func", 4U),
                HasSubstr("glm4moe.expert_gating_func: 4, supported are 1 (softmax)"));
    EXPECT_THAT(problem_with(*file, "expert_gating_func", 1U),
                HasSubstr("tensor blk.1.exp_probs_b.bias: not part of a glm4moe model"));
    EXPECT_THAT(problem_with(*file, "leading_dense_block_count", 4U),
                HasSubstr("leading_dense_block_count: 4, expected 0 to 3"));
    EXPECT_THAT(problem_with(*file, "leading_dense_block_count", 0U), HasSubstr("tensor blk.0."));
    EXPECT_THAT(problem_with(*file, "expert_shared_feed_forward_length", 0U),
                HasSubstr("_shexp.weight: not part of"));
}

// The metadata and tensors of the small Gemma 4, with one key changed or without a tensor.
std::string problem_of_gemma4(const GgufFile& file, const std::string& key, GgufValue value,
                              std::string_view without = "",
                              const std::vector<TensorInfo>& more = {}) {
    GgufBuilder builder;
    builder.set("general.architecture", "gemma4");
    const auto set = [&](const std::string& rest, GgufValue otherwise) {
        builder.set("gemma4." + rest, key == rest ? value : std::move(otherwise));
    };
    for (const char* rest :
         {"block_count", "embedding_length", "context_length", "feed_forward_length",
          "attention.head_count", "attention.sliding_window", "attention.key_length",
          "attention.value_length", "attention.key_length_swa", "attention.value_length_swa"}) {
        const auto said = file.get_int(std::string("gemma4.") + rest);
        set(rest, said.ok() ? static_cast<std::uint32_t>(*said) : 0U);
    }
    const auto layers = file.get_int("gemma4.block_count");
    if (*layers == 6) {
        set("attention.head_count_kv", std::vector<std::int32_t>{8, 8, 8, 8, 8, 2});
    } else {
        set("attention.head_count_kv", 1U);
        set("attention.sliding_window_pattern", 5U);
    }
    for (const char* rest : {"attention.shared_kv_layers", "embedding_length_per_layer_input"})
        set(rest, static_cast<std::uint32_t>(*file.get_int(std::string("gemma4.") + rest)));
    for (const TensorInfo& tensor : more)
        builder.add_tensor(tensor.name, tensor.type, tensor.shape);
    for (const TensorInfo& tensor : file.tensors()) {
        if (tensor.name != without) builder.add_tensor(tensor.name, tensor.type, tensor.shape);
    }
    const auto config = read_header_config(**GgufFile::from_header(builder.header(), "m.gguf"));
    return config.ok() ? "" : config.error().message;
}

TEST_F(Families, Gemma4sThatWeCannotRunAreRefusedByName) {
    using Counts = std::vector<std::int32_t>;
    const auto file = like("gemma4");
    EXPECT_EQ(problem_of_gemma4(*file, "", 0U), "");
    // Some converters write one width for each layer.
    EXPECT_EQ(problem_of_gemma4(*file, "feed_forward_length", Counts(6, 768)), "");
    Counts widths(6, 768);
    widths[3] = 1536;
    EXPECT_THAT(problem_of_gemma4(*file, "feed_forward_length", widths),
                HasSubstr("tensor blk.3.ffn_down.weight: shape [768, 256], expected [1536, 256]"));
    widths[3] = 0;
    EXPECT_THAT(problem_of_gemma4(*file, "feed_forward_length", widths),
                HasSubstr("gemma4.feed_forward_length: 768 and 0, expected widths from 1 to"));
    EXPECT_THAT(
        problem_of_gemma4(*file, "attention.shared_kv_layers", 4U),
        HasSubstr("gemma4.attention.shared_kv_layers: 4, but layer 5 is without the window, "
                  "and no layer with keys and values is"));
    EXPECT_THAT(problem_of_gemma4(*file, "attention.shared_kv_layers", 6U),
                HasSubstr("gemma4.attention.shared_kv_layers: 6, expected 0 to 5"));
    EXPECT_THAT(problem_of_gemma4(*file, "embedding_length_per_layer_input", 256U),
                HasSubstr("tensor per_layer_token_embd.weight: missing"));
    EXPECT_THAT(problem_of_gemma4(*file, "attention.head_count_kv", Counts{8, 8, 4, 8, 8, 2}),
                HasSubstr("gemma4.attention.head_count_kv: 4 in layer 2, expected"));
    EXPECT_THAT(problem_of_gemma4(*file, "attention.head_count_kv", Counts{8, 8}),
                HasSubstr("expected an array of 6 numbers, one a layer"));
    EXPECT_THAT(problem_of_gemma4(*file, "attention.head_count_kv", Counts{3, 3, 3, 3, 3, 2}),
                HasSubstr("gemma4.attention.head_count_kv: 3, expected a divisor of the 8 heads"));
    EXPECT_THAT(problem_of_gemma4(*file, "", 0U, kRopeFactors),
                HasSubstr("tensor rope_freqs.weight"));
    EXPECT_THAT(problem_of_gemma4(*file, "attention.value_length_swa", 32U),
                HasSubstr("attention.value_length_swa: 32, expected the key length 64"));
}

TEST_F(Families, Gemma4EHasInputsOfLayersAndSharedKeys) {
    const auto file = like("gemma4-e");
    const ModelConfig config = *read_model_config(*file);
    EXPECT_EQ(config.full_attention, (std::vector<bool>{0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(config.layer_input, 256);
    EXPECT_EQ(config.n_shared_kv_layers, 5);
    for (std::int32_t layer = 0; layer < 5; ++layer) EXPECT_EQ(config.kv_layer(layer), layer);
    for (std::int32_t layer = 5; layer < 9; ++layer) EXPECT_EQ(config.kv_layer(layer), 3);
    EXPECT_EQ(config.kv_layer(9), 4);
    EXPECT_EQ(config.joined_layers(), 7);
    EXPECT_EQ(config.dense_width(4), 768);
    EXPECT_EQ(config.dense_width(5), 1536);
    EXPECT_EQ(config.ffn, 1536) << "the largest";
    EXPECT_EQ(file->find_tensor("blk.5.attn_k.weight"), nullptr);
    const spec::ModelSpec spec = *read_model_spec(*file);
    EXPECT_EQ(spec.joined_layers, 7);
    EXPECT_EQ(spec.shared_kv_layers, 5);
    const auto json = nlohmann::json::parse(describe_json(*file));
    EXPECT_EQ(json["spec"]["kv_bytes_per_token"], 5 * spec.kv_bytes_per_token_layer);
    EXPECT_EQ(spec.embedding_bytes, 0);
    std::int64_t all = 0, common = 0;
    for (const TensorInfo& tensor : file->tensors()) {
        const auto bytes = static_cast<std::int64_t>(tensor.bytes);
        if (tensor.name == kRopeFactors) continue;
        all += bytes;
        if (tensor.name.starts_with("per_layer") || tensor.name == "token_embd.weight")
            common += bytes;
    }
    EXPECT_EQ(spec.common_bytes, common);
    const std::int64_t embedding = std::int64_t{2048} * 256 * 4;
    EXPECT_EQ(spec::stored_bytes(spec, {0, 10}), all + embedding) << "it is the head, too";
    EXPECT_THAT(describe_text(*file), HasSubstr("256 numbers of each token"));
    EXPECT_THAT(describe_text(*file), HasSubstr("layers 3 to 9 stay together"));
    EXPECT_EQ(config_of("gemma4").joined_layers(), 0);
}

TEST_F(Families, Gemma4EMayHaveKeysThatNobodyReads) {
    const auto file = like("gemma4-e");
    const std::vector<TensorInfo> keys{
        {.name = "blk.5.attn_k.weight", .type = TensorType::f16, .shape = {256, 64}},
        {.name = "blk.5.attn_v.weight", .type = TensorType::f16, .shape = {256, 64}},
        {.name = "blk.5.attn_k_norm.weight", .type = TensorType::f32, .shape = {64}}};
    const std::vector<std::int32_t> widths{768, 768, 768, 768, 768, 1536, 1536, 1536, 1536, 1536};
    const auto problem = [&](const std::vector<TensorInfo>& more) {
        return problem_of_gemma4(*file, "feed_forward_length", widths, "", more);
    };
    EXPECT_EQ(problem({}), "");
    EXPECT_EQ(problem(keys), "");
    EXPECT_THAT(problem({{.name = "blk.5.attn_k.bias", .type = TensorType::f32, .shape = {64}}}),
                HasSubstr("tensor blk.5.attn_k.bias: not part of a gemma4 model"));
}

// The header of a model with one tensor more.
std::shared_ptr<const GgufFile> with_tensor(const GgufFile& file, const std::string& architecture,
                                            const std::string& name,
                                            std::vector<std::int64_t> shape) {
    GgufBuilder builder;
    builder.set("general.architecture", architecture);
    for (const char* key :
         {"block_count", "embedding_length", "context_length", "feed_forward_length",
          "attention.head_count", "attention.head_count_kv", "rope.dimension_count"}) {
        const std::string whole = architecture + "." + key;
        builder.set(whole, static_cast<std::uint32_t>(*file.get_int(whole)));
    }
    for (const TensorInfo& tensor : file.tensors())
        builder.add_tensor(tensor.name, tensor.type, tensor.shape);
    builder.add_tensor(name, TensorType::f32, std::move(shape));
    return *GgufFile::from_header(builder.header(), "m.gguf");
}

TEST_F(Families, ATensorOfAnotherMechanismIsRefusedByName) {
    const struct {
        const char* like;
        const char* architecture;
        const char* tensor;
        std::vector<std::int64_t> shape;
    } cases[] = {{"command-r", "cohere2", "blk.0.attn_q_norm.weight", {32, 8}},
                 {"granite", "granite", "blk.2.attn_output.bias", {256}},
                 {"olmo2", "olmo2", "blk.1.ffn_norm.weight", {256}},
                 {"glm4", "glm4", "rope_factors_long.weight", {8}}};
    for (const auto& one : cases) {
        const auto file = with_tensor(*like(one.like), one.architecture, one.tensor, one.shape);
        const auto config = read_model_config(*file);
        ASSERT_FALSE(config.ok()) << one.like;
        EXPECT_THAT(config.error().message, HasSubstr(std::string("m.gguf: tensor ") + one.tensor +
                                                      ": not part of a " + one.architecture));
        EXPECT_THAT(describe_text(*file),
                    HasSubstr(std::string("runs here         no: m.gguf: tensor ") + one.tensor));
    }
}

}  // namespace
}  // namespace helix::model::families_test

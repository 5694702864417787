#include "model/model_config.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/gguf_writer.h"
#include "model/local_weights.h"
#include "model/rope_scaling.h"

namespace helix::model::model_config_test {
namespace {

using ::testing::HasSubstr;

struct Tensor {
    TensorType type = TensorType::f32;
    std::vector<std::int64_t> shape;
};

// A right file of two layers, to be made wrong by the tests.
struct Llama {
    std::map<std::string, GgufValue> metadata{
        {"general.architecture", "llama"},     {"llama.block_count", 2U},
        {"llama.context_length", 128U},        {"llama.embedding_length", 32U},
        {"llama.feed_forward_length", 64U},    {"llama.attention.head_count", 4U},
        {"llama.attention.head_count_kv", 2U}, {"llama.attention.layer_norm_rms_epsilon", 1e-6F},
    };
    std::map<std::string, Tensor> tensors;

    Llama() {
        tensors["token_embd.weight"] = {TensorType::q8_0, {32, 100}};
        tensors["output_norm.weight"] = {TensorType::f32, {32}};
        tensors["output.weight"] = {TensorType::f16, {32, 100}};
        for (const std::string layer : {"blk.0.", "blk.1."}) {
            tensors[layer + "attn_norm.weight"] = {TensorType::f32, {32}};
            tensors[layer + "attn_q.weight"] = {TensorType::q8_0, {32, 32}};
            tensors[layer + "attn_k.weight"] = {TensorType::q8_0, {32, 16}};
            tensors[layer + "attn_v.weight"] = {TensorType::q8_0, {32, 16}};
            tensors[layer + "attn_output.weight"] = {TensorType::q8_0, {32, 32}};
            tensors[layer + "ffn_norm.weight"] = {TensorType::f32, {32}};
            tensors[layer + "ffn_gate.weight"] = {TensorType::q8_0, {32, 64}};
            tensors[layer + "ffn_up.weight"] = {TensorType::q8_0, {32, 64}};
            tensors[layer + "ffn_down.weight"] = {TensorType::q8_0, {64, 32}};
        }
    }

    GgufBuilder builder() const {
        GgufBuilder made;
        for (const auto& [key, value] : metadata) made.set(key, value);
        for (const auto& [name, tensor] : tensors) made.add_tensor(name, tensor.type, tensor.shape);
        return made;
    }
    // The file; every float in the tensor data is fill.
    std::shared_ptr<const GgufFile> file(float fill = 0) const {
        const GgufBuilder made = builder();
        std::vector<std::byte> image = made.header();
        const std::vector<float> data(made.data_bytes() / sizeof(float), fill);
        const auto bytes = std::as_bytes(std::span(data));
        image.insert(image.end(), bytes.begin(), bytes.end());
        auto opened = GgufFile::from_image(std::move(image), "m.gguf");
        EXPECT_TRUE(opened.ok()) << opened.error().message;
        return *opened;
    }
    std::string error() const {
        const auto config = read_model_config(*file());
        return config.ok() ? "no error" : config.error().message;
    }
};

TEST(ModelConfig, ReadsHyperparametersAndDefaults) {
    const auto config = read_model_config(*Llama().file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->architecture, "llama");
    EXPECT_EQ(config->name, "m");
    EXPECT_EQ(config->n_layers, 2);
    EXPECT_EQ(config->hidden, 32);
    EXPECT_EQ(config->ffn, 64);
    EXPECT_EQ(config->n_heads, 4);
    EXPECT_EQ(config->n_kv_heads, 2);
    EXPECT_EQ(config->head_dim, 8);
    EXPECT_EQ(config->rope_dim, 8);
    EXPECT_EQ(config->vocab, 100);
    EXPECT_EQ(config->context_length, 128);
    EXPECT_EQ(config->norm_epsilon, 1e-6F);
    EXPECT_EQ(config->rope_base, 10000.0F);
    EXPECT_EQ(config->rope_scale, 1.0F);
    EXPECT_FALSE(config->tied_embeddings);
    EXPECT_TRUE(config->rope_factors.empty());
}

TEST(ModelConfig, HeadIsTiedWhenThereIsNoOutputTensor) {
    Llama llama;
    llama.tensors.erase("output.weight");
    const auto file = llama.file();
    EXPECT_TRUE(read_model_config(*file)->tied_embeddings);
    const auto spec = *read_model_spec(*file);
    EXPECT_EQ(spec.embedding_bytes, 100 * 34);
    EXPECT_EQ(spec.head_bytes, 32 * 4 + 100 * 34);
}

TEST(ModelConfig, KvHeadsDefaultToHeads) {
    Llama llama;
    llama.metadata.erase("llama.attention.head_count_kv");
    for (const std::string name : {"blk.0.attn_k.weight", "blk.0.attn_v.weight",
                                   "blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
        llama.tensors[name].shape = {32, 32};
    }
    const auto config = read_model_config(*llama.file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->n_kv_heads, 4);
}

TEST(ModelConfig, HeadSizeMayDifferFromHiddenOverHeads) {
    Llama llama;
    llama.metadata["llama.attention.key_length"] = 16U;
    llama.metadata["llama.attention.value_length"] = 16U;
    for (const std::string layer : {"blk.0.", "blk.1."}) {
        llama.tensors[layer + "attn_q.weight"].shape = {32, 64};
        llama.tensors[layer + "attn_k.weight"].shape = {32, 32};
        llama.tensors[layer + "attn_v.weight"].shape = {32, 32};
        llama.tensors[layer + "attn_output.weight"].shape = {64, 32};
    }
    const auto config = read_model_config(*llama.file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->head_dim, 16);
}

TEST(ModelConfig, LinearRopeScalingDividesThePosition) {
    Llama llama;
    llama.metadata["llama.rope.scaling.type"] = "linear";
    llama.metadata["llama.rope.scaling.factor"] = 4.0F;
    EXPECT_EQ(read_model_config(*llama.file())->rope_scale, 0.25F);
    llama.metadata["llama.rope.scaling.type"] = "none";
    EXPECT_EQ(read_model_config(*llama.file())->rope_scale, 1.0F);
    llama.metadata["llama.rope.scaling.type"] = "longrope";
    EXPECT_THAT(llama.error(),
                HasSubstr("metadata llama.rope.scaling.type: \"longrope\" is not supported"));
}

// Worked out by hand: dimension 1 turns 32 times in 4096 positions of base 10000 and eight
// dimensions, dimension 3 once.
TEST(ModelConfig, YarnDividesSlowFrequencies) {
    Llama llama;
    llama.metadata["llama.rope.scaling.type"] = "yarn";
    llama.metadata["llama.rope.scaling.factor"] = 4.0F;
    llama.metadata["llama.rope.scaling.original_context_length"] = 4096U;
    const auto config = read_model_config(*llama.file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    const float expected[] = {1.0F, 1.0F, 1.6F, 4.0F};
    ASSERT_EQ(config->rope_factors.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(config->rope_factors[i], expected[i], 1e-6) << i;
    EXPECT_NEAR(config->rope_magnitude, 1.1386294, 1e-6);
    EXPECT_EQ(config->rope_scale, 1.0F);
    llama.metadata["llama.rope.scaling.attn_factor"] = 0.5F;
    EXPECT_NEAR(read_model_config(*llama.file())->rope_magnitude, 0.5693147, 1e-6);
    llama.metadata["llama.rope.scaling.yarn_ext_factor"] = 0.5F;
    EXPECT_EQ(llama.error(),
              "m.gguf: metadata llama.rope.scaling.yarn_ext_factor: 0.5, only 1 is supported");
    llama.metadata.erase("llama.rope.scaling.yarn_ext_factor");
    llama.tensors["rope_freqs.weight"] = {TensorType::f32, {4}};
    EXPECT_THAT(llama.error(), HasSubstr("not expected where llama.rope.scaling.type is yarn"));
}

TEST(ModelConfig, Llama3ScalingFadesInBetweenItsTwoWavelengths) {
    // Wavelengths 2 pi 10^i: 20.4, 2.04, 0.204, 0.0204 turns in 128 positions.
    const auto factors = llama3_rope_factors({10000.0F, 8, 8.0F, 1.0F, 4.0F, 128});
    const float expected[] = {1.0F, 2.339117F, 8.0F, 8.0F};
    ASSERT_EQ(factors.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(factors[i], expected[i], 1e-5) << i;
}

TEST(ModelConfig, PoolingIsTheFilesOwnAndElseTheMean) {
    Llama llama;
    const auto pooling = [&] { return read_model_config(*llama.file())->pooling; };
    EXPECT_EQ(pooling(), spec::Pooling::mean);
    const std::pair<std::uint32_t, spec::Pooling> types[] = {{0, spec::Pooling::none},
                                                             {1, spec::Pooling::mean},
                                                             {2, spec::Pooling::cls},
                                                             {3, spec::Pooling::last},
                                                             {4, spec::Pooling::none}};
    for (const auto& [type, expected] : types) {
        llama.metadata["llama.pooling_type"] = type;
        EXPECT_EQ(pooling(), expected) << type;
    }
    llama.metadata["llama.pooling_type"] = std::string("mean");
    EXPECT_THAT(llama.error(), HasSubstr("llama.pooling_type"));
}

using Rows = std::vector<std::int32_t>;

TEST(ModelConfig, AClassifiersHeadRanksByItsRowOfYes) {
    Llama llama;
    llama.metadata["llama.pooling_type"] = 4U;
    llama.tensors["cls.output.weight"] = {TensorType::f16, {32, 3}};
    const auto head = [&] { return read_model_config(*llama.file())->rank_head; };
    EXPECT_EQ(head().tensor, "cls.output.weight");
    EXPECT_EQ(head().rows, (Rows{0, 1, 2})) << "without labels the first row is it";
    EXPECT_EQ(read_model_spec(*llama.file())->head_bytes, 32 * 4 + 32 * 100 * 2 + 3 * 32 * 2);
    const std::string labels = "llama.classifier.output_labels";
    llama.metadata[labels] = std::vector<std::string>{"no", "maybe", "yes"};
    EXPECT_EQ(head().rows, (Rows{2, 1, 0}));
    llama.metadata[labels] = std::vector<std::string>{"good", "bad", "ugly"};
    EXPECT_FALSE(head().present()) << "a classifier of something else";
    llama.metadata[labels] = std::vector<std::string>{"yes", "no"};
    EXPECT_THAT(llama.error(), HasSubstr("2 labels, tensor cls.output.weight has 3 rows"));
    llama.metadata[labels] = 5U;
    EXPECT_THAT(llama.error(), HasSubstr("expected an array of strings"));
    llama.metadata.erase(labels);
    llama.tensors["cls.output.weight"] = {TensorType::f32, {64, 2}};
    EXPECT_THAT(llama.error(), HasSubstr("the hidden size 32"));
    llama.tensors["cls.output.weight"] = {TensorType::f32, {32, 1}};
    EXPECT_FALSE(head().present()) << "there are no odds of one answer";
}

TEST(ModelConfig, YesAndNoOfAVocabularyRankUnlessTheModelEmbeds) {
    Llama llama;
    const auto head = [&] { return read_model_config(*llama.file())->rank_head; };
    EXPECT_FALSE(head().present()) << "it has no vocabulary";
    llama.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>{"a", "no", "Yes", "yes"};
    EXPECT_EQ(head().tensor, "output.weight");
    EXPECT_EQ(head().rows, (Rows{3, 1}));
    llama.metadata["llama.pooling_type"] = 3U;
    EXPECT_FALSE(head().present()) << "its output head is not trained";
    llama.metadata["llama.pooling_type"] = 0U;
    llama.tensors.erase("output.weight");
    EXPECT_EQ(head().tensor, "token_embd.weight");
    llama.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>{"a", "no", "Yes"};
    EXPECT_FALSE(head().present());
}

TEST(ModelConfig, WindowMayLeaveOutLayers) {
    Llama llama;
    EXPECT_EQ(read_model_config(*llama.file())->window_of(1), 0);
    llama.metadata["llama.attention.sliding_window"] = 48U;
    EXPECT_EQ(read_model_config(*llama.file())->window_of(1), 48);
    llama.metadata["llama.attention.sliding_window_pattern"] = std::vector<bool>{true, false};
    const auto config = *read_model_config(*llama.file());
    EXPECT_EQ(config.window_of(0), 48);
    EXPECT_EQ(config.window_of(1), 0);
    llama.metadata["llama.attention.sliding_window_pattern"] = std::vector<bool>{true};
    EXPECT_EQ(llama.error(),
              "m.gguf: metadata llama.attention.sliding_window_pattern: expected an array of 2 "
              "booleans, one a layer");
}

// The right file as one of another architecture.
Llama renamed(const std::string& architecture) {
    Llama model;
    std::map<std::string, GgufValue> metadata{{"general.architecture", architecture}};
    for (const auto& [key, value] : model.metadata) {
        if (key.starts_with("llama")) metadata[architecture + key.substr(5)] = value;
    }
    model.metadata = std::move(metadata);
    return model;
}

TEST(ModelConfig, QwenHasBiasesOrHeadNorms) {
    Llama second = renamed("qwen2");
    EXPECT_EQ(second.error(), "m.gguf: tensor blk.0.attn_k.bias: missing");
    Llama third = renamed("qwen3");
    EXPECT_EQ(third.error(), "m.gguf: tensor blk.0.attn_k_norm.weight: missing");
    for (const std::string layer : {"blk.0.", "blk.1."}) {
        second.tensors[layer + "attn_q.bias"] = {TensorType::f32, {32}};
        second.tensors[layer + "attn_k.bias"] = {TensorType::f32, {16}};
        second.tensors[layer + "attn_v.bias"] = {TensorType::f32, {16}};
        third.tensors[layer + "attn_q_norm.weight"] = {TensorType::f32, {8}};
        third.tensors[layer + "attn_k_norm.weight"] = {TensorType::f32, {8}};
    }
    EXPECT_EQ(second.error(), "no error");
    EXPECT_EQ(third.error(), "no error");
    const auto config = *read_model_config(*second.file());
    EXPECT_TRUE(config.qkv_bias);
    EXPECT_EQ(config.rope_pairs, RopePairs::halves);
    EXPECT_EQ(read_model_config(*Llama().file())->rope_pairs, RopePairs::adjacent);
}

TEST(ModelConfig, ExpertsAreStoredAndMostlyUnused) {
    Llama llama;
    llama.metadata["llama.expert_count"] = 8U;
    llama.metadata["llama.expert_used_count"] = 2U;
    for (const std::string layer : {"blk.0.", "blk.1."}) {
        for (const std::string what : {"gate", "up", "down"}) {
            Tensor expert = llama.tensors[layer + "ffn_" + what + ".weight"];
            expert.shape.push_back(8);
            llama.tensors[layer + "ffn_" + what + "_exps.weight"] = expert;
            llama.tensors.erase(layer + "ffn_" + what + ".weight");
        }
        EXPECT_THAT(llama.error(), HasSubstr("missing"));
        llama.tensors[layer + "ffn_gate_inp.weight"] = {TensorType::f32, {32, 8}};
    }
    const auto config = read_model_config(*llama.file());
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->n_experts, 8);
    EXPECT_EQ(config->n_experts_used, 2);
    EXPECT_TRUE(config->normalise_expert_weights);
    const auto spec = *read_model_spec(*llama.file());
    const std::int64_t attention = 2 * 32 * 32 + 2 * 32 * 16;
    EXPECT_EQ(spec.layer_expert_bytes, 8 * 3 * 32 * 64 / 32 * 34);
    EXPECT_EQ(spec.layer_bytes,
              spec.layer_expert_bytes + attention / 32 * 34 + 2 * 32 * 4 + 32 * 8 * 4);
    EXPECT_EQ(spec.flops_per_token_layer,
              2.0 * static_cast<double>(attention + 32 * 8 + 2 * 3 * 32 * 64));
    EXPECT_EQ(spec.n_experts, 8);
    llama.metadata["llama.expert_used_count"] = 9U;
    EXPECT_EQ(llama.error(), "m.gguf: metadata llama.expert_used_count: 9, expected 1 to 8");
    llama.metadata["llama.expert_used_count"] = 2U;
    llama.tensors["blk.1.ffn_up_exps.weight"].shape = {32, 64, 7};
    EXPECT_EQ(llama.error(),
              "m.gguf: tensor blk.1.ffn_up_exps.weight: shape [32, 64, 7], expected [32, 64, 8]");
}

TEST(ModelConfig, RopeFactorsComeFromTheirTensor) {
    Llama llama;
    llama.tensors["rope_freqs.weight"] = {TensorType::f32, {4}};
    const auto config = read_model_config(*llama.file(2.5F));
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->rope_factors, std::vector<float>(4, 2.5F));
    EXPECT_THAT(llama.error(),
                HasSubstr("tensor rope_freqs.weight: expected finite numbers above zero"));

    LocalWeights weights(llama.file(3.0F));
    EXPECT_EQ(read_model_config(weights)->rope_factors, std::vector<float>(4, 3.0F));
    const auto header = *GgufFile::from_header(llama.builder().header());
    EXPECT_TRUE(read_model_spec(*header).ok());
    EXPECT_THAT(read_model_config(*header).error().message, HasSubstr("its data is needed"));

    llama.tensors["rope_freqs.weight"].shape = {5};
    EXPECT_THAT(llama.error(), HasSubstr("tensor rope_freqs.weight: shape [5], expected [4]"));
}

TEST(ModelConfig, SpecCountsBytesAndWork) {
    const auto spec = *read_model_spec(*Llama().file());
    const std::int64_t elements = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64;
    EXPECT_EQ(spec.n_layers, 2);
    EXPECT_EQ(spec.layer_bytes, elements / 32 * 34 + 2 * 32 * 4);
    EXPECT_EQ(spec.embedding_bytes, 100 * 34);
    EXPECT_EQ(spec.head_bytes, 32 * 4 + 100 * 64);
    EXPECT_EQ(spec.activation_bytes_per_token, 32 * 4);
    EXPECT_EQ(spec.kv_bytes_per_token_layer, 2 * 2 * 8 * 2);
    EXPECT_EQ(spec.flops_per_token_layer, 2.0 * static_cast<double>(elements));
    EXPECT_EQ(spec.context_length, 128);
}

TEST(ModelConfig, LargestLayerCounts) {
    Llama llama;
    const auto even = *read_model_spec(*llama.file());
    llama.tensors["blk.1.ffn_up.weight"].type = TensorType::f16;
    const auto mixed = *read_model_spec(*llama.file());
    EXPECT_EQ(mixed.layer_bytes, even.layer_bytes + 32 * 64 * 2 - 64 * 34);
}

TEST(ModelConfig, OtherArchitecturesAreRefusedByName) {
    Llama llama;
    llama.metadata["general.architecture"] = "unheard-of";
    EXPECT_THAT(llama.error(), HasSubstr("m.gguf: architecture \"unheard-of\" is not supported; "
                                         "supported: llama, qwen2, qwen2moe, qwen3, qwen3moe, "));
    llama.metadata["general.architecture"] = "mamba";
    EXPECT_THAT(llama.error(),
                HasSubstr("m.gguf: architecture \"mamba\" is not supported: it needs recurrent "
                          "layers (Mamba); supported: llama, "));
    llama.metadata.erase("general.architecture");
    EXPECT_EQ(llama.error(), "m.gguf: metadata general.architecture: missing");
}

struct Edit {
    void (*edit)(Llama&);
    const char* error;
};

TEST(ModelConfig, WrongHyperparametersAreNamed) {
    const Edit edits[] = {
        {[](Llama& m) { m.metadata.erase("llama.block_count"); },
         "m.gguf: metadata llama.block_count: missing"},
        {[](Llama& m) { m.metadata["llama.block_count"] = 0U; },
         "m.gguf: metadata llama.block_count: 0, expected 1 to 4096"},
        {[](Llama& m) { m.metadata["llama.block_count"] = "2"; },
         "m.gguf: metadata llama.block_count: is a string, expected an integer"},
        {[](Llama& m) { m.metadata["llama.embedding_length"] = -32; },
         "m.gguf: metadata llama.embedding_length: -32, expected 1 to 1048576"},
        {[](Llama& m) { m.metadata["llama.context_length"] = (1U << 24U) + 1; },
         "m.gguf: metadata llama.context_length: 16777217, expected 1 to 16777216"},
        {[](Llama& m) {
             m.metadata["llama.attention.head_count"] = 1U << 14U;
             m.metadata["llama.attention.key_length"] = 1U << 14U;
             m.metadata["llama.attention.value_length"] = 1U << 14U;
         },
         "m.gguf: metadata llama.attention.head_count: 16384 heads of 16384 dimensions have "
         "268435456, the limit is 4194304"},
        {[](Llama& m) { m.metadata["llama.attention.head_count"] = 5U; },
         "m.gguf: metadata llama.attention.head_count_kv: 2, expected a divisor of the 5 heads"},
        {[](Llama& m) { m.metadata["llama.attention.head_count"] = 6U; },
         "m.gguf: metadata llama.attention.head_count: 6, expected a divisor of "
         "llama.embedding_length 32"},
        {[](Llama& m) { m.metadata["llama.attention.value_length"] = 16U; },
         "m.gguf: metadata llama.attention.value_length: 16, expected the key length 8"},
        {[](Llama& m) { m.metadata["llama.attention.layer_norm_rms_epsilon"] = 0.0F; },
         "m.gguf: metadata llama.attention.layer_norm_rms_epsilon: 0, expected a finite number "
         "above "
         "zero"},
        {[](Llama& m) { m.metadata["llama.rope.dimension_count"] = 7U; },
         "m.gguf: metadata llama.rope.dimension_count: 7, expected an even number"},
        {[](Llama& m) { m.metadata["llama.rope.dimension_count"] = 10U; },
         "m.gguf: metadata llama.rope.dimension_count: 10, expected 2 to 8"},
        {[](Llama& m) { m.metadata["llama.expert_count"] = 8U; },
         "m.gguf: metadata llama.expert_used_count: missing"},
        {[](Llama& m) { m.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(101, "t"); },
         "m.gguf: metadata tokenizer.ggml.tokens: 101 tokens, the embedding has 100 rows"},
        {[](Llama& m) { m.metadata["tokenizer.ggml.tokens"] = std::vector<float>(3); },
         "m.gguf: metadata tokenizer.ggml.tokens: expected an array of strings"},
    };
    for (const Edit& test : edits) {
        Llama llama;
        test.edit(llama);
        EXPECT_EQ(llama.error(), test.error);
    }
}

TEST(ModelConfig, WrongTensorsAreNamed) {
    const Edit edits[] = {
        {[](Llama& m) { m.tensors.erase("token_embd.weight"); },
         "m.gguf: tensor token_embd.weight: missing"},
        {[](Llama& m) {
             m.tensors["token_embd.weight"].shape = {64, 100};
         },
         "m.gguf: tensor token_embd.weight: shape [64, 100], expected [32, 100]"},
        {[](Llama& m) { m.tensors["token_embd.weight"].shape = {3200}; },
         "m.gguf: tensor token_embd.weight: expected two dimensions, the hidden size and a "
         "vocabulary of at most 16777216"},
        {[](Llama& m) {
             m.tensors["output.weight"].shape = {32, 99};
         },
         "m.gguf: tensor output.weight: shape [32, 99], expected [32, 100]"},
        {[](Llama& m) { m.tensors.erase("blk.1.ffn_down.weight"); },
         "m.gguf: tensor blk.1.ffn_down.weight: missing"},
        {[](Llama& m) {
             m.tensors["blk.0.attn_k.weight"].shape = {32, 32};
         },
         "m.gguf: tensor blk.0.attn_k.weight: shape [32, 32], expected [32, 16]"},
        {[](Llama& m) { m.tensors["blk.0.attn_norm.weight"].type = TensorType::f16; },
         "m.gguf: tensor blk.0.attn_norm.weight: type f16, expected f32"},
        {[](Llama& m) {
             m.tensors["blk.1.attn_q.bias"] = {TensorType::f32, {32}};
         },
         "m.gguf: tensor blk.1.attn_q.bias: not part of a llama model of 2 layers"},
        {[](Llama& m) {
             m.tensors["blk.0.attn_q.bias"] = {TensorType::f32, {32}};
         },
         "m.gguf: tensor blk.0.attn_k.bias: missing"},
        {[](Llama& m) {
             m.tensors["blk.2.attn_q.weight"] = {TensorType::f32, {32, 32}};
         },
         "m.gguf: tensor blk.2.attn_q.weight: not part of a llama model of 2 layers"},
        {[](Llama& m) {
             m.tensors["blk.0.ffn_down.scale"] = {TensorType::f32, {1}};
         },
         "m.gguf: tensor blk.0.ffn_down.scale: not part of a llama model of 2 layers"},
        {[](Llama& m) {
             m.tensors["blk.0.ffn_down.weight"].type = TensorType::nvfp4;
             m.tensors["blk.0.ffn_down.scale"] = {TensorType::f32, {2}};
         },
         "m.gguf: tensor blk.0.ffn_down.scale: shape [2], expected [1]"},
        {[](Llama& m) {
             m.tensors["blk.0.ffn_down.weight"].type = TensorType::nvfp4;
             m.tensors["blk.0.ffn_down.scale"] = {TensorType::f16, {1}};
         },
         "m.gguf: tensor blk.0.ffn_down.scale: type f16, expected f32"},
    };
    for (const Edit& test : edits) {
        Llama llama;
        test.edit(llama);
        EXPECT_EQ(llama.error(), test.error);
    }
}

TEST(ModelConfig, Nvfp4MatricesMayHaveFactors) {
    Llama llama;
    llama.tensors["blk.0.ffn_down.weight"].type = TensorType::nvfp4;
    EXPECT_EQ(llama.error(), "no error");
    llama.tensors["blk.0.ffn_down.scale"] = {TensorType::f32, {1}};
    llama.tensors["blk.0.ffn_down.input_scale"] = {TensorType::f32, {1}};
    EXPECT_EQ(llama.error(), "no error");
}

TEST(ModelConfig, LayerOfATensorIsInItsName) {
    EXPECT_EQ(layer_of_tensor("blk.0.attn_q.weight"), 0);
    EXPECT_EQ(layer_of_tensor("blk.79.ffn_up.weight"), 79);
    for (const char* name :
         {"output.weight", "blk.", "blk.x.y", "blk.7", "blk.99999999999.x", ""}) {
        EXPECT_EQ(layer_of_tensor(name), -1) << name;
    }
}

}  // namespace
}  // namespace helix::model::model_config_test

// Encoders: GGUF files as llama.cpp's converter writes them, and folders of BertModel,
// XLMRobertaModel (also with rope and adapters), NomicBertModel, JinaBertModel and ModernBertModel;
// and cross-encoders, of the classes that classify.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hf_folder.h"
#include "model/arch/decoder.h"
#include "model/gguf_writer.h"
#include "model/info.h"
#include "model/local_weights.h"
#include "model/synth.h"
#include "spec/model_shape.h"
#include "temporary_folder.h"

namespace helix::model::encoder_test {
namespace {

using spec::Pooling;
using test_support::HfFolderWriter;
using test_support::Json;
using test_support::SafetensorsWriter;
using test_support::TemporaryFolder;
using test_support::text_of;
using test_support::write_file;
using ::testing::HasSubstr;

std::shared_ptr<const GgufFile> like(const TemporaryFolder& folder, const std::string& name,
                                     const char* quant = "f32") {
    SynthOptions options;
    options.shape = name;
    options.quant = quant;
    options.path = folder.file(name + "-" + quant + ".gguf");
    options.threads = 1;
    EXPECT_TRUE(synth_model(options).ok());
    return *GgufFile::open(options.path);
}

TEST(Encoder, BgeIsABertWithTablesNormsOfSumsAndBiases) {
    const TemporaryFolder folder;
    const auto file = like(folder, "bge", "q8_0");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->sum_norms && config->qkv_bias && config->output_bias &&
                config->feed_forward_bias);
    EXPECT_FALSE(config->input_norms || config->output_norms || config->has_gate() ||
                 config->tied_embeddings || config->rotates(0));
    EXPECT_EQ(config->n_positions, 512);
    EXPECT_EQ(config->n_token_types, 2);
    EXPECT_EQ(config->pooling, Pooling::cls);
    EXPECT_FALSE(config->rank_head.present());
    // Tables and norms stay floats, as converters leave them.
    EXPECT_EQ(file->find_tensor("position_embd.weight")->type, TensorType::f32);
    EXPECT_EQ(file->find_tensor("blk.0.ffn_up.weight")->type, TensorType::q8_0);
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec.ok());
    EXPECT_TRUE(spec->encoder);
    EXPECT_EQ(spec->head_bytes, 0);
    std::int64_t embedding = 0;
    for (const TensorInfo& tensor : file->tensors()) {
        if (layer_of_tensor(tensor.name) < 0) embedding += static_cast<std::int64_t>(tensor.bytes);
    }
    EXPECT_EQ(spec->embedding_bytes, embedding);
    const std::string text = describe_text(collect_info(*file));
    EXPECT_THAT(text, HasSubstr("makes embeddings, by pooling \"cls\", and writes no text"));
    EXPECT_THAT(text, HasSubstr("in both directions"));
    EXPECT_THAT(text, HasSubstr("a table of 512"));
    EXPECT_THAT(text, HasSubstr("  KV pages          "));
    EXPECT_THAT(text, HasSubstr(" the longest prompt; held while it is computed\n"));
    EXPECT_THAT(text, Not(HasSubstr("KV cache")));
}

TEST(Encoder, NomicBertHasRopeAGateAndNoBiasesOfMatrices) {
    const TemporaryFolder folder;
    const auto file = like(folder, "nomic-bert");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->fused_qkv && config->has_gate() && config->rotates(0));
    EXPECT_FALSE(config->qkv_bias || config->output_bias || config->feed_forward_bias);
    EXPECT_EQ(config->rope_pairs, RopePairs::halves);
    EXPECT_EQ(config->rope_base, 1000.0F);
    EXPECT_EQ(config->n_positions, 0);
    EXPECT_EQ(config->pooling, Pooling::mean);
    EXPECT_EQ(file->find_tensor("blk.0.attn_q.weight"), nullptr);
}

TEST(Encoder, JinaBertHasSlopesAndAGateWithoutABias) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v2");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->alibi && config->has_gate() && config->qkv_bias &&
                config->output_bias && config->down_bias);
    EXPECT_FALSE(config->rotates(0) || config->feed_forward_bias || config->fused_gate_up ||
                 config->normed_twice);
    EXPECT_EQ(config->qk_norm, QkNorm::none);
    EXPECT_EQ(config->activation, Activation::exact_geglu);
    EXPECT_EQ(config->n_positions, 0);
    EXPECT_EQ(config->pooling, Pooling::mean);
    EXPECT_THAT(describe_text(collect_info(*file)), HasSubstr("by distance (ALiBi)"));
}

TEST(Encoder, JinaBertOfCodeNormsQueriesKeysAndTwiceBehindAttention) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v2-code");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->alibi && config->sum_norms && config->normed_twice &&
                config->fused_gate_up && config->up_before_gate);
    EXPECT_EQ(config->qk_norm, QkNorm::centred_projection);
    EXPECT_EQ(file->find_tensor("blk.0.attn_norm_2.bias")->type, TensorType::f32);
    EXPECT_EQ(file->find_tensor("blk.5.ffn_gate.weight"), nullptr);
}

TEST(Encoder, JinaBertV3IsAnXlmRobertaWithRopeAndNoAdapterIsApplied) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v3");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->sum_norms && config->embedding_norm &&
                config->fused_qkv && config->qkv_bias && config->output_bias &&
                config->feed_forward_bias && config->rotates(0) && config->task_adapters);
    EXPECT_FALSE(config->has_gate() || config->alibi || config->normed_twice ||
                 config->input_norms || config->down_bias);
    EXPECT_EQ(config->activation, Activation::exact_gelu);
    EXPECT_EQ(config->qk_norm, QkNorm::none);
    EXPECT_EQ(config->rope_pairs, RopePairs::halves);
    EXPECT_EQ(config->rope_base, 20000.0F);
    EXPECT_EQ(config->rope_dim, config->head_dim);
    EXPECT_EQ(config->n_positions, 0);
    EXPECT_EQ(config->n_token_types, 1);
    EXPECT_EQ(config->pooling, Pooling::mean);
    EXPECT_EQ(*file->get_string("tokenizer.ggml.model"), "t5");
    EXPECT_EQ(file->find_tensor("blk.0.attn_q.weight"), nullptr);
    EXPECT_THAT(describe_text(collect_info(*file)),
                HasSubstr("adapters          none applied: the base weights"));
    EXPECT_THAT(describe_text(collect_info(*like(folder, "bge-m3"))), Not(HasSubstr("adapters")));
}

TEST(Encoder, NomicBertMoeHasExpertsWithoutAGateInEverySecondLayer) {
    const TemporaryFolder folder;
    const auto file = like(folder, "nomic-bert-moe");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->sum_norms && config->fused_qkv && config->qkv_bias &&
                config->output_bias && config->feed_forward_bias && config->rotates(0));
    EXPECT_FALSE(config->has_gate() || config->normalise_expert_weights || config->has_experts(0));
    EXPECT_TRUE(config->has_experts(1));
    EXPECT_EQ(config->gating, Gating::softmax);
    EXPECT_EQ(config->n_experts_used, 2);
    EXPECT_EQ(config->n_token_types, 1);
    EXPECT_EQ(file->find_tensor("blk.1.ffn_up.bias"), nullptr);
    EXPECT_THAT(describe_text(collect_info(*file)), HasSubstr("in one of 2 layers"));
}

TEST(Encoder, ModernBertHasWindowsToBothSidesAndNormsOfWhatBlocksRead) {
    const TemporaryFolder folder;
    const auto file = like(folder, "modern-bert");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->input_norms && config->fused_qkv &&
                config->fused_gate_up && config->has_output_norm());
    EXPECT_FALSE(config->sum_norms || config->up_before_gate || config->has_attention_norm(0));
    EXPECT_TRUE(config->has_attention_norm(1));
    EXPECT_EQ(config->activation, Activation::exact_geglu);
    EXPECT_EQ(config->n_token_types, 0);
    EXPECT_EQ(config->sliding_window, 128);
    EXPECT_EQ(config->full_attention, (std::vector<bool>{1, 0, 0, 1, 0, 0}));
    EXPECT_EQ(config->rope_base, 160000.0F);
    EXPECT_EQ(config->windowed_rope_base, 10000.0F);
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec.ok());
    EXPECT_FALSE(spec->window.any());  // no page is given back before a text is over
    EXPECT_EQ(spec->head_bytes, 4 * config->hidden);
    const std::string text = describe_text(collect_info(*file));
    EXPECT_THAT(text, HasSubstr(", positions up to 64 away, all of them in 2 layers"));
}

TEST(Encoder, EmbeddingGemmaIsAGemma3ThatAttendsBothWaysAndHasTwoDenseLayers) {
    const TemporaryFolder folder;
    const auto file = like(folder, "embeddinggemma");
    const auto config = read_model_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_TRUE(config->encoder && config->input_norms && config->output_norms &&
                config->has_output_norm());
    EXPECT_FALSE(config->sum_norms || config->embedding_norm || config->tied_embeddings);
    EXPECT_EQ(config->qk_norm, QkNorm::heads);
    EXPECT_EQ(config->activation, Activation::gelu);
    EXPECT_EQ(config->embedding_scale, 16.0F);
    EXPECT_EQ(config->full_attention, (std::vector<bool>{0, 0, 0, 0, 0, 1}));
    EXPECT_EQ(config->window_of(0), 512);
    EXPECT_EQ(config->window_of(5), 0);
    EXPECT_EQ(config->windowed_rope_base, 10000.0F);
    EXPECT_EQ(config->dense_inner, 1024);
    EXPECT_EQ(config->pooling, Pooling::mean);
    // Pages of whole prompts are kept, whatever the windows.
    EXPECT_FALSE(config->attention_window().any());
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec.ok());
    EXPECT_TRUE(spec->encoder);
    EXPECT_EQ(spec->head_bytes, 4 * (256 + 2 * 256 * 1024));
    EXPECT_EQ(spec->embedding_bytes, 4 * 256 * 2048);
    const std::string text = describe_text(collect_info(*file));
    EXPECT_THAT(text, HasSubstr("by pooling \"mean\" and two dense layers, and writes no text"));
    EXPECT_THAT(text, HasSubstr("positions up to 256 away, all of them in 1 layer"));
}

// A header like another file's, with changes. spare_rows: 0 of a vector.
std::string problem_of(const GgufFile& file, const std::map<std::string, GgufValue>& metadata,
                       const std::string& left_out = "", const std::string& spare = "",
                       std::int64_t spare_rows = 1) {
    GgufBuilder builder;
    const std::string architecture = *file.get_string("general.architecture");
    builder.set("general.architecture", architecture);
    for (const char* key : {"block_count", "embedding_length", "context_length",
                            "feed_forward_length", "attention.head_count"}) {
        const std::string name = architecture + "." + key;
        if (!metadata.contains(name))
            builder.set(name, static_cast<std::uint32_t>(*file.get_int(name)));
    }
    for (const auto& [key, value] : metadata) builder.set(key, value);
    for (const TensorInfo& tensor : file.tensors()) {
        if (tensor.name != left_out) builder.add_tensor(tensor.name, tensor.type, tensor.shape);
    }
    std::vector<std::int64_t> spare_shape{256, spare_rows};
    if (spare_rows == 0) spare_shape.pop_back();
    if (!spare.empty()) builder.add_tensor(spare, TensorType::f32, spare_shape);
    const auto config = read_model_config(**GgufFile::from_header(builder.header(), "m.gguf"));
    return config.ok() ? "" : config.error().message;
}

TEST(Encoder, FilesThatAreNoSuchEncoderAreRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "bge");
    EXPECT_EQ(problem_of(*file, {}), "");
    // Newer converters leave the second table out where it says nothing.
    EXPECT_EQ(problem_of(*file, {}, "token_types.weight"), "");
    EXPECT_THAT(problem_of(*file, {{"bert.attention.causal", true}}),
                HasSubstr("bert.attention.causal: true, supported in this architecture is false"));
    EXPECT_THAT(problem_of(*like(folder, "nomic-bert"), {{"nomic-bert.pooling_type", 4U}}),
                HasSubstr("4 (a cross-encoder, which ranks documents) is not supported"));
    EXPECT_THAT(problem_of(*file, {}, "", "cls.weight"),
                HasSubstr("tensor cls.weight: a classifier's head, which a model of architecture "
                          "bert has only with bert.pooling_type 4"));
    EXPECT_THAT(problem_of(*file, {}, "", "output_norm.weight"),
                HasSubstr("tensor output_norm.weight: not part of a bert model"));
    EXPECT_THAT(problem_of(*file, {}, "token_embd_norm.bias"),
                HasSubstr("tensor token_embd_norm.bias: missing"));
    EXPECT_THAT(problem_of(*file, {{"bert.context_length", 513U}}),
                HasSubstr("513, tensor position_embd.weight has 512 rows"));
    EXPECT_THAT(problem_of(*file, {}, "position_embd.weight"), HasSubstr("has 0 rows"));
}

TEST(Encoder, ACrossEncoderHasAHeadAndThatOfWordPiecesTwoKindsOfText) {
    const TemporaryFolder folder;
    for (const auto& [name, separator] : {std::pair("minilm-reranker", 3), {"bge-reranker", -1}}) {
        SCOPED_TRACE(name);
        const auto file = like(folder, name);
        const auto config = read_model_config(*file);
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_TRUE(config->encoder && config->rank_head.of_pairs && config->rank_head.present());
        EXPECT_EQ(config->pooling, Pooling::none);
        EXPECT_EQ(config->separator, separator);
        const std::int64_t hidden = config->hidden;
        EXPECT_EQ(read_model_spec(*file)->head_bytes, 4 * (hidden * hidden + 2 * hidden + 1));
        EXPECT_THAT(describe_text(collect_info(*file)), HasSubstr("(a cross-encoder)"));
    }
}

TEST(Encoder, ACrossEncoderWithoutAllOfItsHeadIsRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "minilm-reranker");
    const std::map<std::string, GgufValue> ranks{{"bert.pooling_type", 4U}};
    EXPECT_EQ(problem_of(*file, ranks), "");
    EXPECT_THAT(problem_of(*file, ranks, "cls.weight"),
                HasSubstr("tensor cls.weight: missing, the dense layer before a cross-encoder's "
                          "head; converters that leave BERT's pooler out"));
    for (const std::string name : {"cls.bias", "cls.output.weight", "cls.output.bias"})
        EXPECT_THAT(problem_of(*file, ranks, name), HasSubstr("tensor " + name + ": missing"));
    EXPECT_THAT(problem_of(*file, {{"bert.pooling_type", 2U}}), HasSubstr("a classifier's head"));
    // Of several labels none is a score.
    auto labels = ranks;
    EXPECT_THAT(problem_of(*file, labels, "cls.output.weight", "cls.output.weight", 3),
                HasSubstr("tensor cls.output.weight: shape [256, 3], expected [256, 1]"));
    // Word pieces with two kinds of text need what stands between these.
    labels["tokenizer.ggml.model"] = std::string("bert");
    EXPECT_THAT(problem_of(*file, labels), HasSubstr("tokenizer.ggml.eos_token_id"));
}

// Files of newer converters have gate and up in one tensor, those of models for code have norms of
// queries and keys, and one more behind attention; and there are models with BERT's feed-forward.
TEST(Encoder, JinaBertsLayersAreAllOfOneKind) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v2");
    EXPECT_EQ(problem_of(*file, {}), "");
    EXPECT_THAT(problem_of(*file, {}, "blk.0.ffn_gate.weight"),
                HasSubstr("tensor blk.0.ffn_up.weight: shape"));
    EXPECT_THAT(problem_of(*file, {}, "", "blk.3.attn_q_norm.weight"),
                HasSubstr("tensor blk.3.attn_q_norm.weight: not part of a jina-bert-v2 model"));
    EXPECT_THAT(problem_of(*file, {}, "", "blk.0.ffn_up.bias"),
                HasSubstr("tensor blk.0.ffn_up.bias: not part of a jina-bert-v2 model"));
    EXPECT_THAT(problem_of(*file, {}, "", "cls.weight"),
                HasSubstr("tensor cls.weight: a classifier's head"));
    const auto code = like(folder, "jina-bert-v2-code");
    EXPECT_EQ(problem_of(*code, {}), "");
    for (const std::string name : {"blk.0.attn_q_norm.bias", "blk.0.attn_k_norm.weight",
                                   "blk.5.attn_q_norm.weight", "blk.2.attn_norm_2.bias"})
        EXPECT_THAT(problem_of(*code, {}, name), HasSubstr("tensor " + name + ": missing"));
}

TEST(Encoder, OtherJinaBertV3sAndTheirAdaptersAreRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v3");
    EXPECT_EQ(problem_of(*file, {}), "");
    EXPECT_EQ(problem_of(*file, {{"general.type", std::string("model")}}), "");
    EXPECT_THAT(problem_of(*file, {{"general.type", std::string("adapter")}}),
                HasSubstr("general.type: adapter, expected a model: adapters are not supported"));
    EXPECT_THAT(problem_of(*file, {{"jina-bert-v3.pooling_type", 4U}}),
                HasSubstr("4 (a cross-encoder, which ranks documents) is not supported"));
    for (const std::string name : {"blk.0.attn_qkv.bias", "blk.5.attn_output.bias",
                                   "blk.0.ffn_up.bias", "blk.2.layer_output_norm.bias"})
        EXPECT_THAT(problem_of(*file, {}, name), HasSubstr("tensor " + name + ": missing"));
    for (const std::string name : {"position_embd.weight", "blk.0.attn_q_norm.weight",
                                   "blk.1.ffn_gate.weight", "blk.0.attn_qkv.weight.lora_a"})
        EXPECT_THAT(problem_of(*file, {}, "", name),
                    HasSubstr("tensor " + name + ": not part of a jina-bert-v3 model"));
}

TEST(Encoder, OtherNomicBertMoesAreRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "nomic-bert-moe");
    std::map<std::string, GgufValue> metadata{{"nomic-bert-moe.expert_count", 8U},
                                              {"nomic-bert-moe.expert_used_count", 2U},
                                              {"nomic-bert-moe.moe_every_n_layers", 2U}};
    EXPECT_EQ(problem_of(*file, metadata), "");
    EXPECT_THAT(problem_of(*file, metadata, "", "blk.1.ffn_gate_exps.weight"),
                HasSubstr("tensor blk.1.ffn_gate_exps.weight: not part of a nomic-bert-moe model"));
    for (const std::string name : {"blk.0.attn_qkv.bias", "blk.0.ffn_up.bias",
                                   "blk.1.ffn_gate_inp.weight", "blk.1.layer_output_norm.bias"})
        EXPECT_THAT(problem_of(*file, metadata, name), HasSubstr("tensor " + name + ": missing"));
    metadata["nomic-bert-moe.moe_every_n_layers"] = 3U;
    EXPECT_THAT(problem_of(*file, metadata),
                HasSubstr("nomic-bert-moe.moe_every_n_layers: 3, expected 2 to 2"));
}

TEST(Encoder, OtherModernBertsAreRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "modern-bert");
    EXPECT_EQ(problem_of(*file, {}), "");
    // Some converters give the first layer a norm.
    EXPECT_EQ(problem_of(*file, {}, "", "blk.0.attn_norm.weight", 0), "");
    EXPECT_EQ(problem_of(*file, {{"modern-bert.hidden_activation", std::string("silu")}}), "");
    EXPECT_THAT(problem_of(*file, {{"modern-bert.hidden_activation", std::string("relu")}}),
                HasSubstr("modern-bert.hidden_activation: \"relu\", supported are gelu and silu"));
    for (const std::string name : {"output_norm.weight", "token_embd_norm.weight",
                                   "blk.1.attn_norm.weight", "blk.0.ffn_norm.weight"})
        EXPECT_THAT(problem_of(*file, {}, name), HasSubstr("tensor " + name + ": missing"));
    for (const std::string name :
         {"token_types.weight", "token_embd_norm.bias", "blk.2.attn_output.bias", "output.weight"})
        EXPECT_THAT(problem_of(*file, {}, "", name),
                    HasSubstr("tensor " + name + ": not part of a modern-bert model"));
    EXPECT_THAT(problem_of(*file, {}, "", "cls.norm.weight"),
                HasSubstr("tensor cls.norm.weight: a classifier's head"));
}

TEST(Encoder, AnEmbeddingGemmaWithoutItsEndIsRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "embeddinggemma");
    const std::map<std::string, GgufValue> heads{{"gemma-embedding.attention.head_count_kv", 2U},
                                                 {"gemma-embedding.attention.key_length", 64U},
                                                 {"gemma-embedding.attention.value_length", 64U}};
    EXPECT_EQ(problem_of(*file, heads), "");
    EXPECT_THAT(problem_of(*file, heads, "dense_2.weight"),
                HasSubstr("tensor dense_2.weight: missing, the first of two dense layers"));
    EXPECT_THAT(problem_of(*file, heads, "dense_3.weight"),
                HasSubstr("tensor dense_3.weight: missing"));
    EXPECT_THAT(problem_of(*file, heads, "output_norm.weight"),
                HasSubstr("tensor output_norm.weight: missing"));
    EXPECT_THAT(problem_of(*file, heads, "", "output.weight"),
                HasSubstr("tensor output.weight: not part of a gemma-embedding model"));
    EXPECT_THAT(problem_of(*file, heads, "dense_3.weight", "dense_3.weight", 1024),
                HasSubstr("tensor dense_3.weight: shape [256, 1024], expected [1024, 256]"));
    EXPECT_THAT(problem_of(*file, heads, "", "cls.weight"), HasSubstr("a classifier's head"));
    auto causal = heads;
    causal["gemma-embedding.attention.causal"] = true;
    EXPECT_THAT(problem_of(*file, causal), HasSubstr("gemma-embedding.attention.causal: true"));
}

TEST(Encoder, OthersOfTheFamilyAreRefusedByName) {
    GgufBuilder builder;
    builder.set("general.architecture", std::string("neo-bert"));
    const auto config = read_model_config(**GgufFile::from_header(builder.header(), "m.gguf"));
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(config.error().message, HasSubstr("neo-bert"));
    EXPECT_THAT(config.error().message, HasSubstr("norms before"));
}

// Writes a file's model as a folder.
class EncoderFolder {
  public:
    EncoderFolder(const GgufFile& file, std::string type, std::string folder)
        : file_(file), type_(std::move(type)), folder_(std::move(folder)) {
        nomic_ = type_ == "nomic_bert";
        modern_ = type_ == "modernbert";
        jina_ = type_ == "jina";
        jina_v3_ = type_ == "jina-v3";
        of_code_ = file_.find_tensor("blk.0.attn_q_norm.weight") != nullptr;
        gated_ = file_.find_tensor("blk.0.ffn_up.bias") == nullptr;
        const bool xlm = type_ == "xlm-roberta" || jina_v3_;
        shift_ = xlm || type_ == "roberta" ? 2 : 0;
        ranks_ = file_.find_tensor("cls.weight") != nullptr;
        const auto number = [&](const char* rest) {
            const std::string family = *file_.get_string("general.architecture") + ".";
            return *file_.get_int(family + rest);
        };
        const std::string family = nomic_               ? "NomicBert"
                                   : jina_              ? "JinaBert"
                                   : modern_            ? "ModernBert"
                                   : xlm                ? "XLMRoberta"
                                   : type_ == "roberta" ? "Roberta"
                                                        : "Bert";
        const std::string architecture = family + (ranks_ ? "ForSequenceClassification" : "Model");
        const std::string model_type = jina_ ? "bert" : xlm ? "xlm-roberta" : type_;
        config = {{"model_type", model_type}, {"architectures", {architecture}}};
        if (jina_) config["position_embedding_type"] = "alibi";
        if (jina_ && gated_) config["feed_forward_type"] = "geglu";
        if (ranks_) config["id2label"] = {{"0", "LABEL_0"}};
        const auto set = [&](const char* theirs, const char* of_nomic, const char* ours) {
            config[nomic_ ? of_nomic : theirs] = number(ours);
        };
        set("num_hidden_layers", "n_layer", "block_count");
        set("hidden_size", "n_embd", "embedding_length");
        set("num_attention_heads", "n_head", "attention.head_count");
        set("intermediate_size", "n_inner", "feed_forward_length");
        set("max_position_embeddings", "n_positions", "context_length");
        set("vocab_size", "vocab_size", "vocab_size");
        if (!modern_) config["type_vocab_size"] = file_.find_tensor("token_types.weight")->rows();
        const char* epsilon = nomic_    ? "layer_norm_epsilon"
                              : modern_ ? "norm_eps"
                                        : "layer_norm_eps";
        config[epsilon] = 1e-5;
        if (nomic_) {
            config["activation_function"] = "swiglu";
            config["rotary_emb_base"] = 1000;
            config["prenorm"] = false;
            config["rotary_emb_scale_base"] = Json();
        } else if (modern_) {
            config["hidden_activation"] = "gelu";
            config["global_attn_every_n_layers"] = 3;
            config["local_attention"] = 128;
            config["global_rope_theta"] = 160000.0;
            config["local_rope_theta"] = 10000.0;
            config["norm_bias"] = false;
        } else {
            config["hidden_act"] = "gelu";
        }
        if (shift_ == 0) return;
        config["pad_token_id"] = 1;
        config["max_position_embeddings"] = number("context_length") + shift_;
        if (jina_v3_) add_adapters();
    }

    Json config;
    std::string prefix;     // of all names
    bool adapters = false;  // matrices lie beside those of adapters
    std::string spare;      // not empty: the name of one more tensor
    std::string pooling = "pooling_mode_cls_token";
    std::string module = "sentence_transformers.models.Normalize";

    void write() {
        std::filesystem::create_directories(folder_ + "/1_Pooling");
        write_tensors();
        write_file(folder_ + "/config.json", config.dump());
        write_file(folder_ + "/tokenizer.json", tokenizer().dump());
        write_file(folder_ + "/tokenizer_config.json",
                   Json{{"bos_token", byte_level() ? role("bos") : "<s>"},
                        {"eos_token", byte_level() ? role("eos") : "</s>"},
                        {"cls_token", "[CLS]"},
                        {"sep_token", "[SEP]"}}
                       .dump());
        write_file(folder_ + "/modules.json",
                   Json::array({{{"type", "sentence_transformers.models.Transformer"}},
                                {{"type", "sentence_transformers.models.Pooling"}},
                                {{"type", module}}})
                       .dump());
        write_file(folder_ + "/1_Pooling/config.json", Json{{"word_embedding_dimension", 256},
                                                            {"pooling_mode_mean_tokens", false},
                                                            {"pooling_mode_max_tokens", false},
                                                            {pooling, true}}
                                                           .dump());
    }

  private:
    // As jina-embeddings-v3 is published.
    void add_adapters() {
        prefix = "roberta.";
        adapters = true;
        config.update({{"position_embedding_type", "rotary"},
                       {"rotary_emb_base", 20000.0},
                       {"lora_adaptations", {"retrieval.query", "text-matching"}},
                       {"lora_rank", 4},
                       {"lora_alpha", 1},
                       {"load_trained_adapters", true},
                       {"use_flash_attn", true},
                       {"emb_pooler", "mean"},
                       {"truncate_dim", Json()}});
    }

    std::string name_of(const std::string& ours) const {
        static const std::map<std::string, std::string> kOuter{
            {"token_embd.weight", "embeddings.word_embeddings.weight"},
            {"position_embd.weight", "embeddings.position_embeddings.weight"},
            {"token_types.weight", "embeddings.token_type_embeddings.weight"},
            {"token_embd_norm.weight", "embeddings.LayerNorm.weight"},
            {"token_embd_norm.bias", "embeddings.LayerNorm.bias"}};
        static const std::map<std::string, std::pair<std::string, std::string>> kInner{
            {"attn_q", {"attention.self.query", ""}},
            {"attn_k", {"attention.self.key", ""}},
            {"attn_v", {"attention.self.value", ""}},
            {"attn_qkv", {"", "attn.Wqkv"}},
            {"attn_output", {"attention.output.dense", "attn.out_proj"}},
            {"attn_output_norm", {"attention.output.LayerNorm", "norm1"}},
            {"ffn_up", {"intermediate.dense", "mlp.fc11"}},
            {"ffn_gate", {"", "mlp.fc12"}},
            {"ffn_down", {"output.dense", "mlp.fc2"}},
            {"layer_output_norm", {"output.LayerNorm", "norm2"}}};
        const std::string model = !ranks_ ? prefix : shift_ > 0 ? "roberta." : "bert.";
        if (ours.starts_with("cls.")) {
            const bool output = ours.starts_with("cls.output.");
            const std::string kind = ours.substr(ours.rfind('.'));
            if (shift_ > 0) return (output ? "classifier.out_proj" : "classifier.dense") + kind;
            return (output ? "classifier" : "bert.pooler.dense") + kind;
        }
        if (modern_) return name_of_modern(ours);
        if (jina_v3_) return name_of_jina_v3(ours);
        if (const auto found = kOuter.find(ours); found != kOuter.end()) {
            const std::string name = model + found->second;
            return nomic_ && name.starts_with("embeddings.LayerNorm")
                       ? "emb_ln" + name.substr(std::strlen("embeddings.LayerNorm"))
                       : name;
        }
        const std::size_t first = ours.find('.', 4);
        const std::size_t second = ours.rfind('.');
        const std::string what = ours.substr(first + 1, second - first - 1);
        const std::string of_jina = jina_ ? name_of_jina(what) : "";
        if (!of_jina.empty())
            return model + "encoder.layer." + ours.substr(4, first - 4) + "." + of_jina +
                   ours.substr(second);
        const auto& names = kInner.at(what);
        return model + "encoder." + (nomic_ ? "layers." : "layer.") + ours.substr(4, first - 4) +
               "." + (nomic_ ? names.second : names.first) + ours.substr(second);
    }

    std::string name_of_modern(const std::string& ours) const {
        static const std::map<std::string, std::string> kNames{
            {"token_embd", "embeddings.tok_embeddings"},
            {"token_embd_norm", "embeddings.norm"},
            {"output_norm", "final_norm"},
            {"attn_norm", "attn_norm"},
            {"attn_qkv", "attn.Wqkv"},
            {"attn_output", "attn.Wo"},
            {"ffn_norm", "mlp_norm"},
            {"ffn_up", "mlp.Wi"},
            {"ffn_down", "mlp.Wo"}};
        const std::size_t last = ours.rfind('.');
        if (!ours.starts_with("blk."))
            return prefix + kNames.at(ours.substr(0, last)) + ours.substr(last);
        const std::size_t first = ours.find('.', 4);
        return prefix + "layers." + ours.substr(4, first - 4) + "." +
               kNames.at(ours.substr(first + 1, last - first - 1)) + ours.substr(last);
    }

    std::string name_of_jina_v3(const std::string& ours) const {
        static const std::map<std::string, std::string> kNames{
            {"token_embd", "embeddings.word_embeddings"},
            {"token_types", "embeddings.token_type_embeddings"},
            {"token_embd_norm", "emb_ln"},
            {"attn_qkv", "mixer.Wqkv"},
            {"attn_output", "mixer.out_proj"},
            {"attn_output_norm", "norm1"},
            {"ffn_up", "mlp.fc1"},
            {"ffn_down", "mlp.fc2"},
            {"layer_output_norm", "norm2"}};
        const std::size_t last = ours.rfind('.');
        const bool of_layer = ours.starts_with("blk.");
        const std::size_t first = of_layer ? ours.find('.', 4) : 0;
        const std::string what =
            of_layer ? ours.substr(first + 1, last - first - 1) : ours.substr(0, last);
        const std::string layer =
            of_layer ? "encoder.layers." + ours.substr(4, first - 4) + "." : "";
        const bool adapted = adapters && ours.ends_with(".weight") && !what.ends_with("norm");
        return prefix + layer + kNames.at(what) +
               (adapted ? ".parametrizations.weight.original" : ours.substr(last));
    }

    // "" where it is BERT's.
    std::string name_of_jina(const std::string& what) const {
        if (what == "attn_q_norm") return "attention.self.layer_norm_q";
        if (what == "attn_k_norm") return "attention.self.layer_norm_k";
        if (what == "attn_norm_2") return "layer_norm_1";
        if (!gated_) return "";
        if (what == "ffn_up") return of_code_ ? "mlp.up_gated_layer" : "mlp.gated_layers";
        if (what == "ffn_down") return of_code_ ? "mlp.down_layer" : "mlp.wo";
        if (what == "layer_output_norm") return of_code_ ? "layer_norm_2" : "mlp.layernorm";
        return "";
    }

    void write_tensors() {
        SafetensorsWriter writer;
        std::string gate;  // jina-bert-v2 has it in one tensor with what follows
        for (const TensorInfo& tensor : file_.tensors()) {
            std::string bytes = text_of(file_, tensor);
            std::vector<std::int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
            if (jina_ && tensor.name.ends_with("ffn_gate.weight")) {
                gate = bytes;
                continue;
            }
            if (!gate.empty() && tensor.name.ends_with("ffn_up.weight")) {
                bytes = gate + bytes;
                shape[0] *= 2;
                gate.clear();
            }
            if (tensor.name == "position_embd.weight" && shift_ > 0) {
                const std::size_t rows = static_cast<std::size_t>(shift_) * 4 *
                                         static_cast<std::size_t>(tensor.row_length());
                bytes = std::string(rows, '\x7f') + bytes;
                shape[0] += shift_;
            }
            const char* dtype = tensor.type == TensorType::f32 ? "F32" : "BF16";
            const std::string name = name_of(tensor.name);
            writer.add(name, dtype, shape, bytes);
            if (!name.ends_with(".original")) continue;
            const std::string adapter = name.substr(0, name.rfind('.')) + ".0.lora_";
            writer.add(adapter + "A", "F32", {1, 1, 1}, "1234");
            writer.add(adapter + "B", "F32", {1, 1, 1}, "1234");
        }
        if (!spare.empty()) writer.add(spare, "F32", {1, 1}, "1234");
        // What there may be besides.
        if (modern_) writer.add("head.dense.weight", "F32", {1, 1}, "1234");
        if (modern_) return write_file(folder_ + "/model.safetensors", writer.take());
        writer.add(ranks_ && shift_ > 0 ? "roberta.pooler.dense.weight" : "pooler.dense.weight",
                   "F32", {1, 1}, "1234");
        writer.add("embeddings.position_ids", "I64", {1, 1}, "12345678");
        if (jina_) writer.add("cls.predictions.bias", "F32", {1}, "1234");
        write_file(folder_ + "/model.safetensors", writer.take());
    }

    bool byte_level() const { return *file_.get_string("tokenizer.ggml.model") == "gpt2"; }

    const std::vector<std::string>& strings(const char* key) const {
        return std::get<std::vector<std::string>>(std::get<MetaArray>(*file_.find(key)));
    }

    // The text of a token with this role.
    std::string role(const std::string& name) const {
        const auto id = file_.get_int("tokenizer.ggml." + name + "_token_id");
        return strings("tokenizer.ggml.tokens")[static_cast<std::size_t>(*id)];
    }

    // As models for code and ModernBERT have it.
    Json byte_level_tokenizer() const {
        const auto& tokens = strings("tokenizer.ggml.tokens");
        const auto& types = std::get<std::vector<std::int64_t>>(
            std::get<MetaArray>(*file_.find("tokenizer.ggml.token_type")));
        Json vocab = Json::object();
        Json added = Json::array();
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            vocab[tokens[i]] = i;
            if (types[i] == 1) continue;
            added.push_back({{"id", i}, {"content", tokens[i]}, {"special", types[i] == 3}});
        }
        Json processor{{"type", "RobertaProcessing"}};
        processor["cls"] = {role("bos"), *file_.get_int("tokenizer.ggml.bos_token_id")};
        processor["sep"] = {role("eos"), *file_.get_int("tokenizer.ggml.eos_token_id")};
        return {{"model",
                 {{"type", "BPE"}, {"vocab", vocab}, {"merges", strings("tokenizer.ggml.merges")}}},
                {"added_tokens", added},
                {"pre_tokenizer", test_support::pre_tokenizer_named("gpt-2")},
                {"post_processor", processor}};
    }

    Json tokenizer() const {
        if (byte_level()) return byte_level_tokenizer();
        const auto& tokens = strings("tokenizer.ggml.tokens");
        if (shift_ > 0) {
            Json vocab = Json::array();
            for (const std::string& token : tokens) vocab.push_back({token, -1.5});
            return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}},
                    {"added_tokens",
                     Json::array({{{"id", 1}, {"content", "<s>"}, {"special", true}},
                                  {{"id", 2}, {"content", "</s>"}, {"special", true}}})},
                    {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}}},
                    {"post_processor",
                     {{"type", "RobertaProcessing"}, {"cls", {"<s>", 1}}, {"sep", {"</s>", 2}}}}};
        }
        const std::string mark = "\xE2\x96\x81";
        Json vocab = Json::object();
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const bool special = tokens[i].starts_with("[") && tokens[i].size() > 3;
            const std::string text = special                       ? tokens[i]
                                     : tokens[i].starts_with(mark) ? tokens[i].substr(mark.size())
                                                                   : "##" + tokens[i];
            vocab[text] = i;
        }
        return {{"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}},
                {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
                {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                {"post_processor",
                 {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}}}};
    }

    const GgufFile& file_;
    std::string type_;
    std::string folder_;
    bool nomic_ = false;
    bool jina_ = false;
    bool jina_v3_ = false;
    bool modern_ = false;
    bool of_code_ = false;
    bool gated_ = true;
    bool ranks_ = false;
    std::int64_t shift_ = 0;
};

void expect_same_config(const ModelConfig& config, const ModelConfig& right) {
    EXPECT_EQ(config.architecture, right.architecture);
    EXPECT_EQ(config.context_length, right.context_length);
    EXPECT_EQ(config.n_positions, right.n_positions);
    EXPECT_EQ(config.n_heads, right.n_heads);
    EXPECT_EQ(config.norm_epsilon, right.norm_epsilon);
    EXPECT_EQ(config.rope_base, right.rope_base);
    // 1_Pooling says nothing of a score.
    EXPECT_EQ(config.pooling, right.rank_head.of_pairs ? Pooling::none : Pooling::cls);
    EXPECT_EQ(config.rank_head.of_pairs, right.rank_head.of_pairs);
    EXPECT_EQ(config.separator, right.separator);
    EXPECT_EQ(config.qk_norm, right.qk_norm);
    EXPECT_EQ(config.normed_twice, right.normed_twice);
    EXPECT_EQ(config.activation, right.activation);
    EXPECT_EQ(config.sliding_window, right.sliding_window);
    EXPECT_EQ(config.full_attention, right.full_attention);
    EXPECT_EQ(config.windowed_rope_base, right.windowed_rope_base);
}

// What a folder has in the place of a file's tensor: of jina-bert-v2 gate and up are one.
std::string expected_text(const GgufFile& file, const std::string& name) {
    const std::string text = text_of(file, *file.find_tensor(name));
    const std::size_t at = name.find("ffn_up.weight");
    if (at == std::string::npos || !file.find("jina-bert-v2.block_count")) return text;
    const TensorInfo* gate = file.find_tensor(name.substr(0, at) + "ffn_gate.weight");
    return gate == nullptr ? text : text_of(file, *gate) + text;
}

void expect_like_the_file(const GgufFile& file, const std::string& path) {
    const auto opened = open_weights(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const auto config = read_model_config(**opened);
    ASSERT_TRUE(config.ok()) << config.error().message;
    expect_same_config(*config, *read_model_config(file));
    std::size_t n_tensors = 0;
    for (const TensorInfo& tensor : file.tensors()) {
        const bool joined = config->fused_gate_up && tensor.name.ends_with("ffn_gate.weight");
        n_tensors += joined ? 0 : 1;
    }
    EXPECT_EQ((*opened)->file().tensors().size(), n_tensors);
    for (const TensorInfo& tensor : (*opened)->file().tensors()) {
        ASSERT_NE(file.find_tensor(tensor.name), nullptr) << tensor.name;
        const auto bytes = (*opened)->tensor(tensor.name);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        const std::string text = expected_text(file, tensor.name);
        ASSERT_EQ(bytes->size(), text.size()) << tensor.name;
        EXPECT_EQ(std::memcmp(bytes->data(), text.data(), text.size()), 0) << tensor.name;
        (*opened)->release(tensor.name);
    }
    EXPECT_TRUE(*(*opened)->file().get_bool("tokenizer.ggml.add_bos_token"));
    EXPECT_TRUE(*(*opened)->file().get_bool("tokenizer.ggml.add_eos_token"));
    EXPECT_EQ(*(*opened)->file().get_string("tokenizer.ggml.model"),
              *file.get_string("tokenizer.ggml.model"));
    for (const char* name : {"bos", "eos"}) {
        const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
        EXPECT_EQ(*(*opened)->file().get_int(key), *file.get_int(key));
    }
}

TEST(Encoder, AFoldersTensorsAreThoseOfTheGgufFile) {
    const TemporaryFolder folder;
    for (const auto& [shape, type] : {std::pair("bge", "bert"),
                                      {"nomic-bert", "nomic_bert"},
                                      {"bge-m3", "xlm-roberta"},
                                      {"jina-bert-v2", "jina"},
                                      {"jina-bert-v2-code", "jina"},
                                      {"jina-bert-v3", "jina-v3"},
                                      {"modern-bert", "modernbert"},
                                      {"minilm-reranker", "bert"},
                                      {"bge-reranker", "xlm-roberta"},
                                      {"bge-reranker", "roberta"}}) {
        const std::string path = folder.file(std::string(shape) + type);
        SCOPED_TRACE(path);
        const auto file = like(folder, shape);
        EncoderFolder(*file, type, path).write();
        expect_like_the_file(*file, path);
    }
}

// Also those of the class that was trained to fill gaps, with its names.
TEST(Encoder, AFolderOfJinaBertMayHaveBertsFeedForwardAndOtherNames) {
    const TemporaryFolder folder;
    SynthShape shape;
    for (const SynthShape& one : synth_likes()) {
        if (one.name == "jina-bert-v2") shape = one;
    }
    shape.gated = false;
    SynthOptions options;
    options.path = folder.file("ungated.gguf");
    ASSERT_TRUE(synth_model(shape, TensorType::bf16, options).ok());
    const auto file = *GgufFile::open(options.path);
    EXPECT_EQ(read_model_config(*file)->activation, Activation::exact_gelu);
    EncoderFolder writer(*file, "jina", folder.file("ungated"));
    writer.config["architectures"] = {"JinaBertForMaskedLM"};
    writer.config["feed_forward_type"] = "original";
    writer.prefix = "bert.";
    writer.write();
    expect_like_the_file(*file, folder.file("ungated"));
    writer.config["feed_forward_type"] = "reglu";
    writer.write();
    const auto refused = open_weights(folder.file("ungated"));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message,
                HasSubstr("feed_forward_type: expected \"geglu\" or \"original\", found"));
    writer.config["architectures"] = {"JinaBertForSequenceClassification"};
    writer.write();
    EXPECT_THAT(open_weights(folder.file("ungated")).error().message,
                HasSubstr("[\"JinaBertModel\"] or [\"JinaBertForMaskedLM\"]"));
}

// Also those of the class that was trained to fill gaps, with its names, and of SiLU.
TEST(Encoder, AFolderOfModernBertMayHaveAnotherActivationAndOtherNames) {
    const TemporaryFolder folder;
    const auto file = like(folder, "modern-bert");
    EncoderFolder writer(*file, "modernbert", folder.file("modern"));
    writer.prefix = "model.";
    writer.config["architectures"] = {"ModernBertForMaskedLM"};
    writer.config["hidden_activation"] = "silu";
    writer.config["local_rope_theta"] = Json();
    writer.write();
    const auto opened = open_weights(folder.file("modern"));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const auto config = read_model_config(**opened);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->activation, Activation::silu);
    EXPECT_EQ(config->windowed_rope_base, 160000.0F);
    const struct {
        const char* key;
        Json value;
        const char* problem;
    } cases[] = {
        {"attention_bias", true, "attention_bias: expected false"},
        {"hidden_activation", "relu", "hidden_activation: expected \"gelu\" or \"silu\""},
        {"layer_types", Json::array({"full_attention"}), "layer_types: expected null"},
        {"rope_parameters", Json::object(), "rope_parameters: expected null"},
        {"architectures", Json::array({"ModernBertForSequenceClassification"}),
         "[\"ModernBertModel\"] or [\"ModernBertForMaskedLM\"]"},
    };
    for (const auto& one : cases) {
        const Json before = writer.config;
        writer.config[one.key] = one.value;
        writer.write();
        const auto refused = open_weights(folder.file("modern"));
        ASSERT_FALSE(refused.ok()) << one.key;
        EXPECT_THAT(refused.error().message, HasSubstr(one.problem));
        writer.config = before;
    }
}

// Also one whose adapters are gone, or merged; with those that there are the file's tensors are
// the base weights.
TEST(Encoder, AFolderOfJinaBertV3MayHaveNoAdaptersAndIsRefusedWhereItWouldMakeOtherEmbeddings) {
    const TemporaryFolder folder;
    const auto file = like(folder, "jina-bert-v3", "bf16");
    const std::string path = folder.file("v3");
    EncoderFolder writer(*file, "jina-v3", path);
    writer.write();
    const auto adapted = open_weights(path);
    ASSERT_TRUE(adapted.ok()) << adapted.error().message;
    EXPECT_THAT(describe_text(collect_info((*adapted)->file())),
                HasSubstr("none applied: the base weights, as where no task is chosen"));
    writer.config["architectures"] = {"XLMRobertaLoRA"};
    writer.write();
    expect_like_the_file(*file, path);
    writer.adapters = false;
    for (const char* prefix : {"roberta.", ""}) {
        writer.prefix = prefix;
        writer.write();
        expect_like_the_file(*file, path);
    }
    // Without the matrix that it changes an adapter's factor is what nobody reads.
    writer.spare = "encoder.layers.0.mixer.Wqkv.parametrizations.weight.0.lora_A";
    writer.write();
    EXPECT_THAT(open_weights(path).error().message,
                HasSubstr(writer.spare + ": not part of a jina-bert-v3 model"));
    const struct {
        const char* key;
        Json value;
        const char* problem;
    } cases[] = {
        {"hidden_act", "gelu_new", "hidden_act: expected \"gelu\""},
        {"rotary_emb_interleaved", true, "rotary_emb_interleaved: expected false"},
        {"rotary_emb_scale_base", 512, "rotary_emb_scale_base: expected null"},
        {"rotary_emb_dim", 16, "rotary_emb_dim: expected the 32 dimensions of a head"},
        {"truncate_dim", 64, "truncate_dim: expected null"},
        {"emb_pooler", "cls", "emb_pooler: expected \"mean\""},
        {"pad_token_id", 5000, "pad_token_id: expected less than the 1026 positions"},
        {"position_embedding_type", "alibi", "position_embedding_type: expected \"absolute\""},
        {"architectures", Json::array({"XLMRobertaForSequenceClassification"}),
         "[\"XLMRobertaModel\"] or [\"XLMRobertaLoRA\"]"},
    };
    writer.spare.clear();
    writer.config["architectures"] = {"XLMRobertaModel"};
    for (const auto& one : cases) {
        const Json before = writer.config;
        writer.config[one.key] = one.value;
        writer.write();
        const auto refused = open_weights(path);
        ASSERT_FALSE(refused.ok()) << one.key;
        EXPECT_THAT(refused.error().message, HasSubstr(one.problem));
        writer.config = before;
    }
}

TEST(Encoder, AFolderOfEmbeddingGemmaIsTheGgufFile) {
    const TemporaryFolder folder;
    const auto file = like(folder, "embeddinggemma", "bf16");
    HfFolderWriter(*file, folder.file("gemma"), 2).write();
    const auto opened = open_weights(folder.file("gemma"));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const auto config = read_model_config(**opened);
    ASSERT_TRUE(config.ok()) << config.error().message;
    const ModelConfig right = *read_model_config(*file);
    EXPECT_EQ(config->architecture, "gemma-embedding");
    EXPECT_EQ(config->context_length, right.context_length);
    EXPECT_EQ(config->head_dim, right.head_dim);
    EXPECT_EQ(config->n_kv_heads, right.n_kv_heads);
    EXPECT_EQ(config->norm_epsilon, right.norm_epsilon);
    EXPECT_EQ(config->rope_base, right.rope_base);
    EXPECT_EQ(config->windowed_rope_base, right.windowed_rope_base);
    EXPECT_EQ(config->sliding_window, right.sliding_window);
    EXPECT_EQ(config->full_attention, right.full_attention);
    EXPECT_EQ(config->attention_scale, right.attention_scale);
    EXPECT_EQ(config->dense_inner, right.dense_inner);
    EXPECT_EQ(config->pooling, Pooling::mean);
    EXPECT_TRUE(config->encoder);
    EXPECT_TRUE(*(*opened)->file().get_bool("tokenizer.ggml.add_eos_token"));
    EXPECT_EQ((*opened)->file().tensors().size(), file->tensors().size());
    for (const TensorInfo& tensor : file->tensors()) {
        SCOPED_TRACE(tensor.name);
        const auto bytes = (*opened)->tensor(tensor.name);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        const std::string text = text_of(*file, tensor);
        ASSERT_EQ(bytes->size(), text.size());
        if (!tensor.name.ends_with("norm.weight")) {
            EXPECT_EQ(std::memcmp(bytes->data(), text.data(), text.size()), 0);
        } else {  // published less one, which costs a last bit
            for (std::size_t i = 0; i < text.size(); i += sizeof(float)) {
                float got = 0, expected = 0;
                std::memcpy(&got, bytes->data() + i, sizeof(float));
                std::memcpy(&expected, text.data() + i, sizeof(float));
                ASSERT_NEAR(got, expected, 1e-6F);
            }
        }
        (*opened)->release(tensor.name);
    }
}

TEST(Encoder, FoldersOfEmbeddingGemmaThatWeCannotReadAreRefusedByName) {
    const TemporaryFolder folder;
    const auto file = like(folder, "embeddinggemma");
    const std::string path = folder.file("gemma");
    // Writes the folder with one file changed by `change`.
    const auto problem = [&](const std::string& name, const std::function<void(Json&)>& change) {
        HfFolderWriter(*file, path).write();
        std::ifstream in(path + "/" + name);
        Json document = Json::parse(in);
        change(document);
        write_file(path + "/" + name, document.dump());
        const auto opened = open_weights(path);
        return opened.ok() ? "" : opened.error().message;
    };
    EXPECT_EQ(problem("config.json", [](Json&) {}), "");
    const struct {
        const char* file;
        std::function<void(Json&)> change;
        const char* problem;
    } cases[] = {
        {"modules.json", [](Json& j) { j.erase(3); }, "two modules Dense, there are 1"},
        {"modules.json", [](Json& j) { j.erase(1); }, "a module that is Transformer, Pooling"},
        {"modules.json", [](Json& j) { j[2]["path"] = "../2_Dense"; }, "the name of a folder"},
        {"2_Dense/config.json", [](Json& j) { j["bias"] = true; }, "bias: expected false"},
        {"2_Dense/config.json",
         [](Json& j) { j["activation_function"] = "torch.nn.modules.activation.Tanh"; },
         "activation_function: expected Identity"},
        {"3_Dense/config.json", [](Json& j) { j["out_features"] = 128; },
         "modules Dense of 256 to 1024 and 1024 to 128 numbers"},
        {"config.json", [](Json& j) { j["use_bidirectional_attention"] = false; },
         "a module that is Transformer, Pooling"},
        {"config.json", [](Json& j) { j["model_type"] = "gemma2"; },
         "use_bidirectional_attention: expected false in this family"},
    };
    for (const auto& one : cases)
        EXPECT_THAT(problem(one.file, one.change), HasSubstr(one.problem)) << one.file;
    std::filesystem::remove(path + "/modules.json");
    EXPECT_THAT(open_weights(path).error().message, HasSubstr("use_bidirectional_attention"));
    HfFolderWriter(*file, path).write();
    std::filesystem::remove(path + "/modules.json");
    EXPECT_THAT(open_weights(path).error().message, HasSubstr("modules.json"));
    EXPECT_THAT(spec::read_model_config_file(path + "/config.json").error().message,
                HasSubstr("use_bidirectional_attention: expected false"));
}

TEST(Encoder, FoldersOfOtherClassesAndModulesAreRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "bge");
    const struct {
        std::function<void(EncoderFolder&)> change;
        const char* problem;
    } cases[] = {
        {[](EncoderFolder& f) { f.config["architectures"] = {"BertForSequenceClassification"}; },
         "id2label"},
        {[](EncoderFolder& f) {
             f.config["architectures"] = {"BertForSequenceClassification"};
             f.config["id2label"] = {{"0", "no"}, {"1", "yes"}};
         },
         "one label, as a cross-encoder has; there are 2"},
        {[](EncoderFolder& f) {
             f.config["architectures"] = {"BertForSequenceClassification"};
             f.config["id2label"] = {{"0", "LABEL_0"}};
         },
         "bert.embeddings.word_embeddings.weight"},
        {[](EncoderFolder& f) { f.config["architectures"] = {"BertForMaskedLM"}; },
         "expected [\"BertModel\"] or [\"BertForSequenceClassification\"]"},
        {[](EncoderFolder& f) { f.config["hidden_act"] = "gelu_new"; }, "hidden_act"},
        {[](EncoderFolder& f) { f.config["position_embedding_type"] = "relative_key"; },
         "position_embedding_type"},
        {[](EncoderFolder& f) { f.config["is_decoder"] = true; }, "is_decoder"},
        {[](EncoderFolder& f) { f.pooling = "pooling_mode_weightedmean_tokens"; },
         "pooling_mode_weightedmean_tokens"},
        {[](EncoderFolder& f) { f.module = "sentence_transformers.models.Dense"; }, "modules.json"},
    };
    for (const auto& one : cases) {
        EncoderFolder writer(*file, "bert", folder.file("bert"));
        one.change(writer);
        writer.write();
        const auto opened = open_weights(folder.file("bert"));
        ASSERT_FALSE(opened.ok()) << one.problem;
        EXPECT_THAT(opened.error().message, HasSubstr(one.problem));
    }
    EncoderFolder writer(*file, "bert", folder.file("bert"));
    writer.pooling = "pooling_mode_lasttoken";
    writer.write();
    EXPECT_EQ(read_model_config(**open_weights(folder.file("bert")))->pooling, Pooling::last);
}

TEST(Encoder, AFolderOfNomicBertWithExpertsIsRefused) {
    const TemporaryFolder folder;
    const auto file = like(folder, "nomic-bert");
    EncoderFolder writer(*file, "nomic_bert", folder.file("moe"));
    writer.config["num_experts"] = 8;
    writer.config["activation_function"] = "gelu";
    writer.write();
    const auto opened = open_weights(folder.file("moe"));
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message,
                HasSubstr("num_experts: expected 0: experts of an encoder"));
}

}  // namespace
}  // namespace helix::model::encoder_test

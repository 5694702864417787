// A folder of safetensors is the GGUF file that has the same weights: tensor by tensor, byte by
// byte.

#include "model/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

#include "base/effort.h"
#include "hf_folder.h"
#include "model/info.h"
#include "model/manifest.h"
#include "model/synth.h"
#include "spec/model_shape.h"
#include "temporary_folder.h"

namespace helix::model::model_folder_test {
namespace {

using test_support::HfFolderWriter;
using test_support::Json;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

class Folder : public ::testing::Test {
  protected:
    std::shared_ptr<const GgufFile> synth(const SynthShape& shape, TensorType type) {
        SynthOptions options;
        options.seed = 5;
        options.path = folder_.file(shape.name + tensor_type_info(type)->name + ".gguf");
        options.threads = 1;
        const auto made = synth_model(shape, type, options);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return *GgufFile::open(options.path);
    }

    static SynthShape shape_named(std::string_view name) {
        for (const auto* shapes : {&synth_shapes(), &synth_likes()}) {
            for (const SynthShape& shape : *shapes) {
                if (shape.name == name) return shape;
            }
        }
        ADD_FAILURE() << name;
        return {};
    }

    std::string path() const { return folder_.file("model"); }

    TemporaryFolder folder_;
};

void expect_same_config(const ModelConfig& a, const ModelConfig& b) {
    EXPECT_EQ(a.architecture, b.architecture);
    EXPECT_EQ(a.n_layers, b.n_layers);
    EXPECT_EQ(a.hidden, b.hidden);
    EXPECT_EQ(a.n_heads, b.n_heads);
    EXPECT_EQ(a.n_kv_heads, b.n_kv_heads);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.rope_dim, b.rope_dim);
    EXPECT_EQ(a.ffn, b.ffn);
    EXPECT_EQ(a.vocab, b.vocab);
    EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
    EXPECT_EQ(a.rope_base, b.rope_base);
    EXPECT_EQ(a.rope_pairs, b.rope_pairs);
    EXPECT_EQ(a.rope_scale, b.rope_scale);
    EXPECT_EQ(a.rope_factors, b.rope_factors);
    EXPECT_EQ(a.rope_magnitude, b.rope_magnitude);
    EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
    EXPECT_EQ(a.qkv_bias, b.qkv_bias);
    EXPECT_EQ(a.qk_norm, b.qk_norm);
    EXPECT_EQ(a.sliding_window, b.sliding_window);
    EXPECT_EQ(a.full_attention, b.full_attention);
    EXPECT_EQ(a.rope_layers, b.rope_layers);
    EXPECT_EQ(a.windowed_rope_base, b.windowed_rope_base);
    EXPECT_EQ(a.norm, b.norm);
    EXPECT_EQ(a.embedding_scale, b.embedding_scale);
    EXPECT_EQ(a.residual_scale, b.residual_scale);
    EXPECT_EQ(a.attention_scale, b.attention_scale);
    EXPECT_EQ(a.logit_scale, b.logit_scale);
    EXPECT_EQ(a.attention_softcap, b.attention_softcap);
    EXPECT_EQ(a.logit_softcap, b.logit_softcap);
    EXPECT_EQ(a.n_experts, b.n_experts);
    EXPECT_EQ(a.n_experts_used, b.n_experts_used);
    EXPECT_EQ(a.normalise_expert_weights, b.normalise_expert_weights);
    EXPECT_EQ(a.gating, b.gating);
    EXPECT_EQ(a.expert_weight_scale, b.expert_weight_scale);
    EXPECT_EQ(a.selection_bias, b.selection_bias);
    EXPECT_EQ(a.n_expert_groups, b.n_expert_groups);
    EXPECT_EQ(a.n_expert_groups_used, b.n_expert_groups_used);
    EXPECT_EQ(a.shared_ffn, b.shared_ffn);
    EXPECT_EQ(a.shared_gate, b.shared_gate);
    EXPECT_EQ(a.n_dense_layers, b.n_dense_layers);
    EXPECT_EQ(a.dense_ffn, b.dense_ffn);
    EXPECT_EQ(a.windowed_kv_heads, b.windowed_kv_heads);
    EXPECT_EQ(a.windowed_head_dim, b.windowed_head_dim);
    EXPECT_EQ(a.windowed_rope_dim, b.windowed_rope_dim);
    EXPECT_EQ(a.keys_are_values, b.keys_are_values);
    EXPECT_EQ(a.layer_input, b.layer_input);
    EXPECT_EQ(a.n_shared_kv_layers, b.n_shared_kv_layers);
    EXPECT_EQ(a.dense_widths, b.dense_widths);
    EXPECT_EQ(a.dense_beside_experts, b.dense_beside_experts);
    EXPECT_EQ(a.expert_period, b.expert_period);
    EXPECT_EQ(a.weighted_expert_inputs, b.weighted_expert_inputs);
    EXPECT_EQ(a.chunked_attention, b.chunked_attention);
    EXPECT_EQ(a.full_attention, b.full_attention);
    EXPECT_EQ(a.rope_layers, b.rope_layers);
    EXPECT_EQ(a.temperature_length, b.temperature_length);
    EXPECT_EQ(a.temperature_scale, b.temperature_scale);
    EXPECT_EQ(a.rope_dim, b.rope_dim);
}

// Less one and one more, floats are the same but for their last bits.
void expect_near_floats(std::span<const std::byte> got, std::span<const std::byte> expected) {
    ASSERT_EQ(got.size(), expected.size());
    std::vector<float> a(got.size() / sizeof(float)), b(a.size());
    std::memcpy(a.data(), got.data(), got.size());
    std::memcpy(b.data(), expected.data(), expected.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-7) << i;
}

// experts: the file that experts' matrices are compared with.
void expect_same_tensors(const GgufFile& expected, WeightSource& source,
                         const GgufFile* experts = nullptr) {
    const std::string architecture = *expected.get_string("general.architecture");
    const bool less_one = architecture.starts_with("gemma") || architecture == "nemotron";
    EXPECT_EQ(source.file().tensors().size(), expected.tensors().size());
    for (const TensorInfo& plain : expected.tensors()) {
        const bool other = experts != nullptr && plain.shape.size() == 3;
        const GgufFile& file = other ? *experts : expected;
        const TensorInfo& tensor = *file.find_tensor(plain.name);
        const TensorInfo* found = source.file().find_tensor(tensor.name);
        ASSERT_NE(found, nullptr) << tensor.name;
        EXPECT_EQ(found->type, tensor.type) << tensor.name;
        EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
        const auto bytes = source.tensor(tensor.name);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        const auto data = file.read(tensor).value();
        if (less_one && tensor.name.ends_with("norm.weight")) {
            expect_near_floats(*bytes, data);
        } else {
            EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(), data.begin(), data.end()))
                << tensor.name;
        }
        source.release(tensor.name);
    }
}

// Of what makes the tokens of a text: names of pre-tokenizers have others that mean the same, and
// scores are made of the merges.
void expect_same_tokenizer(const GgufFile& expected, const GgufFile& found) {
    const auto strings = [](const GgufFile& file, const char* key) {
        return std::get<std::vector<std::string>>(std::get<MetaArray>(*file.find(key)));
    };
    const auto numbers = [](const GgufFile& file, const char* key) {
        return std::get<std::vector<std::int64_t>>(std::get<MetaArray>(*file.find(key)));
    };
    EXPECT_EQ(strings(found, "tokenizer.ggml.tokens"), strings(expected, "tokenizer.ggml.tokens"));
    EXPECT_EQ(numbers(found, "tokenizer.ggml.token_type"),
              numbers(expected, "tokenizer.ggml.token_type"));
    for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"})
        EXPECT_EQ(*found.get_int(key), *expected.get_int(key)) << key;
    for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"})
        EXPECT_EQ(*found.get_bool(key), *expected.get_bool(key)) << key;
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.chat_template"})
        EXPECT_EQ(*found.get_string(key), *expected.get_string(key)) << key;
    if (expected.find("tokenizer.ggml.merges") != nullptr) {
        EXPECT_EQ(strings(found, "tokenizer.ggml.merges"),
                  strings(expected, "tokenizer.ggml.merges"));
    }
}

TEST_F(Folder, HoldsTheTensorsOfTheGgufFile) {
    std::size_t files = 1;
    for (const char* name :
         {"tiny",         "tiny-tied",     "tiny-qwen2", "tiny-qwen3",     "tiny-mistral",
          "tiny-mixtral", "tiny-qwen3moe", "smollm3",    "olmo2",          "glm4",
          "phi4",         "granite",       "command-r",  "command-r-plus", "nemotron",
          "gemma2",       "gemma3",        "gemma4",     "gemma4-e",       "granite-moe",
          "glm4-moe",     "minimax-m2",    "qwen2-moe"}) {
        for (const TensorType type : {TensorType::bf16, TensorType::f16, TensorType::f32}) {
            // To a sanitizer both types of sixteen bits are the same.
            if (kSanitized && type == TensorType::f16) continue;
            const auto file = synth(shape_named(name), type);
            const std::string to = folder_.file(std::string(name) + tensor_type_info(type)->name);
            HfFolderWriter(*file, to, files++ % 3 + 1).write();
            const auto folder = ModelFolder::open(to);
            ASSERT_TRUE(folder.ok()) << folder.error().message;
            const auto config = read_model_config(**folder);
            ASSERT_TRUE(config.ok()) << config.error().message;
            expect_same_config(*config, *read_model_config(*file));
            expect_same_tensors(*file, **folder);
            expect_same_tokenizer(*file, (*folder)->file());
            const auto spec = *read_model_spec((*folder)->file());
            EXPECT_EQ(spec.layer_bytes, read_model_spec(*file)->layer_bytes);
            if (type != TensorType::f32) continue;
            // What is planned with before there are weights.
            const auto planned = spec::read_model_config_file(to + "/config.json");
            ASSERT_TRUE(planned.ok()) << planned.error().message;
            const spec::ModelSpec by_shape = model_spec(*planned, spec::WeightFormat::f32);
            EXPECT_EQ(by_shape.layer_bytes, spec.layer_bytes) << name;
            EXPECT_EQ(by_shape.head_bytes, spec.head_bytes) << name;
            EXPECT_EQ(by_shape.kv_bytes_per_token_layer, spec.kv_bytes_per_token_layer) << name;
            EXPECT_EQ(by_shape.layer_expert_bytes, spec.layer_expert_bytes) << name;
            EXPECT_EQ(by_shape.common_bytes, spec.common_bytes) << name;
            EXPECT_EQ(by_shape.joined_layers, spec.joined_layers) << name;
            if (planned->n_full_layers == 0 || planned->layer_input > 0) {
                EXPECT_EQ(by_shape.flops_per_token_layer, spec.flops_per_token_layer) << name;
            } else {  // heads that differ all count as the largest
                EXPECT_GT(by_shape.flops_per_token_layer, spec.flops_per_token_layer) << name;
            }
            if (spec.n_experts == 0) continue;  // Phi's factors of rope are not counted
            EXPECT_EQ(parameter_count(*planned), collect_info(*file).parameters) << name;
        }
    }
}

TEST_F(Folder, OfGptOssHasExpertsInMxfp4) {
    SynthShape shape = shape_named("gpt-oss");
    shape.n_layers = 3;
    const auto plain = synth(shape, TensorType::f32);
    const auto packed = synth(shape, TensorType::mxfp4);
    HfFolderWriter writer(*plain, path(), 2);
    writer.experts = packed.get();
    writer.write();
    for (const bool quantised : {false, true}) {
        const auto folder =
            ModelFolder::open(path(), quantised ? std::optional(TensorType::q8_0) : std::nullopt);
        ASSERT_TRUE(folder.ok()) << folder.error().message;
        expect_same_config(*read_model_config(**folder), *read_model_config(*plain));
        expect_same_tensors(quantised ? *synth(shape, TensorType::q8_0) : *plain, **folder,
                            packed.get());
    }
    const auto planned = spec::read_model_config_file(path() + "/config.json");
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    EXPECT_EQ(model_spec(*planned, spec::WeightFormat::f32).layer_bytes,
              read_model_spec(*plain)->layer_bytes);
    EXPECT_EQ(parameter_count(*planned), collect_info(*plain).parameters);
    writer.config["quantization_config"] = {{"quant_method", "fp8"}};
    writer.write();
    EXPECT_THAT(ModelFolder::open(path()).error().message,
                HasSubstr("config.json: quantization_config.quant_method: expected \"mxfp4\""));
}

// GGUF files have gate and up of all experts in one tensor; of a folder they are two. The text
// model of a folder with more is read alone.
TEST_F(Folder, OfGemma4HasItsExpertsAndItsTextModelAlone) {
    const SynthShape shape = shape_named("gemma4-moe");
    const auto file = synth(shape, TensorType::f32);
    HfFolderWriter writer(*file, path(), 2);
    writer.sees_images = true;
    writer.write();
    const auto folder = ModelFolder::open(path());
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    expect_same_config(*read_model_config(**folder), *read_model_config(*file));
    const auto floats = [](std::span<const std::byte> bytes) {
        std::vector<float> values(bytes.size() / sizeof(float));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    };
    const auto both =
        floats(file->read(*file->find_tensor("blk.1.ffn_gate_up_exps.weight")).value());
    const auto up = floats(*(*folder)->tensor("blk.1.ffn_up_exps.weight"));
    const std::size_t matrix = static_cast<std::size_t>(shape.ffn * shape.hidden);
    ASSERT_EQ(up.size() * 2, both.size());
    for (std::size_t i = 0; i < up.size(); ++i)
        ASSERT_EQ(up[i], both[i / matrix * 2 * matrix + matrix + i % matrix]) << i;
    for (const char* name :
         {"ffn_gate_inp.scale", "ffn_down_exps.scale", "layer_output_scale.weight",
          "pre_ffw_norm_2.weight", "ffn_down_exps.weight", "attn_k.weight"}) {
        const std::string tensor = std::string("blk.5.") + name;
        EXPECT_EQ(floats(*(*folder)->tensor(tensor)),
                  floats(file->read(*file->find_tensor(tensor)).value()))
            << name;
    }
    const auto planned = spec::read_model_config_file(path() + "/config.json");
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    const spec::ModelSpec by_shape = model_spec(*planned, spec::WeightFormat::f32);
    const spec::ModelSpec spec = *read_model_spec(*file);
    EXPECT_EQ(by_shape.layer_bytes, spec.layer_bytes);
    EXPECT_EQ(by_shape.kv_bytes_per_token_layer, spec.kv_bytes_per_token_layer);
    EXPECT_EQ(by_shape.layer_expert_bytes, spec.layer_expert_bytes);
    EXPECT_GT(by_shape.flops_per_token_layer, spec.flops_per_token_layer);
    // The divisors of rope are no parameters.
    EXPECT_EQ(parameter_count(*planned), collect_info(*file).parameters - 64);
}

// As published: one with experts in every layer, whose queries and keys are normed, and one with
// experts in every second layer, without norms.
TEST_F(Folder, OfLlama4HasItsExpertsTransposedAndItsTextModelAlone) {
    SynthShape shape = shape_named("llama4");
    shape.sliding_window = 640;
    for (const bool every : {true, false}) {
        shape.name = every ? "every" : "second";
        shape.expert_period = every ? 1 : 2;
        shape.dense_ffn = every ? 0 : 768;
        shape.qk_norm = every;
        const auto file = synth(shape, every ? TensorType::bf16 : TensorType::f32);
        HfFolderWriter writer(*file, folder_.file(shape.name), 2);
        writer.sees_images = !every;
        writer.set_llama3_scaling(8.0F, 1024);
        writer.write();
        const auto folder = ModelFolder::open(folder_.file(shape.name));
        ASSERT_TRUE(folder.ok()) << folder.error().message;
        const ModelConfig config = *read_model_config(**folder);
        expect_same_config(config, *read_model_config(*file));
        EXPECT_EQ(config.rope_factors, read_model_config(*file)->rope_factors);
        expect_same_tensors(*file, **folder);
        const auto planned =
            spec::read_model_config_file(folder_.file(shape.name) + "/config.json");
        ASSERT_TRUE(planned.ok()) << planned.error().message;
        const spec::ModelSpec by_shape = model_spec(*planned, spec::WeightFormat::f32);
        const spec::ModelSpec spec = *read_model_spec(*file);
        EXPECT_EQ(by_shape.kv_bytes_per_token_layer, spec.kv_bytes_per_token_layer);
        EXPECT_EQ(by_shape.flops_per_token_layer, spec.flops_per_token_layer);
        // The divisors of rope are no parameters.
        EXPECT_EQ(parameter_count(*planned), collect_info(*file).parameters - 16);
        if (every) continue;
        EXPECT_EQ(by_shape.layer_bytes, spec.layer_bytes);
        EXPECT_EQ(by_shape.layer_expert_bytes, spec.layer_expert_bytes);
    }
}

TEST_F(Folder, Llama4sOfOtherKindsAreRefused) {
    SynthShape shape = shape_named("llama4");
    const auto file = synth(shape, TensorType::f16);
    const struct {
        const char* key;
        Json value;
        const char* problem;
    } changes[] = {
        {"attention_chunk_size", Json(), "attention_chunk_size: expected a number above zero"},
        {"attn_temperature_tuning", false, "attn_temperature_tuning: expected true"},
        {"intermediate_size_mlp", Json(), "expected [16384, "},
        {"layer_types",
         {"full_attention", "full_attention", "full_attention", "full_attention"},
         "layer_types[0]: expected \"chunked_attention\", as no_rope_layers says"},
        {"moe_layers", {0, 2}, "moe_layers[0]: expected the layers that interleave_moe_layer_step"},
        {"no_rope_layers", {1, 1}, "no_rope_layers: expected 4 numbers, one a layer"},
    };
    for (const auto& change : changes) {
        HfFolderWriter writer(*file, path());
        writer.write();
        writer.config[change.key] = change.value;
        test_support::write_file(path() + "/config.json", writer.config.dump());
        const auto folder = ModelFolder::open(path());
        ASSERT_FALSE(folder.ok()) << change.key;
        EXPECT_THAT(folder.error().message, HasSubstr(change.problem));
    }
}

TEST_F(Folder, Qwen2MoesOfOtherKindsAreRefusedByName) {
    const auto file = synth(shape_named("qwen2-moe"), TensorType::f16);
    HfFolderWriter writer(*file, path());
    writer.write();
    const auto edit = [&](const char* key, const Json& value) {
        Json config = writer.config;
        config[key] = value;
        test_support::write_file(path() + "/config.json", config.dump());
    };
    const struct {
        const char* key;
        Json value;
        const char* problem;
        bool planned;
    } changes[] = {
        {"decoder_sparse_step", 2, "decoder_sparse_step: expected 1", false},
        {"mlp_only_layers", {1}, "mlp_only_layers: expected an empty array", false},
        {"shared_expert_intermediate_size", Json(), "shared_expert_intermediate_size", false},
        {"shared_expert_intermediate_size", 512, "shape [1024, 256], expected [512, 256]", true},
        {"qkv_bias", false, "qkv_bias: expected true", true},
    };
    for (const auto& change : changes) {
        edit(change.key, change.value);
        EXPECT_THAT(ModelFolder::open(path()).error().message, HasSubstr(change.problem));
        const auto planned = spec::read_model_config_file(path() + "/config.json");
        EXPECT_EQ(planned.ok(), change.planned) << change.key;
        if (!planned.ok()) {
            EXPECT_THAT(planned.error().message, HasSubstr(change.problem));
        }
    }
    edit("norm_topk_prob", true);
    EXPECT_TRUE(read_model_config(**ModelFolder::open(path()))->normalise_expert_weights);
    // A window that is said and not used.
    edit("sliding_window", 512);
    EXPECT_EQ(read_model_config(**ModelFolder::open(path()))->sliding_window, 0);
    writer.config["use_sliding_window"] = true;
    writer.config["max_window_layers"] = 3;
    edit("sliding_window", 512);
    const ModelConfig windowed = *read_model_config(**ModelFolder::open(path()));
    EXPECT_EQ(windowed.sliding_window, 512);
    EXPECT_EQ(windowed.full_attention, (std::vector<bool>{1, 1, 1, 0}));
}

TEST_F(Folder, AGateOfASharedExpertThatIsMissingOrOfAnotherShapeIsNamed) {
    const auto file = synth(shape_named("qwen2-moe"), TensorType::bf16);
    const std::string gate = "model.layers.2.mlp.shared_expert_gate.weight";
    for (const bool missing : {true, false}) {
        std::filesystem::remove_all(path());
        HfFolderWriter writer(*file, path());
        writer.quantise = [&](const std::string& name, const auto&, const std::string& bytes,
                              const HfFolderWriter::Put& put) {
            if (name == gate && !missing) put(name, "F32", {256, 1}, bytes);
            return name == gate;
        };
        writer.write();
        EXPECT_THAT(ModelFolder::open(path()).error().message,
                    HasSubstr(gate + (missing ? ": missing"
                                              : ": shape [256, 1], expected [1, 256] by config")));
    }
}

TEST_F(Folder, ExpertsMayBeInGroups) {
    SynthShape shape = shape_named("glm4-moe");
    shape.n_skipped_layers = 1;
    shape.n_expert_groups = 4;
    shape.n_expert_groups_used = 2;
    const auto file = synth(shape, TensorType::f16);
    HfFolderWriter writer(*file, path());
    writer.write();
    const auto folder = ModelFolder::open(path());
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    expect_same_config(*read_model_config(**folder), *read_model_config(*file));
    const struct {
        const char* key;
        int value;
        const char* problem;
    } changes[] = {
        {"n_group", 3, "n_group: 3, expected a number of groups that divides the 8 experts"},
        {"n_group", 8, "n_group: 8, expected groups of at least two experts"},
        {"n_group", 0, "n_group: expected 1 to 32"},
        {"topk_group", 5, "topk_group: expected 1 to 4"},
        {"num_experts_per_tok", 5, "n_group: 4, 5 of 8 experts are used, but 2 groups have 4"},
    };
    for (const auto& change : changes) {
        writer.config["n_group"] = 4;
        writer.config["num_experts_per_tok"] = 2;
        writer.config["topk_group"] = 2;
        writer.config[change.key] = change.value;
        test_support::write_file(path() + "/config.json", writer.config.dump());
        EXPECT_THAT(ModelFolder::open(path()).error().message, HasSubstr(change.problem));
    }
}

// Inputs of layers, shared keys and values, wider feed-forwards behind them; published folders see
// and hear, too, and have keys and values that nobody reads.
TEST_F(Folder, OfGemma4EIsTheGgufFileAndLeavesOutKeysThatNobodyReads) {
    const SynthShape shape = shape_named("gemma4-e");
    const auto file = synth(shape, TensorType::bf16);
    HfFolderWriter writer(*file, path(), 2);
    writer.sees_images = true;
    writer.write();
    const std::string layer = "model.language_model.layers.7.";
    test_support::SafetensorsWriter spare;
    spare.add(layer + "self_attn.k_proj.weight", "BF16", {64, 256}, std::string(64 * 256 * 2, 1));
    spare.add(layer + "self_attn.v_proj.weight", "BF16", {64, 256}, std::string(64 * 256 * 2, 1));
    spare.add(layer + "self_attn.k_norm.weight", "BF16", {64}, std::string(64 * 2, 1));
    test_support::write_file(path() + "/model-3-of-2.safetensors", spare.take());
    std::filesystem::remove(path() + "/model.safetensors.index.json");
    const auto folder = ModelFolder::open(path());
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    expect_same_config(*read_model_config(**folder), *read_model_config(*file));
    expect_same_tensors(*file, **folder);
    const auto planned = spec::read_model_config_file(path() + "/config.json");
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    const spec::ModelSpec by_shape = model_spec(*planned, spec::WeightFormat::f32);
    const spec::ModelSpec spec = *read_model_spec(*synth(shape, TensorType::f32));
    EXPECT_EQ(by_shape.bytes_of_layer, spec.bytes_of_layer);
    EXPECT_EQ(by_shape.embedding_bytes, 0);
    // The divisors of rope are no parameters.
    EXPECT_EQ(parameter_count(*planned), collect_info(*file).parameters - 64);

    test_support::SafetensorsWriter other;
    other.add("model.language_model.layers.3.self_attn.k_proj.bias", "BF16", {64},
              std::string(64 * 2, 1));
    test_support::write_file(path() + "/model-3-of-2.safetensors", other.take());
    EXPECT_THAT(ModelFolder::open(path()).error().message,
                HasSubstr("layers.3.self_attn.k_proj.bias: not part of a gemma4 model"));
}

TEST_F(Folder, Gemma4EsThatWeCannotRunAreRefusedByName) {
    const auto file = synth(shape_named("gemma4-e"), TensorType::f16);
    HfFolderWriter writer(*file, path());
    writer.write();
    const auto problems = [&](const char* key, const Json& value) {
        Json changed = writer.config;
        changed[key] = value;
        test_support::write_file(path() + "/config.json", changed.dump());
        const auto opened = ModelFolder::open(path());
        const auto planned = spec::read_model_config_file(path() + "/config.json");
        return std::pair(opened.ok() ? "" : opened.error().message,
                         planned.ok() ? "" : planned.error().message);
    };
    EXPECT_EQ(problems("hidden_act", "gelu_pytorch_tanh"), std::pair(std::string(), std::string()));
    auto [opened, planned] = problems("num_kv_shared_layers", 10);
    EXPECT_THAT(opened, HasSubstr("config.json: num_kv_shared_layers: expected 0 to 9"));
    EXPECT_THAT(planned, HasSubstr("num_kv_shared_layers: expected fewer than"));
    std::tie(opened, planned) = problems("num_kv_shared_layers", 7);
    EXPECT_THAT(opened, HasSubstr("num_kv_shared_layers: expected layers of each kind"));
    EXPECT_THAT(planned, HasSubstr("num_kv_shared_layers: expected layers of each kind"));
    std::tie(opened, planned) = problems("hidden_size_per_layer_input", 128);
    EXPECT_THAT(opened, HasSubstr("embed_tokens_per_layer.weight: shape [2048, 2560], expected"));
    std::tie(opened, planned) = problems("vocab_size_per_layer_input", 1024);
    EXPECT_THAT(opened, HasSubstr("vocab_size_per_layer_input: expected 2048, as vocab_size"));
    std::tie(opened, planned) = problems("use_double_wide_mlp", false);
    EXPECT_THAT(opened, HasSubstr("layers.5.mlp.gate_proj.weight: shape [1536, 256], expected"));

    const auto mixed = synth(shape_named("gemma4-moe"), TensorType::f16);
    HfFolderWriter with_experts(*mixed, path());
    with_experts.write();
    writer.config = with_experts.config;
    std::tie(opened, planned) = problems("hidden_size_per_layer_input", 8);
    EXPECT_THAT(opened,
                HasSubstr("hidden_size_per_layer_input: expected 0 in a model with experts"));
    EXPECT_THAT(planned,
                HasSubstr("hidden_size_per_layer_input: expected 0 in a model with experts"));
}

TEST_F(Folder, Gemma4sWhoseUsualRopeTurnsAPartOfAHeadAreRefused) {
    const auto file = synth(shape_named("gemma4"), TensorType::f16);
    for (const char* layers : {"full_attention", "sliding_attention"}) {
        HfFolderWriter writer(*file, path());
        writer.write();
        writer.config["rope_parameters"][layers]["rope_type"] = "default";
        writer.config["rope_parameters"][layers]["partial_rotary_factor"] = 0.5;
        test_support::write_file(path() + "/config.json", writer.config.dump());
        EXPECT_THAT(ModelFolder::open(path()).error().message,
                    HasSubstr(std::string("rope_parameters.") + layers +
                              ".partial_rotary_factor: expected 1"));
    }
}

// Published ones say so; runtimes of GGUF files round.
TEST_F(Folder, YarnMayBeginAndEndWithinADimension) {
    SynthShape shape = shape_named("tiny");
    shape.rope_scaling = {"yarn", 8, 64};
    const auto file = synth(shape, TensorType::f16);
    HfFolderWriter writer(*file, path());
    writer.config["rope_scaling"] = {{"type", "yarn"},
                                     {"factor", 8.0},
                                     {"truncate", false},
                                     {"original_max_position_embeddings", 64}};
    writer.write();
    const auto folder = ModelFolder::open(path());
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    const auto factors = read_model_config(**folder)->rope_factors;
    ASSERT_EQ(factors.size(), 4U);
    // 64 positions hold 64 / (2 pi 10000^(i / 4)) rotations of pair i: the ramp would go from 0 to
    // 1.01 pairs, and rounded goes from 0 to 2.
    const double last = 4 * std::log(64 / (2 * std::numbers::pi)) / std::log(10000.0);
    const double ramp = std::min(1.0, 1 / last);
    EXPECT_NEAR(factors[1], 1 / (ramp / 8 + 1 - ramp), 1e-4);
    EXPECT_EQ(factors[2], 8.0F);
    EXPECT_NEAR(read_model_config(*file)->rope_factors[1], 1 / (0.5 / 8 + 0.5), 1e-4);
}

TEST_F(Folder, QuantisedAtLoadIsTheQuantisedFile) {
    for (const char* name : {"tiny-tied", "tiny-qwen2", "tiny-mixtral"}) {
        for (const TensorType type : {TensorType::q8_0, TensorType::q4_0}) {
            const auto plain = synth(shape_named(name), TensorType::f32);
            HfFolderWriter(*plain, path()).write();
            const auto folder = ModelFolder::open(path(), type);
            ASSERT_TRUE(folder.ok()) << folder.error().message;
            expect_same_tensors(*synth(shape_named(name), type), **folder);
        }
    }
}

TEST_F(Folder, RopeScalingIsThatOfTheGgufFile) {
    for (const char* type : {"linear", "yarn", "llama3"}) {
        SynthShape shape = shape_named("tiny");
        shape.rope_scaling = {type, 8, 64};
        const auto file = synth(shape, TensorType::f16);
        HfFolderWriter writer(*file, path());
        if (std::string_view(type) == "llama3") writer.set_llama3_scaling(8, 64);
        writer.write();
        const auto folder = ModelFolder::open(path());
        ASSERT_TRUE(folder.ok()) << folder.error().message;
        expect_same_config(*read_model_config(**folder), *read_model_config(*file));
        expect_same_tensors(*file, **folder);
    }
}

TEST_F(Folder, YarnAndLayerTypesAreRead) {
    const auto file = synth(shape_named("tiny-qwen2"), TensorType::f16);
    HfFolderWriter writer(*file, path());
    writer.config["rope_parameters"] = {{"rope_theta", 5000.0},
                                        {"rope_type", "yarn"},
                                        {"factor", 4.0},
                                        {"attention_factor", 1.5},
                                        {"beta_fast", 16.0},
                                        {"beta_slow", 2.0},
                                        {"original_max_position_embeddings", 256}};
    writer.config["use_sliding_window"] = true;
    writer.config["sliding_window"] = 100;
    writer.config["max_window_layers"] = 2;
    writer.write();
    const auto folder = ModelFolder::open(path());
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    const auto config = *read_model_config(**folder);
    EXPECT_EQ(config.rope_base, 5000.0F);
    EXPECT_NEAR(config.rope_magnitude, 1.5, 1e-6);
    EXPECT_EQ(config.context_length, 1024);
    EXPECT_EQ(config.window_of(1), 0);
    EXPECT_EQ(config.window_of(2), 100);
    EXPECT_EQ(config.rope_factors.size(), 4U);
}

TEST_F(Folder, MadeTensorsLastUntilTheLastRelease) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path()).write();
    auto folder = ModelFolder::open(path(), TensorType::q8_0).value();
    const auto first = *folder->tensor("blk.0.attn_q.weight");
    const auto second = *folder->tensor("blk.0.attn_q.weight");
    EXPECT_EQ(first.data(), second.data());
    const std::vector<std::byte> copy(first.begin(), first.end());
    folder->release("blk.0.attn_q.weight");
    EXPECT_TRUE(std::equal(second.begin(), second.end(), copy.begin(), copy.end()));
    folder->release("blk.0.attn_q.weight");
    folder->release("blk.0.attn_q.weight");
    const auto again = *folder->tensor("blk.0.attn_q.weight");
    EXPECT_TRUE(std::equal(again.begin(), again.end(), copy.begin(), copy.end()));
    EXPECT_EQ(folder->tensor("blk.0.attn_x.weight").error().code, base::Errc::not_found);
}

TEST_F(Folder, ManifestIdentifiesTheModel) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path(), 2).write();
    auto folder = ModelFolder::open(path()).value();
    const auto manifest = build_manifest(*folder);
    ASSERT_TRUE(manifest.ok()) << manifest.error().message;
    EXPECT_TRUE(open_manifest(*manifest).ok());
    const auto of_file = *build_manifest(*file);
    for (std::size_t i = 0; i < of_file.tensors.size(); ++i) {
        EXPECT_EQ(manifest->tensors[i], of_file.tensors[i]);
    }
    EXPECT_TRUE(check_model(*folder, manifest->model_hash).ok());
    auto quantised = ModelFolder::open(path(), TensorType::q8_0).value();
    EXPECT_THAT(check_model(*quantised, manifest->model_hash).error().message,
                HasSubstr("model hash"));
}

TEST_F(Folder, InfoAndOpenWeightsTakeFolders) {
    const auto file = synth(shape_named("tiny-mixtral"), TensorType::f16);
    HfFolderWriter(*file, path()).write();
    const auto weights = open_weights(path(), {.quantize = "q4_0"});
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const ModelInfo info = collect_info(**weights);
    EXPECT_EQ(info.problem, "");
    EXPECT_EQ(info.name, "model");
    const ModelInfo of_file = collect_info(*file);
    EXPECT_EQ(info.parameters, of_file.parameters);
    EXPECT_EQ(info.active_parameters, of_file.parameters - 4 * 6 * 3 * 64 * 96);
    EXPECT_THAT(describe_text(info), HasSubstr("2 of 8 used by a token"));
    EXPECT_THAT(open_weights(path(), {.quantize = "q9"}).error().message,
                HasSubstr("quantisation \"q9\" is unknown"));
    EXPECT_THAT(open_weights(file->label(), {.quantize = "q8_0"}).error().message,
                HasSubstr("only folders of safetensors"));
    EXPECT_THAT(open_weights("/nonexistent").error().message, HasSubstr("/nonexistent"));
}

struct Edit {
    void (*edit)(HfFolderWriter& writer);
    const char* error;
};

TEST_F(Folder, WrongConfigsAndTokenizersAreNamed) {
    const Edit edits[] = {
        {[](HfFolderWriter& w) { w.config["model_type"] = "mamba"; },
         "config.json: model_type: expected one of llama, mistral, mixtral, qwen2, "
         "qwen2_moe, qwen3, qwen3_moe"},
        {[](HfFolderWriter& w) { w.config["num_hidden_layers"] = 0; },
         "config.json: num_hidden_layers: expected 1 to 4096"},
        {[](HfFolderWriter& w) { w.config["max_position_embeddings"] = (1 << 24) + 1; },
         "config.json: max_position_embeddings: expected 1 to 16777216"},
        {[](HfFolderWriter& w) { w.config["vocab_size"] = 1LL << 40; },
         "config.json: vocab_size: expected 1 to 16777216"},
        {[](HfFolderWriter& w) {
             w.config["num_attention_heads"] = 1 << 14;
             w.config["head_dim"] = 1 << 14;
         },
         "config.json: the heads of a layer have 268435456 dimensions together, the limit is "
         "4194304"},
        {[](HfFolderWriter& w) { w.config["hidden_size"] = 128; },
         "tensor model.embed_tokens.weight: shape [512, 64], expected [512, 128] by config.json"},
        {[](HfFolderWriter& w) { w.config["num_attention_heads"] = 7; },
         "num_attention_heads: 7, expected a divisor of hidden_size 64"},
        {[](HfFolderWriter& w) { w.config["num_hidden_layers"] = 5; },
         "tensor model.layers.4.input_layernorm.weight: missing"},
        {[](HfFolderWriter& w) { w.config["num_hidden_layers"] = 3; },
         "not part of a llama model of 3 layers"},
        {[](HfFolderWriter& w) { w.config["hidden_act"] = "gelu"; },
         "config.json: hidden_act: expected \"silu\""},
        {[](HfFolderWriter& w) { w.config["attention_bias"] = true; },
         "config.json: attention_bias: expected false"},
        {[](HfFolderWriter& w) {
             w.config["quantization_config"] = {{"quant_method", "bitsandbytes"}};
         },
         "quantization_config.quant_method: expected \"fp8\" or \"gptq\" or \"awq\" or "},
        {[](HfFolderWriter& w) {
             w.config["rope_scaling"] = {{"type", "longrope"}, {"factor", 2.0}};
         },
         "config.json: rope_scaling.type: expected \"default\", \"linear\", \"yarn\" or "
         "\"llama3\""},
        {[](HfFolderWriter& w) {
             w.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 2.0}, {"mscale", 1.0}};
         },
         "mscale: not supported"},
        {[](HfFolderWriter& w) { w.config["vocab_size"] = 511; }, "512 tokens, vocab_size"},
        {[](HfFolderWriter& w) {
             w.config["eos_token_id"] = {2, 512};
         },
         "config.json: eos_token_id: 512, expected a token id below 512"},
        {[](HfFolderWriter& w) { w.tokenizer_config["chat_template"] = 3; },
         "chat_template: expected a string"},
    };
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    for (const Edit& test : edits) {
        HfFolderWriter writer(*file, path());
        test.edit(writer);
        writer.write();
        const auto folder = ModelFolder::open(path());
        ASSERT_FALSE(folder.ok()) << test.error;
        EXPECT_THAT(folder.error().message, HasSubstr(test.error));
        EXPECT_THAT(folder.error().message, HasSubstr(path()));
    }
}

TEST_F(Folder, WrongTokenizersAreNamed) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path()).write();
    const Json right = Json::parse(std::ifstream(path() + "/tokenizer.json"));
    const struct {
        void (*edit)(Json& tokenizer);
        const char* error;
    } edits[] = {
        {[](Json& t) { t.erase("model"); }, "tokenizer.json: "},
        {[](Json& t) { t["model"]["type"] = "WordLevel"; },
         "type \"WordLevel\", expected \"BPE\", \"Unigram\" or \"WordPiece\""},
        {[](Json& t) { t["model"]["type"] = "WordPiece"; }, "is not known with \"WordPiece\""},
        {[](Json& t) { t["model"]["vocab"]["new"] = "x"; }, "expected a token id"},
        {[](Json& t) { t["model"]["vocab"]["new"] = -1; }, "token id -1, expected 0 to"},
        {[](Json& t) { t["model"]["vocab"]["new"] = 1; }, "token id 1 is both"},
        {[](Json& t) { t["model"]["vocab"]["new"] = 1LL << 40; }, "expected 0 to 16777215"},
        {[](Json& t) { t["added_tokens"][0]["id"] = 77; }, "token id 77 is both"},
        {[](Json& t) { t["model"]["merges"][0] = "nothing"; },
         "merges[0]: \"nothing\", expected two tokens"},
        {[](Json& t) { t["model"]["merges"][0] = "zzzz yyyy"; }, "which is not a token"},
        {[](Json& t) { t["model"]["merges"][0] = 5; }, "model.merges[0]: expected two tokens"},
        {[](Json& t) { t["model"]["byte_fallback"] = false; }, "pre_tokenizer"},
    };
    for (const auto& test : edits) {
        Json wrong = right;
        test.edit(wrong);
        test_support::write_file(path() + "/tokenizer.json", wrong.dump());
        const auto folder = ModelFolder::open(path());
        ASSERT_FALSE(folder.ok()) << test.error;
        EXPECT_THAT(folder.error().message, HasSubstr(test.error));
        EXPECT_THAT(folder.error().message, HasSubstr("tokenizer.json"));
    }
    test_support::write_file(path() + "/tokenizer.json", "{");
    EXPECT_THAT(ModelFolder::open(path()).error().message, HasSubstr("tokenizer.json"));
}

// They are read for gpt-oss; of another tensor nobody knows what is in them.
TEST_F(Folder, BytesInPlaceOfFloatsAreRefusedByName) {
    const auto file = synth(shape_named("tiny"), TensorType::f32);
    HfFolderWriter(*file, path()).write();
    const std::string weights = path() + "/model.safetensors";
    std::ifstream in(weights, std::ios::binary);
    std::string image{std::istreambuf_iterator<char>(in), {}};
    const std::size_t entry = image.find("\"model.norm.weight\":");
    ASSERT_NE(entry, std::string::npos);
    const auto put = [&](const std::string& from, const std::string& to) {
        image.replace(image.find(from, entry), from.size(), to);
    };
    put(R"("dtype":"F32")", R"("dtype":"U8" )");
    put(R"("shape":[64])", R"("shape":[256])");
    std::uint64_t length = 0;  // of the header, which has one character more
    std::memcpy(&length, image.data(), sizeof length);
    ++length;
    std::memcpy(image.data(), &length, sizeof length);
    test_support::write_file(weights, image);
    EXPECT_THAT(ModelFolder::open(path()).error().message,
                HasSubstr("model.safetensors: tensor model.norm.weight: dtype U8 is not supported, "
                          "expected F32, F16 or BF16"));
}

TEST_F(Folder, WrongFilesAreNamed) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path(), 2).write();
    const std::string index_file = path() + "/model.safetensors.index.json";
    const Json right = Json::parse(std::ifstream(index_file));
    const auto error_with = [&](const Json& index) {
        test_support::write_file(index_file, index.dump());
        const auto folder = ModelFolder::open(path());
        return folder.ok() ? "no error" : folder.error().message;
    };
    EXPECT_EQ(error_with(right), "no error");
    Json index = right;
    index["weight_map"]["model.norm.weight"] = "../model.safetensors";
    EXPECT_THAT(error_with(index), HasSubstr("expected the name of a file in the same folder"));
    index = right;
    index["weight_map"]["more"] = "model-1-of-2.safetensors";
    EXPECT_THAT(error_with(index), HasSubstr("model-1-of-2.safetensors: tensor more: missing"));
    index = right;
    index["weight_map"]["model.norm.weight"] = "absent.safetensors";
    EXPECT_THAT(error_with(index), HasSubstr("absent.safetensors: cannot open"));
    EXPECT_THAT(error_with(Json::object()), HasSubstr("weight_map"));
    // Without the index every file counts: one that comes twice is noticed.
    std::filesystem::remove(index_file);
    EXPECT_TRUE(ModelFolder::open(path()).ok());
    std::filesystem::copy(path() + "/model-1-of-2.safetensors", path() + "/z.safetensors");
    EXPECT_THAT(ModelFolder::open(path()).error().message, HasSubstr("z.safetensors: tensor "));
    for (const char* name : {"z", "model-1-of-2", "model-2-of-2"}) {
        std::filesystem::remove(path() + "/" + name + ".safetensors");
    }
    EXPECT_EQ(ModelFolder::open(path()).error().message, path() + ": no *.safetensors file in it");
    std::filesystem::remove(path() + "/config.json");
    EXPECT_THAT(ModelFolder::open(path()).error().message, HasSubstr("config.json"));
}

// The names of the tensors of 4096 layers with 65,536 experts would take all memory.
TEST_F(Folder, AConfigOfMoreTensorsThanAnyModelHasIsRefusedBeforeTheyAreNamed) {
    const auto file = synth(shape_named("tiny-qwen3moe"), TensorType::f16);
    for (const int experts : {1 << 14, 1 << 16}) {
        HfFolderWriter writer(*file, path());
        writer.config["num_hidden_layers"] = 4096;
        writer.config["num_experts"] = experts;
        writer.config["num_experts_per_tok"] = 8;
        writer.write();
        const auto folder = ModelFolder::open(path());
        ASSERT_FALSE(folder.ok());
        EXPECT_THAT(folder.error().message,
                    HasSubstr(experts > 1 << 14 ? "config.json: num_experts: expected 1 to 16384"
                                                : "have 201326592 matrices, the limit is 1048576"));
    }
}

TEST_F(Folder, AnIndexOfMoreFilesThanAnyModelHasIsRefused) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path(), 2).write();
    Json map = Json::object();
    for (int i = 0; i < 5000; ++i) map[std::to_string(i)] = std::to_string(i) + ".safetensors";
    test_support::write_file(path() + "/model.safetensors.index.json",
                             Json{{"weight_map", map}}.dump());
    EXPECT_THAT(ModelFolder::open(path()).error().message,
                HasSubstr("names 5000 files, the limit is 4096"));
}

TEST_F(Folder, AFileThatIsCutWhileTheFolderIsOpenGivesAnErrorThatNamesIt) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    HfFolderWriter(*file, path()).write();
    const auto folder = std::move(ModelFolder::open(path())).value();
    std::filesystem::resize_file(path() + "/model.safetensors", 20'000);
    for (const char* name : {"output.weight", "blk.1.attn_q.weight"}) {
        const auto tensor = folder->tensor(name);
        ASSERT_FALSE(tensor.ok()) << name;
        EXPECT_THAT(tensor.error().message, HasSubstr("model.safetensors: ends at byte 20000"));
    }
    EXPECT_FALSE(build_manifest(*folder).ok());
}

TEST_F(Folder, APipeInPlaceOfAFileOfTheFolderIsRefusedAtOnce) {
    const auto file = synth(shape_named("tiny"), TensorType::f16);
    for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
        HfFolderWriter(*file, path()).write();
        const std::string pipe = path() + "/" + name;
        std::filesystem::remove(pipe);
        ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
        const auto folder = ModelFolder::open(path());
        ASSERT_FALSE(folder.ok());
        EXPECT_THAT(folder.error().message, HasSubstr(pipe + ": is a pipe"));
        std::filesystem::remove_all(path());
    }
}

}  // namespace
}  // namespace helix::model::model_folder_test

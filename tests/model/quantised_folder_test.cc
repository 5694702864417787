// Folders whose matrices are FP8, GPTQ's, AWQ's or compressed-tensors' have the weights that those
// say they have.

#include "quantised_folder.h"

#include <cstring>
#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/effort.h"
#include "model/info.h"
#include "model/model_folder.h"
#include "model/synth.h"
#include "temporary_folder.h"

namespace helix::model::quantised_folder_test {
namespace {

using test_support::HfFolderWriter;
using test_support::Json;
using test_support::MatrixQuantiser;
using test_support::Publisher;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

// Whole blocks of 64, but not of 128.
SynthShape small_shape(const char* architecture, std::int32_t n_experts = 0) {
    SynthShape shape;
    shape.name = architecture;
    shape.architecture = architecture;
    shape.n_layers = 1;
    shape.hidden = 192;
    shape.n_heads = 4;
    shape.n_kv_heads = 2;
    shape.ffn = n_experts > 0 ? 64 : 320;
    shape.vocab = 400;
    shape.context_length = 256;
    shape.n_experts = n_experts;
    shape.n_experts_used = n_experts > 0 ? 2 : 0;
    return shape;
}

class QuantisedFolder : public ::testing::Test {
  protected:
    std::shared_ptr<const GgufFile> synth(const SynthShape& shape) {
        SynthOptions options;
        options.seed = 11;
        options.path = folder_.file(shape.name + ".gguf");
        options.threads = 1;
        const auto made = synth_model(shape, TensorType::f32, options);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return *GgufFile::open(options.path);
    }

    using Edit = std::function<void(HfFolderWriter&)>;

    std::string write(const GgufFile& file, const MatrixQuantiser& quantiser, const char* name,
                      const Edit& edit = nullptr) {
        const std::string path = folder_.file(name);
        std::filesystem::remove_all(path);
        HfFolderWriter writer(file, path);
        writer.quantise = quantiser;
        if (!quantiser.plain) writer.config["quantization_config"] = quantiser.config();
        if (edit) edit(writer);
        writer.write();
        return path;
    }

    TemporaryFolder folder_;
};

std::vector<float> values_of(ModelFolder& folder, const TensorInfo& tensor) {
    const auto bytes = folder.tensor(tensor.name);
    EXPECT_TRUE(bytes.ok()) << bytes.error().message;
    std::vector<float> values(static_cast<std::size_t>(tensor.row_length() * tensor.rows()));
    dequantize_row(tensor.type, *bytes, values.data());
    folder.release(tensor.name);
    return values;
}

struct Form {
    Publisher publisher;
    std::int64_t group;
    bool bfloats;
    TensorType type;
};
constexpr Form kForms[] = {{Publisher::fp8_blocks, 0, false, TensorType::fp8},
                           {Publisher::fp8_blocks, 0, true, TensorType::fp8},
                           {Publisher::fp8_tensor, 0, false, TensorType::fp8},
                           {Publisher::fp8_rows, 0, true, TensorType::fp8},
                           {Publisher::gptq, 64, false, TensorType::int4},
                           {Publisher::gptq, -1, true, TensorType::int4},
                           {Publisher::gptq_v2, 32, false, TensorType::int4},
                           {Publisher::gptq_8, 32, false, TensorType::q8_0},
                           {Publisher::awq, 64, false, TensorType::int4},
                           {Publisher::awq, 32, true, TensorType::int4},
                           {Publisher::packed, 32, true, TensorType::int4},
                           {Publisher::packed_zeros, 64, false, TensorType::int4}};

MatrixQuantiser quantiser_of(const Form& form) {
    MatrixQuantiser quantiser;
    quantiser.publisher = form.publisher;
    quantiser.group = form.group;
    quantiser.bfloats = form.bfloats;
    return quantiser;
}

// The gate of a shared expert, a single row, which formats of four bits cannot pack.
constexpr const char* kSingleRow = "shared_expert_gate";

// The rows of llama's queries and keys are in another order here; experts are one module each.
TEST_F(QuantisedFolder, HasTheWeightsThatItsNumbersAndScalesAre) {
    SynthShape shared = small_shape("qwen2moe", 8);
    shared.shared_ffn = 128;
    for (const SynthShape& shape : {small_shape("llama"), small_shape("qwen3moe", 8), shared}) {
        const auto file = synth(shape);
        for (const Form& form : kForms) {
            const std::string what =
                shape.name + ", publisher " + std::to_string(static_cast<int>(form.publisher));
            MatrixQuantiser quantiser = quantiser_of(form);
            if (form.type != TensorType::fp8) quantiser.left = kSingleRow;
            if (shape.architecture == "qwen2moe") quantiser.biased = ".self_attn.";
            const auto quantised = ModelFolder::open(write(*file, quantiser, "quantised"));
            quantiser.plain = true;
            const auto plain = ModelFolder::open(write(*file, quantiser, "plain"));
            ASSERT_TRUE(quantised.ok()) << what << ": " << quantised.error().message;
            ASSERT_TRUE(plain.ok()) << plain.error().message;
            int matrices = 0;
            for (const TensorInfo& tensor : (*quantised)->file().tensors()) {
                if (tensor.type == form.type) ++matrices;
                const TensorInfo* same = (*plain)->file().find_tensor(tensor.name);
                ASSERT_NE(same, nullptr) << tensor.name;
                EXPECT_EQ(same->shape, tensor.shape) << tensor.name;
                EXPECT_EQ(values_of(**quantised, tensor), values_of(**plain, *same))
                    << what << ", " << tensor.name;
            }
            // Of the one layer; routers and gates are f32.
            EXPECT_EQ(matrices, shape.shared_ffn > 0 ? 10 : 7) << what;
        }
    }
}

// What is quantised stays so, whatever else becomes when it is loaded.
TEST_F(QuantisedFolder, MayLeaveModulesAsTheyAreWhichMayBeQuantisedAtLoad) {
    const auto file = synth(small_shape("llama"));
    MatrixQuantiser quantiser;
    quantiser.publisher = Publisher::fp8_blocks;
    quantiser.left = "down_proj";
    const std::string path = write(*file, quantiser, "mixed");
    const auto folder = ModelFolder::open(path, TensorType::q8_0);
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    const GgufFile& header = (*folder)->file();
    EXPECT_EQ(header.find_tensor("blk.0.attn_q.weight")->type, TensorType::fp8);
    EXPECT_EQ(header.find_tensor("blk.0.ffn_down.weight")->type, TensorType::q8_0);
    EXPECT_EQ(header.find_tensor("output.weight")->type, TensorType::q8_0);
    EXPECT_EQ((*ModelFolder::open(path))->file().find_tensor("blk.0.ffn_down.weight")->type,
              TensorType::f32);
    const ModelInfo info = collect_info(**folder);
    const auto share = std::find_if(info.types.begin(), info.types.end(),
                                    [](const TypeShare& one) { return one.type == "fp8"; });
    ASSERT_NE(share, info.types.end());
    // 68 bytes for 64 weights: q and output, k and v, gate and up.
    EXPECT_EQ(share->bytes, (2 * 192 * 192 + 2 * 96 * 192 + 2 * 320 * 192) / 64 * 68);
}

TEST_F(QuantisedFolder, ScalesOfActivationsAndCachesAndBiasesOfZerosAreLeftOut) {
    const auto file = synth(small_shape("llama"));
    MatrixQuantiser quantiser;
    quantiser.publisher = Publisher::fp8_tensor;
    const auto add_after = [&](std::vector<std::string> names, const char* dtype,
                               const std::string& bytes) {
        return [=](HfFolderWriter& writer) {
            writer.quantise = [=](const std::string& name, const auto& shape,
                                  const std::string& data, const HfFolderWriter::Put& put) {
                MatrixQuantiser each = quantiser;
                if (name.ends_with("k_proj.weight")) {
                    for (const std::string& more : names)
                        put("model.layers.0.self_attn." + more, dtype,
                            {static_cast<std::int64_t>(bytes.size()) / 4}, bytes);
                }
                return each(name, shape, data, put);
            };
        };
    };
    const auto opened = ModelFolder::open(
        write(*file, quantiser, "scales",
              add_after({"k_scale", "v_scale", "k_proj.input_scale", "k_proj.output_scale"}, "F32",
                        "1234")));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    const auto other = ModelFolder::open(
        write(*file, quantiser, "scales", add_after({"k_proj.other_scale"}, "F32", "1234")));
    ASSERT_FALSE(other.ok());
    EXPECT_THAT(other.error().message, HasSubstr("k_proj.other_scale: not part of"));

    // GPTQ's biases: those of zeros come with every module (quantised_folder.h).
    quantiser.publisher = Publisher::gptq;
    const auto biased =
        ModelFolder::open(write(*file, quantiser, "bias", [&](HfFolderWriter& writer) {
            writer.quantise = [=](const std::string& name, const auto& shape,
                                  const std::string& data, const HfFolderWriter::Put& put) {
                MatrixQuantiser each = quantiser;
                return each(name, shape, data,
                            [&](const std::string& own, const char* dtype, const auto& size,
                                std::string bytes) {
                                if (own.ends_with("up_proj.bias")) bytes[7] = '\1';
                                put(own, dtype, size, bytes);
                            });
            };
        }));
    ASSERT_FALSE(biased.ok());
    EXPECT_THAT(biased.error().message, HasSubstr("up_proj.bias: not part of"));
}

struct Refusal {
    Publisher publisher;
    const char* key;  // a JSON pointer into quantization_config
    Json value;
    const char* error;
};

TEST_F(QuantisedFolder, WhatWouldBeComputedOtherwiseIsRefusedByName) {
    const auto file = synth(small_shape("llama"));
    const char* in_group = "/config_groups/group_0/weights/";
    const Refusal refusals[] = {
        {Publisher::gptq, "/quant_method", "bitsandbytes",
         "quantization_config.quant_method: expected \"fp8\" or \"gptq\" or \"awq\" or "
         "\"compressed-tensors\", found \"bitsandbytes\""},
        {Publisher::gptq, "/bits", 3, "quantization_config.bits: expected 4 or 8"},
        {Publisher::gptq, "/checkpoint_format", "marlin", "checkpoint_format: expected \"gptq\""},
        {Publisher::gptq, "/pack_dtype", "int16", "pack_dtype: expected \"int32\""},
        {Publisher::gptq, "/group_size", 48, "group_size: expected -1 or a multiple of 32"},
        {Publisher::gptq, "/group_size", 32, "scales: shape [3, 192], expected groups of 32"},
        {Publisher::gptq, "/bits", 8, "qweight: shape [24, 192], expected [48, 192]"},
        {Publisher::awq, "/version", "gemv", "version: expected \"gemm\", found \"gemv\""},
        {Publisher::awq, "/bits", 8, "bits: expected 4"},
        {Publisher::fp8_blocks, "/fmt", "e5m2", "fmt: expected \"e4m3\""},
        {Publisher::fp8_blocks,
         "/weight_block_size",
         {128, 32},
         "weight_block_size[1]: expected a multiple of 64"},
        {Publisher::fp8_blocks,
         "/weight_block_size",
         {64, 128},
         "weight_scale_inv: shape [2, 2], expected [3, 2]"},
        {Publisher::packed, "/format", "marlin-24", "format: expected \"pack-quantized\""},
        {Publisher::packed, "num_bits", 8, "weights.num_bits: expected 4, of int numbers"},
        {Publisher::packed, "actorder", "group", "actorder: expected \"weight\""},
        {Publisher::packed, "/transform_config", {{"a", 1}}, "transform_config: expected nothing"},
        {Publisher::packed,
         "/sparsity_config",
         {{"format", "sparse-24-bitmask"}},
         "sparsity_config.format: expected \"dense\""}};
    for (const Refusal& refusal : refusals) {
        const MatrixQuantiser quantiser = quantiser_of({refusal.publisher, 64, false, {}});
        const auto opened =
            ModelFolder::open(write(*file, quantiser, "refused", [&](HfFolderWriter& writer) {
                const std::string key = refusal.key;
                const std::string at = key.starts_with('/') ? key : in_group + key;
                writer.config["quantization_config"][Json::json_pointer(at)] = refusal.value;
            }));
        ASSERT_FALSE(opened.ok()) << refusal.error;
        EXPECT_THAT(opened.error().message, HasSubstr(refusal.error));
    }
}

struct TensorEdit {
    Publisher publisher;
    const char* ending;  // of the tensor that is changed
    void (*edit)(std::string& name, const char*& dtype, std::vector<std::int64_t>& shape,
                 std::string& bytes);
    const char* error;
};

TEST_F(QuantisedFolder, TensorsOfWrongShapesAndTypesAreNamed) {
    using Shape = std::vector<std::int64_t>;
    const auto file = synth(small_shape("llama"));
    const TensorEdit edits[] = {
        {Publisher::gptq, "q_proj.qzeros",
         [](std::string& name, const char*&, Shape&, std::string&) { name += "2"; },
         "self_attn.q_proj.qzeros: missing"},
        {Publisher::gptq, "q_proj.scales",
         [](std::string&, const char*& dtype, Shape& shape, std::string&) {
             dtype = "F32";
             shape[1] /= 2;
         },
         "q_proj.scales: expected the dtype F16 or BF16"},
        {Publisher::gptq, "q_proj.scales",
         [](std::string&, const char*&, Shape& shape, std::string&) {
             shape = {shape[0] * shape[1]};
         },
         "q_proj.scales: shape [576], expected groups of a multiple of 32 of the 192 columns"},
        {Publisher::gptq, "q_proj.qweight",
         [](std::string&, const char*&, Shape& shape, std::string&) {
             std::swap(shape[0], shape[1]);
         },
         "q_proj.qweight: shape [192, 24], expected [24, 192]"},
        {Publisher::gptq, "q_proj.g_idx",
         [](std::string&, const char*& dtype, Shape&, std::string&) { dtype = "F32"; },
         "q_proj.g_idx: expected the dtype I32"},
        {Publisher::awq, "k_proj.qzeros",
         [](std::string&, const char*&, Shape& shape, std::string&) {
             std::swap(shape[0], shape[1]);
         },
         "k_proj.qzeros: shape [12, 3], expected [3, 12]"},
        {Publisher::fp8_rows, "k_proj.weight_scale",
         [](std::string&, const char*&, Shape& shape, std::string&) {
             shape = {2, 48};
         },
         "k_proj.weight_scale: shape [2, 48], expected [96, 1]"},
        {Publisher::fp8_tensor, "k_proj.weight_scale",
         [](std::string& name, const char*&, Shape&, std::string&) { name += "_inv_"; },
         "k_proj.weight_scale: missing"},
        {Publisher::packed, "k_proj.weight_packed",
         [](std::string&, const char*& dtype, Shape&, std::string&) { dtype = "F32"; },
         "k_proj.weight_packed: expected the dtype I32"}};
    for (const TensorEdit& edit : edits) {
        const MatrixQuantiser quantiser = quantiser_of({edit.publisher, 64, false, {}});
        const auto opened =
            ModelFolder::open(write(*file, quantiser, "edited", [&](HfFolderWriter& writer) {
                writer.quantise = [&](const std::string& name, const Shape& shape,
                                      const std::string& data, const HfFolderWriter::Put& put) {
                    MatrixQuantiser each = quantiser;
                    return each(
                        name, shape, data,
                        [&](std::string own, const char* dtype, Shape size, std::string bytes) {
                            if (own.ends_with(edit.ending)) edit.edit(own, dtype, size, bytes);
                            put(own, dtype, size, bytes);
                        });
                };
            }));
        ASSERT_FALSE(opened.ok()) << edit.error;
        EXPECT_THAT(opened.error().message, HasSubstr(edit.error));
    }
}

// Without a word about it in config.json nobody knows what the bytes are.
TEST_F(QuantisedFolder, WithoutItsConfigIsRefused) {
    const auto file = synth(small_shape("llama"));
    const auto drop = [](HfFolderWriter& writer) { writer.config.erase("quantization_config"); };
    MatrixQuantiser quantiser;
    quantiser.publisher = Publisher::fp8_tensor;
    EXPECT_THAT(ModelFolder::open(write(*file, quantiser, "fp8", drop)).error().message,
                HasSubstr("dtype F8_E4M3 is not supported, expected F32, F16 or BF16"));
    quantiser.publisher = Publisher::gptq;
    EXPECT_THAT(ModelFolder::open(write(*file, quantiser, "gptq", drop)).error().message,
                HasSubstr("q_proj.weight: missing"));
}

// Columns out of order are seen when a folder is opened that may have such; what only a look at all
// of a tensor shows, when it is loaded.
TEST_F(QuantisedFolder, WeightsThatAreNotWhatTheyShouldBeAreNamed) {
    using Shape = std::vector<std::int64_t>;
    const auto file = synth(small_shape("llama"));
    const auto folder_with = [&](const Form& form, const std::string& ending, std::size_t place,
                                 char byte, bool ordered) {
        const MatrixQuantiser quantiser = quantiser_of(form);
        return ModelFolder::open(write(*file, quantiser, "bytes", [&](HfFolderWriter& writer) {
            if (ordered) writer.config["quantization_config"]["desc_act"] = true;
            writer.quantise = [=](const std::string& name, const Shape& shape,
                                  const std::string& data, const HfFolderWriter::Put& put) {
                MatrixQuantiser each = quantiser;
                return each(name, shape, data,
                            [&](const std::string& own, const char* dtype, const Shape& size,
                                std::string bytes) {
                                if (own.ends_with(ending)) bytes[place] = byte;
                                put(own, dtype, size, bytes);
                            });
            };
        }));
    };
    const Form gptq{Publisher::gptq, 64, false, TensorType::int4};
    EXPECT_TRUE(folder_with(gptq, "none", 0, 0, true).ok());
    const auto ordered = folder_with(gptq, "q_proj.g_idx", 4, 1, true);
    ASSERT_FALSE(ordered.ok());
    EXPECT_THAT(ordered.error().message,
                HasSubstr("q_proj.g_idx: columns are in groups out of order (desc_act, actorder)"));
    const auto load_error = [&](const Form& form, const char* ending, std::size_t place,
                                char byte) {
        const auto folder = folder_with(form, ending, place, byte, false);
        EXPECT_TRUE(folder.ok()) << folder.error().message;
        const auto loaded = (*folder)->tensor("blk.0.attn_q.weight");
        return loaded.ok() ? "no error" : loaded.error().message;
    };
    EXPECT_THAT(load_error(gptq, "q_proj.g_idx", 4, 1),
                HasSubstr("q_proj.g_idx: columns are in groups out of order"));
    EXPECT_THAT(
        load_error({Publisher::fp8_rows, 0, false, TensorType::fp8}, "q_proj.weight", 9, '\xff'),
        HasSubstr("q_proj.weight: a weight is no number"));
    EXPECT_THAT(load_error({Publisher::gptq_8, 64, false, TensorType::q8_0}, "q_proj.qzeros", 3, 5),
                HasSubstr("q_proj.qzeros: a zero of 6, expected 128"));
}

}  // namespace
}  // namespace helix::model::quantised_folder_test

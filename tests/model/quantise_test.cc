#include "model/quantise.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/effort.h"
#include "model/gguf_writer.h"
#include "model/local_weights.h"
#include "model/model_config.h"
#include "model/synth.h"
#include "temporary_folder.h"

namespace helix::model::quantise_test {
namespace {

using test_support::TemporaryFolder;
using ::testing::HasSubstr;

SynthShape small_shape() {
    SynthShape shape;
    shape.name = "q";
    shape.n_layers = 1;
    shape.hidden = 256;
    shape.n_heads = 4;
    shape.n_kv_heads = 2;
    shape.ffn = 256;
    shape.vocab = 400;
    shape.context_length = 64;
    return shape;
}

class Quantise : public ::testing::Test {
  protected:
    std::string synth(const SynthShape& shape, TensorType type) {
        const std::string path = folder_.file("from.gguf");
        SynthOptions options;
        options.path = path;
        options.seed = 5;
        options.threads = 1;
        const base::Status made = synth_model(shape, type, options);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return path;
    }
    std::shared_ptr<WeightSource> open(const std::string& path) {
        auto opened = open_weights(path);
        EXPECT_TRUE(opened.ok()) << opened.error().message;
        return *opened;
    }
    base::Result<QuantiseReport> quantise(const std::string& from, const QuantiseOptions& options,
                                          const QuantiseRun& run) {
        const auto source = open(from);
        TRY(const QuantisePlan plan, plan_quantise(source->file(), options));
        return quantise_model(*source, plan, run);
    }
    std::string message(const std::string& from, const QuantiseOptions& options) {
        const auto plan = plan_quantise(open(from)->file(), options);
        return plan.ok() ? "" : plan.error().message;
    }
    std::map<std::string, std::string> types(const std::string& from,
                                             const QuantiseOptions& options) {
        const auto plan = plan_quantise(open(from)->file(), options);
        EXPECT_TRUE(plan.ok()) << plan.error().message;
        std::map<std::string, std::string> types;
        for (const PlannedTensor& tensor : plan->tensors)
            types[tensor.info.name] = tensor_type_info(tensor.to)->name;
        return types;
    }
    static std::string content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    TemporaryFolder folder_;
};

QuantiseOptions to_type(const std::string& type) {
    QuantiseOptions options;
    options.type = type;
    return options;
}

std::vector<float> values_of(const GgufFile& file, const std::string& name) {
    const TensorInfo& info = *file.find_tensor(name);
    std::vector<float> values(static_cast<std::size_t>(info.row_length() * info.rows()));
    dequantize_row(info.type, file.read(info).value(), values.data());
    return values;
}

TEST_F(Quantise, EveryTypeGivesAModelThatCanBeRunAndIsNear) {
    const std::string from = synth(small_shape(), TensorType::f32);
    const auto source = open(from);
    const std::map<std::string, double> most{
        {"f16", 0.001}, {"bf16", 0.003}, {"q8_0", 0.01},   {"q4_0", 0.1},   {"q4_1", 0.1},
        {"q5_0", 0.05}, {"q5_1", 0.05},  {"q2_k", 0.35},   {"q3_k", 0.2},   {"q4_k", 0.09},
        {"q5_k", 0.05}, {"q6_k", 0.03},  {"iq4_nl", 0.1},  {"iq4_xs", 0.1}, {"iq3_xxs", 0.3},
        {"iq3_s", 0.2}, {"iq2_s", 0.4},  {"iq2_xs", 0.42}, {"iq2_xxs", 0.5}};
    const std::set<std::string> kinds{"f16", "q4_0", "q5_1", "q4_k", "q6_k", "iq4_xs", "iq3_s"};
    for (const auto& [type, error] : most) {
        // One of each kind of search, where sanitizers find the same in all of a kind.
        if (kSanitized && !kinds.contains(type)) continue;
        QuantiseRun run;
        run.output = folder_.file(type + ".gguf");
        const auto report = quantise(from, to_type(type), run);
        ASSERT_TRUE(report.ok()) << report.error().message;
        const auto made = open(run.output);
        const auto config = read_model_config(*made);
        ASSERT_TRUE(config.ok()) << config.error().message;
        EXPECT_EQ(std::filesystem::file_size(run.output), report->file_bytes) << type;
        ASSERT_EQ(report->tensors.size(), 9U) << "seven of the layer, embedding and head";
        for (const QuantisedTensor& tensor : report->tensors) {
            EXPECT_STREQ(tensor_type_info(tensor.type)->name, type.c_str());
            EXPECT_EQ(made->file().find_tensor(tensor.name)->type, tensor.type);
            EXPECT_LT(tensor.error, error) << type << " " << tensor.name;
            EXPECT_GT(tensor.error, error / 10) << type << " " << tensor.name;
            const auto before = values_of(source->file(), tensor.name);
            const auto after = values_of(made->file(), tensor.name);
            double errors = 0;
            double squares = 0;
            for (std::size_t i = 0; i < before.size(); ++i) {
                errors += std::pow(double{before[i]} - double{after[i]}, 2);
                squares += std::pow(double{before[i]}, 2);
            }
            EXPECT_NEAR(tensor.error, std::sqrt(errors / squares), 1e-6) << type;
        }
        EXPECT_EQ(values_of(made->file(), "blk.0.attn_norm.weight"),
                  values_of(source->file(), "blk.0.attn_norm.weight"));
    }
}

TEST_F(Quantise, MetadataStaysByteForByte) {
    const std::string from = synth(small_shape(), TensorType::f32);
    QuantiseRun run;
    run.output = folder_.file("to.gguf");
    ASSERT_TRUE(quantise(from, to_type("q4_k_m"), run).ok());
    std::map<std::string, std::vector<std::byte>> kept;
    const auto made = open(run.output);
    for (const RawEntry& entry : made->file().raw_metadata())
        kept[entry.key] = {entry.value.begin(), entry.value.end()};
    std::size_t same = 0;
    const auto source = open(from);
    for (const RawEntry& entry : source->file().raw_metadata()) {
        if (entry.key == "general.file_type") continue;
        EXPECT_EQ(kept[entry.key], std::vector(entry.value.begin(), entry.value.end()))
            << entry.key;
        ++same;
    }
    EXPECT_EQ(kept.size(), same + 1);
    EXPECT_GT(same, 20U);
    EXPECT_EQ(*made->file().get_int("general.file_type"), 15);
    EXPECT_EQ(*made->file().get_int("general.quantization_version"), 2);
}

TEST_F(Quantise, TheFileDoesNotDependOnThreads) {
    const std::string from = synth(small_shape(), TensorType::bf16);
    for (const char* type : {"q4_k_m", "q3_k", "iq3_xxs", "q4_0"}) {
        QuantiseRun one;
        one.output = folder_.file("one.gguf");
        one.replace = true;
        one.threads = 1;
        QuantiseRun three;
        three.output = folder_.file("three.gguf");
        three.replace = true;
        three.threads = 3;
        ASSERT_TRUE(quantise(from, to_type(type), one).ok());
        ASSERT_TRUE(quantise(from, to_type(type), three).ok());
        EXPECT_TRUE(content(one.output) == content(three.output)) << type;
    }
}

TEST_F(Quantise, MixesAndRulesSayWhichTensorGetsWhat) {
    const std::string from = synth(small_shape(), TensorType::f16);
    auto got = types(from, to_type("Q4_K_M"));
    EXPECT_EQ(got["output.weight"], "q6_k");
    EXPECT_EQ(got["token_embd.weight"], "q4_k");
    EXPECT_EQ(got["blk.0.attn_v.weight"], "q5_k");
    EXPECT_EQ(got["blk.0.ffn_down.weight"], "q5_k");
    EXPECT_EQ(got["blk.0.ffn_up.weight"], "q4_k");
    EXPECT_EQ(got["blk.0.ffn_norm.weight"], "f32");
    QuantiseOptions options = to_type("q3_k");
    options.output_type = "q8_0";
    options.embedding_type = "f16";
    options.rules = {{"blk.*.attn_*", "q5_k"}, {"*attn_q*", "Q6_K"}};
    got = types(from, options);
    EXPECT_EQ(got["output.weight"], "q8_0");
    EXPECT_EQ(got["token_embd.weight"], "f16");
    EXPECT_EQ(got["blk.0.attn_k.weight"], "q5_k");
    EXPECT_EQ(got["blk.0.attn_q.weight"], "q6_k");
    EXPECT_EQ(got["blk.0.ffn_down.weight"], "q3_k");
    SynthShape tied = small_shape();
    tied.tied_embeddings = true;
    got = types(synth(tied, TensorType::f16), to_type("q2_k_m"));
    EXPECT_EQ(got["token_embd.weight"], "q6_k") << "it is the head";
    EXPECT_EQ(got["blk.0.ffn_down.weight"], "q3_k");
}

TEST_F(Quantise, RoutersStayAsTheyAreAndExpertsAreMatrices) {
    SynthShape shape = small_shape();
    shape.n_experts = 4;
    shape.n_experts_used = 2;
    auto got = types(synth(shape, TensorType::f16), to_type("q4_k"));
    EXPECT_EQ(got["blk.0.ffn_gate_inp.weight"], "f32");
    EXPECT_EQ(got["blk.0.ffn_up_exps.weight"], "q4_k");
    shape.architecture = "qwen2moe";
    shape.shared_ffn = 256;
    got = types(synth(shape, TensorType::f16), to_type("q4_k"));
    EXPECT_EQ(got["blk.0.ffn_gate_inp_shexp.weight"], "f32");
    EXPECT_EQ(got["blk.0.ffn_gate_shexp.weight"], "q4_k");
    // The same where a gate is a matrix of one row.
    GgufBuilder builder;
    builder.set("general.architecture", std::string("qwen2moe"));
    builder.add_tensor("blk.0.ffn_gate_inp_shexp.weight", TensorType::f16, {256, 1});
    const auto plan =
        plan_quantise(**GgufFile::from_header(builder.header(), "m.gguf"), to_type("q4_k"));
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->tensors[0].to, TensorType::f16);
}

TEST_F(Quantise, ShortRowsGetATypeThatFitsThem) {
    SynthShape shape = small_shape();
    shape.ffn = 480;
    const std::string from = synth(shape, TensorType::f16);
    for (const auto& [type, stands_in] : std::map<std::string, std::string>{
             {"q4_k", "q5_0"}, {"q6_k", "q8_0"}, {"q5_k", "q5_1"}, {"q2_k", "iq4_nl"}}) {
        const auto plan = plan_quantise(open(from)->file(), to_type(type));
        ASSERT_TRUE(plan.ok());
        for (const PlannedTensor& tensor : plan->tensors) {
            const bool is_short = tensor.info.name == "blk.0.ffn_down.weight";
            EXPECT_EQ(tensor.asked.has_value(), is_short) << tensor.info.name;
            if (is_short) {
                EXPECT_EQ(tensor_type_info(tensor.to)->name, stands_in);
            }
        }
    }
    QuantiseOptions options = to_type("q4_k");
    options.rules = {{"*ffn_down*", "q4_k"}};
    EXPECT_THAT(message(from, options),
                HasSubstr("blk.0.ffn_down.weight: rows of 480 elements, q4_k needs a multiple of"));
}

TEST_F(Quantise, WhatCannotBeIsRefusedByName) {
    const std::string from = synth(small_shape(), TensorType::f16);
    EXPECT_THAT(message(from, to_type("q9_k")), HasSubstr("type \"q9_k\" is unknown; known: f32"));
    for (const char* type : {"iq1_s", "iq1_m", "tq1_0", "tq2_0", "mxfp4", "nvfp4", "fp8", "int4"})
        EXPECT_THAT(message(from, to_type(type)), HasSubstr(std::string("type ") + type));
    QuantiseOptions options = to_type("q4_k");
    options.rules = {{"blk.7.*", "q6_k"}};
    EXPECT_THAT(message(from, options), HasSubstr("no matrix is called \"blk.7.*\""));
    options.rules = {{"*_norm.weight", "q6_k"}};
    EXPECT_THAT(message(from, options), HasSubstr("no matrix is called \"*_norm.weight\""));
    options.rules = {{"*", "q9"}};
    EXPECT_THAT(message(from, options), HasSubstr("type \"q9\" is unknown"));
}

TEST_F(Quantise, QuantisesQuantisedMatricesOnlyWhenAsked) {
    const std::string from = synth(small_shape(), TensorType::q8_0);
    QuantiseOptions options = to_type("q4_0");
    EXPECT_THAT(message(from, options), HasSubstr("is q8_0 already"));
    options.allow_requantise = true;
    EXPECT_EQ(message(from, options), "");
    // To the type that they have they are copied.
    QuantiseRun run;
    run.output = folder_.file("same.gguf");
    const auto report = quantise(from, to_type("q8_0"), run);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->tensors.empty());
    EXPECT_TRUE(content(run.output) == content(from));
    const std::string nvfp4 = synth(small_shape(), TensorType::nvfp4);
    EXPECT_THAT(message(nvfp4, options), HasSubstr("is nvfp4, whose factors no other type has"));
}

TEST_F(Quantise, WritesOverNothingUnasked) {
    const std::string from = synth(small_shape(), TensorType::f16);
    const std::string before = content(from);
    QuantiseRun run;
    run.output = folder_.file("there.gguf");
    std::ofstream(run.output) << "mine";
    auto report = quantise(from, to_type("q4_0"), run);
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message, HasSubstr("there.gguf: is there already; --force"));
    EXPECT_EQ(content(run.output), "mine");
    run.replace = true;
    EXPECT_TRUE(quantise(from, to_type("q4_0"), run).ok());
    for (const std::string& self : {from, folder_.file("link.gguf")}) {
        if (self != from) std::filesystem::create_hard_link(from, self);
        run.output = self;
        report = quantise(from, to_type("q4_0"), run);
        ASSERT_FALSE(report.ok());
        EXPECT_THAT(report.error().message, HasSubstr("is the model itself"));
    }
    EXPECT_TRUE(content(from) == before);
}

// A file of one matrix with a value of ours in it.
std::string file_with(const TemporaryFolder& folder, float value) {
    const std::string path = folder.file("value.gguf");
    GgufBuilder builder;
    builder.set("general.architecture", std::string("llama"));
    builder.add_tensor("blk.0.ffn_up.weight", TensorType::f32, {256, 3});
    std::vector<float> values(256 * 3, 0.5F);
    values[300] = value;
    auto out = GgufOutput::create(path, builder);
    EXPECT_TRUE(out.ok() && (*out)->append(std::as_bytes(std::span(values))).ok() &&
                (*out)->finish().ok());
    return path;
}

TEST_F(Quantise, ValuesThatNoTypeHoldsAreToldWithTheirTensor) {
    QuantiseRun run;
    run.output = folder_.file("to.gguf");
    for (const char* type : {"q4_k", "q8_0", "f16", "iq3_s"}) {
        auto report = quantise(file_with(folder_, std::numeric_limits<float>::quiet_NaN()),
                               to_type(type), run);
        ASSERT_FALSE(report.ok()) << type;
        EXPECT_THAT(report.error().message,
                    HasSubstr("blk.0.ffn_up.weight: has values that are no numbers"));
        EXPECT_FALSE(std::filesystem::exists(run.output));
        EXPECT_FALSE(std::filesystem::exists(run.output + ".part"));
        report = quantise(file_with(folder_, 1e6F), to_type(type), run);
        ASSERT_FALSE(report.ok()) << type;
        EXPECT_THAT(report.error().message, HasSubstr("has values that are too large for"));
    }
}

TEST_F(Quantise, AnImportanceMatrixBringsErrorsToWhereTheyMatterLess) {
    const std::string from = synth(small_shape(), TensorType::f32);
    ImportanceMatrix importance;
    std::vector<float> sums(256, 1.0F);
    for (std::size_t i = 0; i < 32; ++i) sums[8 * i] = 400.0F;
    for (const char* name : {"blk.0.attn_q.weight", "blk.0.ffn_up.weight"})
        importance.tensors[name] = {sums, {1.0F}};
    importance.datasets = {"words"};
    importance.chunks = 3;
    const auto error_of = [&](const GgufFile& file, bool important) {
        const auto before = values_of(open(from)->file(), "blk.0.ffn_up.weight");
        const auto after = values_of(file, "blk.0.ffn_up.weight");
        double sum = 0;
        for (std::size_t i = 0; i < before.size(); ++i) {
            if ((i % 8 == 0) == important) sum += std::pow(double{before[i]} - double{after[i]}, 2);
        }
        return sum;
    };
    QuantiseRun run;
    run.output = folder_.file("even.gguf");
    ASSERT_TRUE(quantise(from, to_type("q4_k"), run).ok());
    const auto even = open(run.output);
    run.output = folder_.file("weighed.gguf");
    run.importance = &importance;
    run.importance_path = "/some/where/words.imatrix";
    const auto report = quantise(from, to_type("q4_k"), run);
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto weighed = open(run.output);
    EXPECT_LT(error_of(weighed->file(), true), 0.6 * error_of(even->file(), true));
    EXPECT_GT(error_of(weighed->file(), false), error_of(even->file(), false));
    EXPECT_EQ(report->unweighed.size(), 6U) << "all but two of the layer's seven, and the head";
    for (const QuantisedTensor& tensor : report->tensors)
        EXPECT_EQ(tensor.weighed, importance.tensors.contains(tensor.name)) << tensor.name;
    EXPECT_EQ(*weighed->file().get_string("quantize.imatrix.file"), "words.imatrix");
    EXPECT_EQ(*weighed->file().get_string("quantize.imatrix.dataset"), "words");
    EXPECT_EQ(*weighed->file().get_int("quantize.imatrix.entries_count"), 2);
    EXPECT_EQ(*weighed->file().get_int("quantize.imatrix.chunks_count"), 3);
}

TEST_F(Quantise, AnImportanceMatrixOfAnotherModelIsRefused) {
    const std::string from = synth(small_shape(), TensorType::f32);
    ImportanceMatrix importance;
    QuantiseRun run;
    run.output = folder_.file("to.gguf");
    run.importance = &importance;
    run.importance_path = "other.imatrix";
    importance.tensors["blk.9.attn_q.weight"] = {std::vector<float>(256, 1.0F), {1.0F}};
    auto report = quantise(from, to_type("q4_k"), run);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().message, "other.imatrix: names none of the model's matrices");
    importance.tensors["blk.0.attn_q.weight"] = {std::vector<float>(128, 1.0F), {1.0F}};
    report = quantise(from, to_type("q4_k"), run);
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message,
                HasSubstr("other.imatrix: tensor blk.0.attn_q.weight: 128 sums"));
    EXPECT_FALSE(std::filesystem::exists(run.output));
}

}  // namespace
}  // namespace helix::model::quantise_test

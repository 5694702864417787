// The registry of backends, and what their providers say of themselves.

#include "engine/backends.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "model/model_config.h"
#include "model/weight_source.h"
#include "op_helpers.h"
#include "synth_file.h"

namespace helix::engine::test::backends_test {
namespace {

std::string error_of(const char* kind, const BackendOptions& options) {
    const auto made = make_backend_provider(kind, options);
    return made.ok() ? "" : made.error().message;
}

TEST(Backends, HaveNamesOfTheirOwnAndTheFirstNeedsNoOptions) {
    std::set<std::string> names;
    for (const BackendKind& kind : backend_kinds()) EXPECT_TRUE(names.insert(kind.name).second);
    const auto first = make_backend_provider(backend_kinds().front().name, {});
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_EQ((*first)->name(), backend_kinds().front().name);
    const DeviceMemory memory = (*first)->memory();
    EXPECT_GT(memory.offered_bytes, 0);
    EXPECT_LE(memory.offered_bytes, memory.free_bytes);
    EXPECT_EQ(backend_kinds_help(),
              "cpu, vulkan: a GPU, or modelled: real protocol, modelled time");
}

TEST(Backends, WhatTheyCannotDoIsAnErrorThatNamesTheOption) {
    EXPECT_EQ(error_of("gpu", {}), "--backend: 'gpu' is neither cpu nor vulkan nor modelled");
    EXPECT_EQ(error_of("vulkan", {.ranks = 2}),
              "--tp: each of 2 ranks of --backend vulkan is a device, as in --device "
              "vulkan:0+vulkan:1; 0 are named");
    EXPECT_EQ(error_of("cpu", {.cpus = "3-x"}).substr(0, 8), "--cpus: ");
    EXPECT_EQ(error_of("modelled", {.ranks = 2}), "--tp: --backend modelled has no ranks");
    EXPECT_EQ(error_of("modelled", {}),
              "--backend modelled needs --profiles DIR, --profile MODEL and --type");
    EXPECT_EQ(
        error_of("modelled", {.type = "T4", .profiles = "d", .profile = "m", .time_scale = 0}),
        "--time-scale: expected a number above 0");
}

class CpuKind : public testing::Test {
  protected:
    CpuKind() : file_(shape(), TensorType::q8_0) {
        std::shared_ptr<model::WeightSource> weights = *model::open_weights(file_.path());
        request_.model = *model::read_model_spec(weights->file());
        request_.block_size = 16;
        request_.kv_type = "f16";
        request_.memory_bytes = 64 << 20;
        request_.threads = 2;
        request_.weights = [weights] { return weights; };
        config_ = *model::read_model_config(*weights);
    }

    static model::SynthShape shape() {
        model::SynthShape shape;
        shape.name = "backends";
        shape.n_layers = kLayers;
        shape.hidden = 96;
        shape.n_heads = 6;
        shape.n_kv_heads = 2;
        shape.ffn = 160;
        shape.vocab = kVocab;
        shape.context_length = 512;
        return shape;
    }

    SynthFile file_;
    BackendRequest request_;
    model::ModelConfig config_;
};

TEST_F(CpuKind, MeasuresALayerAndMakesWhatRunsTheModel) {
    const auto cpu = *make_backend_provider("cpu", {.ranks = 2});
    EXPECT_EQ(cpu->ranks(), 2);
    const auto profile = cpu->profile(request_);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_GT(profile->decode_s_per_layer, 0);
    EXPECT_GT(profile->decode_batch_s_per_layer, 0);
    EXPECT_GT(profile->prefill_s_per_token_layer, 0);
    const auto backend = cpu->make(request_);
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    const auto pages = (*backend)->load({0, kLayers});
    ASSERT_TRUE(pages.ok()) << pages.error().message;
    EXPECT_GT(*pages, 0);
    EXPECT_EQ((*backend)->compute_threads(), 2);
}

TEST_F(CpuKind, RanksThatDoNotSuitTheModelAreAnError) {
    const auto cpu = *make_backend_provider("cpu", {.ranks = 3});
    const auto checked = cpu->check(config_, 4);
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().message,
              "3 tensor parallel ranks cannot share the model's 2 key-value heads evenly");
    EXPECT_TRUE((*make_backend_provider("cpu", {.ranks = 2}))->check(config_, 4).ok());
}

TEST_F(CpuKind, AnUnknownKvTypeIsAnErrorThatNamesIt) {
    request_.kv_type = "q3";
    const auto profile = (*make_backend_provider("cpu", {}))->profile(request_);
    ASSERT_FALSE(profile.ok());
    EXPECT_EQ(profile.error().code, base::Errc::invalid);
    EXPECT_EQ(profile.error().message, "KV cache type 'q3': expected f16, bf16, f32 or q8");
}

}  // namespace
}  // namespace helix::engine::test::backends_test

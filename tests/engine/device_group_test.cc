// Several devices as one: the bits of one CPU device, on CPU devices and on Vulkan devices, with
// pages that move between them and a worker of one device.

#include "engine/device/device_group.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runner/model_runner.h"
#include "engine/vulkan/vulkan_device.h"
#include "engine/vulkan/vulkan_provider.h"
#include "model/local_weights.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::device_group_test {
namespace {

using spec::LayerRange;
using spec::Token;

constexpr LayerRange kAll{0, kLayers};
constexpr std::int32_t kBlock = 5;

struct Case {
    const char* name;
    int ranks;
    TensorType type;
    ops::KvType kv_type;
    bool vulkan;
    void (*change)(model::SynthShape& shape);
};

void leave(model::SynthShape& /*shape*/) {}
void with_experts(model::SynthShape& s) {
    s.architecture = "qwen3moe";
    s.n_experts = 6;
    s.n_experts_used = 3;
    s.ffn = 64;
}
// So many that their scores are divided, too.
void with_many_experts(model::SynthShape& s) {
    with_experts(s);
    s.n_experts = 40;
}
void with_bias(model::SynthShape& s) {
    s.architecture = "qwen2";
    s.tied_embeddings = true;
    s.sliding_window = 7;
    s.vocab = 397;  // not the same number for each rank
}
// A rank's keys are fewer than what is worth dividing.
void with_small_heads(model::SynthShape& s) {
    s.hidden = 96;
    s.n_heads = 16;
}

void as_gemma2(model::SynthShape& s) {
    s.architecture = "gemma2";
    s.sliding_window = 7;
    s.attention_softcap = 2;
    s.logit_softcap = 3;
}
void as_olmo2(model::SynthShape& s) {
    s.architecture = "olmo2";
}
void as_command_r_plus(model::SynthShape& s) {
    s.architecture = "command-r";
    s.logit_scale = 0.25F;
}
void as_nemotron(model::SynthShape& s) {
    s.architecture = "nemotron";
}
void as_cohere2(model::SynthShape& s) {
    s.architecture = "cohere2";
    s.sliding_window = 7;
    s.logit_scale = 0.25F;
}
// Dense layers and such with many experts, a bias for their choice, and one that all rows visit.
void as_glm4moe(model::SynthShape& s) {
    with_many_experts(s);
    s.architecture = "glm4moe";
    s.n_dense_layers = 1;
    s.dense_ffn = 192;
    s.shared_ffn = 64;
    s.selection_bias = true;
    s.n_expert_groups = 4;
    s.n_expert_groups_used = 3;
}

// Each rank computes the only score of the expert that all rows visit.
void as_qwen2moe(model::SynthShape& s) {
    with_many_experts(s);
    s.architecture = "qwen2moe";
    s.shared_ffn = 96;
}

void as_gpt_oss(model::SynthShape& s) {
    with_experts(s);
    s.architecture = "gpt-oss";
    s.sliding_window = 7;
}

void as_gemma4(model::SynthShape& s) {
    with_many_experts(s);
    share_gemma4(s);
    s.dense_ffn = 96;
    s.keys_are_values = true;
    s.logit_softcap = 3;
}

// Experts in every second layer, which get weighted rows; chunks, and a temperature.
void as_llama4(model::SynthShape& s) {
    with_many_experts(s);
    s.architecture = "llama4";
    s.expert_period = 2;
    s.dense_ffn = 192;
    s.shared_ffn = 64;
    s.sliding_window = 7;
    s.temperature_length = 5;
}

constexpr Case kCases[] = {
    {"two_cpus", 2, TensorType::q8_0, ops::KvType::f16, false, leave},
    {"four_cpus_small_heads", 4, TensorType::f32, ops::KvType::q8, false, with_small_heads},
    {"two_cpus_bias", 2, TensorType::q4_0, ops::KvType::bf16, false, with_bias},
    {"two_cpus_experts", 2, TensorType::fp8, ops::KvType::q8, false, with_experts},
    {"two_cpus_many_experts", 2, TensorType::q8_0, ops::KvType::f16, false, with_many_experts},
    {"two_cpus_gemma2", 2, TensorType::q8_0, ops::KvType::f16, false, as_gemma2},
    {"two_cpus_olmo2", 2, TensorType::int4, ops::KvType::f16, false, as_olmo2},
    {"two_cpus_command_r_plus", 2, TensorType::q8_0, ops::KvType::f16, false, as_command_r_plus},
    {"two_cpus_nemotron", 2, TensorType::q8_0, ops::KvType::f16, false, as_nemotron},
    {"two_cpus_cohere2", 2, TensorType::q8_0, ops::KvType::f16, false, as_cohere2},
    {"two_cpus_glm4moe", 2, TensorType::nvfp4, ops::KvType::f16, false, as_glm4moe},
    {"two_cpus_qwen2moe", 2, TensorType::q8_0, ops::KvType::f16, false, as_qwen2moe},
    {"two_vulkan_qwen2moe", 2, TensorType::q8_0, ops::KvType::f16, true, as_qwen2moe},
    {"two_cpus_gpt_oss", 2, TensorType::mxfp4, ops::KvType::f16, false, as_gpt_oss},
    {"two_cpus_gemma4", 2, TensorType::q8_0, ops::KvType::q8, false, as_gemma4},
    {"two_cpus_gemma4_e", 2, TensorType::q8_0, ops::KvType::f16, false, share_gemma4_e},
    {"two_vulkan_gemma4_e", 2, TensorType::q8_0, ops::KvType::f16, true, share_gemma4_e},
    {"two_cpus_llama4", 2, TensorType::q8_0, ops::KvType::f16, false, as_llama4},
    {"two_vulkan_gemma2", 2, TensorType::q8_0, ops::KvType::f16, true, as_gemma2},
    {"one_vulkan", 1, TensorType::q8_0, ops::KvType::f16, true, leave},
    {"two_vulkan", 2, TensorType::q4_0, ops::KvType::q8, true, with_bias},
    {"four_vulkan", 4, TensorType::q8_0, ops::KvType::f16, true, leave},
    {"two_vulkan_experts", 2, TensorType::q8_0, ops::KvType::f32, true, with_experts},
};

model::SynthShape shape_of(const Case& one) {
    model::SynthShape shape;
    shape.name = one.name;
    shape.n_layers = kLayers;
    shape.hidden = 128;
    shape.n_heads = 8;
    shape.n_kv_heads = 4;
    shape.ffn = 160;
    shape.vocab = kVocab;
    shape.context_length = 512;
    one.change(shape);
    return shape;
}

class DeviceGroups : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (!GetParam().vulkan) return;
        auto instance = VulkanInstance::create();
        if (!instance.ok()) GTEST_SKIP() << instance.error().message;
        if ((*instance)->devices().empty()) GTEST_SKIP() << "no Vulkan device";
        instance_ = *instance;
    }

    static CpuOptions cpu_options() {
        CpuOptions options = test_options(kBlock, 1);
        options.kv_type = GetParam().kv_type;
        options.swap_bytes = 4 << 20;
        return options;
    }
    static Runner single(const SynthFile& file, LayerRange layers = kAll) {
        return make_runner(file, layers, cpu_options(), 1);
    }

    // The same device as many times as there are ranks.
    base::Result<std::unique_ptr<Device>> open(const model::ModelConfig& config) {
        if (GetParam().vulkan) return VulkanDevice::create(instance_, {"0", 1});
        return CpuDevice::create({.threads = 1, .cpus = {}, .ranks = 1, .isa = {}}, config);
    }
    Runner grouped(const SynthFile& file, LayerRange layers = kAll) {
        auto weights = model::LocalWeights::open(file.path());
        CHECK(weights.ok());
        auto config = model::read_model_config(**weights);
        CHECK(config.ok());
        std::vector<std::unique_ptr<Device>> devices;
        for (int rank = 0; rank < GetParam().ranks; ++rank) {
            auto device = open(*config);
            CHECK(device.ok());
            devices.push_back(std::move(*device));
        }
        RunnerOptions options;
        options.memory_bytes = 64 << 20;
        options.swap_bytes = 4 << 20;
        options.block_size = kBlock;
        options.kv_type = GetParam().kv_type;
        auto backend =
            ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(*weights)), *config,
                                std::make_unique<DeviceGroup>(std::move(devices)), options);
        CHECK(backend.ok());
        return Runner(std::move(*backend), layers, kBlock, 2);
    }

  private:
    std::shared_ptr<const VulkanInstance> instance_;
};
// No sanitizer sees what a device computes: there, one group of devices is enough.
std::vector<Case> cases() {
    return cases_or_few(
        kCases,
        {"four_cpus_small_heads", "two_cpus_bias", "two_cpus_many_experts", "two_cpus_gemma2",
         "two_cpus_gemma4", "two_cpus_glm4moe", "two_cpus_gpt_oss", "two_vulkan_experts"},
        [](const Case& one) { return one.name; });
}

INSTANTIATE_TEST_SUITE_P(Cases, DeviceGroups, testing::ValuesIn(cases()),
                         [](const auto& given) { return given.param.name; });

// A bias is whole on every rank, and once more in the parts that they add it from.
TEST(DeviceGroupBuffers, CountAsOftenAsTheyAreHeld) {
    const SynthFile file(shape_of(kCases[0]), TensorType::f32);
    const auto weights = model::LocalWeights::open(file.path());
    ASSERT_TRUE(weights.ok());
    const auto config = model::read_model_config(**weights);
    ASSERT_TRUE(config.ok());
    std::vector<std::unique_ptr<Device>> devices;
    for (int rank = 0; rank < 3; ++rank) {
        auto device = CpuDevice::create({.threads = 1, .cpus = {}, .ranks = 1, .isa = {}}, *config);
        ASSERT_TRUE(device.ok());
        devices.push_back(std::move(*device));
    }
    EXPECT_EQ(DeviceGroup(std::move(devices)).buffer_bytes(100), 4 * 400);
}

// Random chunks and batches, with all pages moved by copies and swaps in between.
TEST_P(DeviceGroups, GiveTheBitsOfOneDevice) {
    const SynthFile file(shape_of(GetParam()), GetParam().type);
    base::Random random(171);
    Runner one = single(file);
    Runner all = grouped(file);
    ASSERT_EQ(one.backend().kv_page_bytes(), all.backend().kv_page_bytes());
    const auto hidden = static_cast<std::size_t>(one.hidden());
    std::vector<std::vector<Token>> sequences;
    std::vector<PieceResult> expected;
    for (std::size_t s = 0; s < 2; ++s) {
        sequences.push_back(random_tokens(random, 19 + 12 * s));
        for (Token& token : sequences.back()) token %= shape_of(GetParam()).vocab;
        expected.push_back(must_run(one, {piece_of(s, kAll, 0, sequences[s])})[0]);
    }
    std::vector<std::size_t> done(sequences.size(), 0);
    while (!all_done(sequences, done)) {
        const auto pieces = next_pieces(sequences, done, kAll, 0.2, random);
        const auto results = must_run(all, pieces);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const std::size_t s = pieces[i].request;
            const std::size_t n = pieces[i].tokens.size();
            const auto rows = std::span(expected[s].output).subspan(done[s] * hidden, n * hidden);
            done[s] += n;
            ASSERT_TRUE(same_bits(results[i].output, rows)) << "sequence " << s << ", " << done[s];
            if (done[s] < sequences[s].size()) continue;
            ASSERT_EQ(results[i].token.token, expected[s].token.token);
            ASSERT_EQ(results[i].token.top, expected[s].token.top);
        }
        if (random.chance(0.5)) {
            ASSERT_TRUE(all.shuffle_pages().ok());
        }
    }
}

// From what rows are reduced to, each rank its part of the vocabulary, and from whole rows.
TEST_P(DeviceGroups, DrawAsOneDeviceDoes) {
    const SynthFile file(shape_of(GetParam()), GetParam().type);
    Runner one = single(file);
    Runner all = grouped(file);
    std::uint64_t request = 0;
    for (const bool logprobs : {false, true}) {
        std::vector<Piece> pieces;
        for (const std::int32_t top_k : {0, 1, 20, 128}) {
            for (const float temperature : {0.0F, 1.0F}) {
                Piece piece = piece_of(++request, kAll, 0, {5, 7, 11});
                piece.sampling.temperature = temperature;
                piece.sampling.top_k = top_k;
                piece.sampling.n_logprobs = logprobs ? 5 : -1;
                if (top_k == 20) piece.sampling.logit_bias = {{3, 2.0F}, {390, 4.0F}};
                pieces.push_back(std::move(piece));
            }
        }
        const auto expected = must_run(one, pieces);
        const auto got = must_run(all, pieces);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            EXPECT_EQ(got[i].token.token, expected[i].token.token) << "request " << i;
            EXPECT_EQ(got[i].token.logprob, expected[i].token.logprob) << "request " << i;
            EXPECT_EQ(got[i].token.top, expected[i].token.top) << "request " << i;
            EXPECT_EQ(got[i].token.top.size(), logprobs ? 5U : 0U);
        }
    }
}

std::vector<std::byte> pages_out(Runner& from, std::int32_t layer) {
    const std::vector<core::PageId>& pages = from.pages(1, layer);
    std::vector<std::byte> bytes(pages.size() *
                                 static_cast<std::size_t>(from.backend().kv_page_bytes()));
    EXPECT_TRUE(from.backend().read_pages(pages, bytes).ok());
    return bytes;
}

void move_kv(Runner& from, Runner& to) {
    to.take_pages(1, kAll, from.pages(1, 0).size());
    for (std::int32_t layer = 0; layer < kLayers; ++layer) {
        const std::vector<std::byte> bytes = pages_out(from, layer);
        ASSERT_TRUE(to.backend().write_pages(to.pages(1, layer), bytes).ok());
        ASSERT_EQ(pages_out(to, layer), bytes);
    }
}

// A request decodes, and every few tokens what decodes is another worker.
TEST_P(DeviceGroups, RequestsMoveToThemAndBack) {
    const SynthFile file(shape_of(GetParam()), GetParam().type);
    Runner whole = single(file);
    Runner one = single(file);
    Runner all = grouped(file);
    ASSERT_EQ(one.backend().kv_format(), all.backend().kv_format());
    base::Random random(172);
    std::vector<Token> tokens = random_tokens(random, 12);
    for (Token& token : tokens) token %= shape_of(GetParam()).vocab;
    std::int32_t at = 0;
    Runner* here = &one;
    Runner* there = &all;
    for (int step = 0; step < 7; ++step) {
        const auto right = must_run(whole, {piece_of(1, kAll, at, tokens)});
        const auto got = must_run(*here, {piece_of(1, kAll, at, tokens)});
        ASSERT_TRUE(same_bits(got[0].output, right[0].output)) << "step " << step;
        ASSERT_EQ(got[0].token.token, right[0].token.token) << "step " << step;
        ASSERT_EQ(got[0].token.top, right[0].token.top) << "step " << step;
        at += static_cast<std::int32_t>(tokens.size());
        tokens = {right[0].token.token};
        if (step % 2 == 1) continue;
        there->free_sequence(1);
        move_kv(*here, *there);
        std::swap(here, there);
    }
}

std::string refusal(const BackendOptions& options) {
    const auto made = VulkanProvider::create(options);
    return made.ok() ? "" : made.error().message;
}

TEST(VulkanRanks, AreAsManyAsTheDevicesThatAreNamed) {
    EXPECT_EQ(refusal({.ranks = 2}),
              "--tp: each of 2 ranks of --backend vulkan is a device, as in --device "
              "vulkan:0+vulkan:1; 0 are named");
    EXPECT_EQ(refusal({.ranks = 3, .devices = {"0", "1"}}),
              "--tp: each of 3 ranks of --backend vulkan is a device, as in --device "
              "vulkan:0+vulkan:1; 2 are named");
    const auto instance = VulkanInstance::create();
    if (!instance.ok() || (*instance)->devices().empty()) GTEST_SKIP() << "no Vulkan device";
    EXPECT_NE(refusal({.devices = {"0", "9"}}).find("no Vulkan device '9'"), std::string::npos);
    if (!(*instance)->devices()[0].software) {
        EXPECT_EQ(refusal({.devices = {"0", "0"}}), "--device: vulkan:0 is named twice");
    }
}

VulkanDeviceInfo card(int index, const char* name, bool software) {
    VulkanDeviceInfo info;
    info.index = index;
    info.name = name;
    info.driver = "d 1";
    info.software = software;
    return info;
}

TEST(VulkanRanks, AreOfOneKindAndNamedOnce) {
    const VulkanDeviceInfo same[] = {card(0, "a", false), card(1, "a", false)};
    EXPECT_TRUE(check_ranks_of(same).ok());
    const VulkanDeviceInfo unlike[] = {card(0, "a", false), card(1, "b", false)};
    EXPECT_EQ(check_ranks_of(unlike).error().message,
              "--device: vulkan:0 (a, d 1) and vulkan:1 (b, d 1) are not of one kind, and cannot "
              "be one worker; each can be a worker of its own");
    const VulkanDeviceInfo twice[] = {card(1, "a", false), card(1, "a", false)};
    EXPECT_EQ(check_ranks_of(twice).error().message, "--device: vulkan:1 is named twice");
    const VulkanDeviceInfo software[] = {card(0, "s", true), card(0, "s", true)};
    EXPECT_TRUE(check_ranks_of(software).ok());
}

TEST(VulkanRanks, DivideTheModelsHeads) {
    const auto two = VulkanProvider::create({.ranks = 2, .devices = {"0", "0"}});
    if (!two.ok()) GTEST_SKIP() << two.error().message;
    EXPECT_EQ((*two)->ranks(), 2);
    EXPECT_LE((*two)->memory().offered_bytes, (*two)->memory().free_bytes);
    model::ModelConfig config;
    config.n_kv_heads = 4;
    EXPECT_TRUE((*two)->check(config, 1).ok());
    config.n_kv_heads = 3;
    EXPECT_EQ((*two)->check(config, 1).error().message,
              "2 tensor parallel ranks cannot share the model's 3 key-value heads evenly");
}

}  // namespace
}  // namespace helix::engine::test::device_group_test

// Whole models on a Vulkan device: the CPU device's tokens, log-probabilities and activations, bit
// for bit; also where a pipeline has workers of both kinds and pages travel between them.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/effort.h"
#include "checked_vulkan.h"
#include "engine/runner/model_runner.h"
#include "engine/vulkan/vulkan_device.h"
#include "model/local_weights.h"
#include "op_helpers.h"
#include "runner.h"
#include "synth_file.h"

namespace helix::engine::test::vulkan_model_test {
namespace {

using spec::Token;

constexpr std::int32_t kBlock = 5;

struct Case {
    SynthKind kind;
    TensorType weights;
    ops::KvType kv_type;
};
constexpr Case kCases[] = {
    {{"qwen2_window",
      [](model::SynthShape& s) {
          s.architecture = "qwen2";
          s.sliding_window = 7;
      }},
     TensorType::q8_0,
     ops::KvType::f16},
    {kQwen2Moe, TensorType::q8_0, ops::KvType::f16},
    {kQwen3Moe, TensorType::q4_0, ops::KvType::q8},
    {kSmolLm3, TensorType::q8_0, ops::KvType::f16},
    {kOlmo3, TensorType::q8_0, ops::KvType::f16},
    {kGlm4, TensorType::q4_0, ops::KvType::f16},
    {kPhi4, TensorType::q8_0, ops::KvType::f16},
    {kGranite, TensorType::q8_0, ops::KvType::f16},
    {kCommandRPlus, TensorType::q8_0, ops::KvType::f16},
    {kNemotron, TensorType::q8_0, ops::KvType::f16},
    {kCohere2, TensorType::q8_0, ops::KvType::f16},
    {kGemma2, TensorType::q8_0, ops::KvType::f16},
    {kGemma3, TensorType::q8_0, ops::KvType::f16},
    {kGemma4, TensorType::q8_0, ops::KvType::q8},
    {kGemma4Moe, TensorType::q8_0, ops::KvType::f16},
    {kGemma4E, TensorType::q8_0, ops::KvType::f16},
    {kGlm4Moe, TensorType::q8_0, ops::KvType::f16},
    {kGlm4MoeGroups, TensorType::q8_0, ops::KvType::f16},
    {kGptOss, TensorType::mxfp4, ops::KvType::f16},
    {kLlama4, TensorType::q8_0, ops::KvType::f16},
    {kLlama4Sparse, TensorType::q4_0, ops::KvType::f16},
};

class VulkanModel : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        auto instance = VulkanInstance::create();
        if (!instance.ok()) GTEST_SKIP() << instance.error().message;
        if ((*instance)->devices().empty()) GTEST_SKIP() << "no Vulkan device";
        instance_ = *instance;
    }

    static Runner on_cpu(const SynthFile& file, spec::LayerRange layers) {
        CpuOptions options = test_options(kBlock, 2);
        options.kv_type = GetParam().kv_type;
        return make_runner(file, layers, options, 1);
    }

    Runner on_vulkan(const SynthFile& file, spec::LayerRange layers) {
        auto weights = model::LocalWeights::open(file.path());
        CHECK(weights.ok());
        auto config = model::read_model_config(**weights);
        CHECK(config.ok());
        auto device = VulkanDevice::create(instance_, {.device = "0", .threads = 1});
        CHECK(device.ok());
        device_ = static_cast<VulkanDevice*>(device->get());
        RunnerOptions options;
        options.memory_bytes = 64 << 20;
        options.block_size = kBlock;
        options.kv_type = GetParam().kv_type;
        options.swap_bytes = 1 << 20;
        auto backend =
            ModelRunner::create(std::shared_ptr<model::WeightSource>(std::move(*weights)), *config,
                                std::move(*device), options);
        CHECK(backend.ok());
        return Runner(std::move(*backend), layers, kBlock, 2);
    }

    VulkanDevice* device_ = nullptr;  // of the last runner on Vulkan

  private:
    std::shared_ptr<const VulkanInstance> instance_;
};
const char* name_of(const Case& one) {
    return one.kind.name;
}
std::string case_name(const testing::TestParamInfo<Case>& given) {
    return name_of(given.param);
}

// No sanitizer sees what a device computes, and what its host does is alike for all. Experts on a
// device are in device_group_test.cc, too, which a sanitizer looks at, and what some families have
// besides in the tests of its operators.
std::vector<Case> cases() {
    return cases_or_few(kCases, {"gemma2"}, name_of);
}
INSTANTIATE_TEST_SUITE_P(Cases, VulkanModel, testing::ValuesIn(cases()), case_name);

void expect_same(const PieceResult& got, const PieceResult& right, int step) {
    EXPECT_TRUE(same_bits(got.output, right.output)) << "step " << step;
    ASSERT_EQ(got.token.token, right.token.token) << "step " << step;
    ASSERT_EQ(got.token.top.size(), right.token.top.size()) << "step " << step;
    for (std::size_t i = 0; i < got.token.top.size(); ++i) {
        ASSERT_EQ(got.token.top[i].token, right.token.top[i].token) << "step " << step;
        ASSERT_EQ(got.token.top[i].logprob, right.token.top[i].logprob) << "step " << step;
    }
}

// Two sequences: the first decodes while the second's prompt comes in pieces beside it.
TEST_P(VulkanModel, SaysWhatTheCpuSays) {
    const SynthFile file(shape_of(GetParam().kind), GetParam().weights);
    Runner cpu = on_cpu(file, kAllLayers);
    Runner vulkan = on_vulkan(file, kAllLayers);
    base::Random random(83);
    std::vector<Token> tokens = random_tokens(random, 11);
    const std::vector<Token> prompt = random_tokens(random, 16);
    std::int32_t at = 0;
    for (int step = 0; step < 8; ++step) {
        std::vector<Piece> pieces = {piece_of(1, kAllLayers, at, tokens)};
        at += static_cast<std::int32_t>(tokens.size());
        if (step < 4)
            pieces.push_back(piece_of(2, kAllLayers, 4 * step,
                                      {prompt.begin() + std::ptrdiff_t{4} * step,
                                       prompt.begin() + std::ptrdiff_t{4} * (step + 1)}));
        const auto right = must_run(cpu, pieces);
        const auto got = must_run(vulkan, pieces);
        for (std::size_t i = 0; i < right.size(); ++i) expect_same(got[i], right[i], step);
        tokens = {right[0].token.token};
        if (step == 4) {
            ASSERT_TRUE(vulkan.shuffle_pages().ok());
        }
    }
}

// Dense layers and experts: which commands there are follows from no more of an architecture.
class VulkanModelRecordings : public VulkanModel {};
INSTANTIATE_TEST_SUITE_P(Cases, VulkanModelRecordings,
                         testing::ValuesIn(cases_named(kCases, {"qwen3moe", "gemma2"}, name_of)),
                         case_name);

// Positions, pages and chunks of positions change from step to step; the commands do so but rarely.
TEST_P(VulkanModelRecordings, MostDecodeStepsAreNotRecordedAgain) {
    if (kSanitized)
        GTEST_SKIP() << "no sanitizer sees the device, and vulkan_commands_test.cc records";
    const SynthFile file(shape_of(GetParam().kind), GetParam().weights);
    Runner cpu = on_cpu(file, kAllLayers);
    Runner vulkan = on_vulkan(file, kAllLayers);
    base::Random random(85);
    std::vector<std::vector<Token>> tokens;
    for (const std::size_t length : {110U, 40U, 7U})
        tokens.push_back(random_tokens(random, length));
    std::vector<std::int32_t> at(tokens.size());
    VulkanRecorded before;
    for (int step = 0; step <= 40; ++step) {
        std::vector<Piece> pieces;
        for (std::size_t i = 0; i < tokens.size(); ++i)
            pieces.push_back(piece_of(i + 1, kAllLayers, at[i], tokens[i]));
        const auto right = must_run(cpu, pieces);
        const auto got = must_run(vulkan, pieces);
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            expect_same(got[i], right[i], step);
            at[i] += static_cast<std::int32_t>(tokens[i].size());
            tokens[i] = {right[i].token.token};
        }
        if (step == 0) before = device_->recorded();
    }
    const VulkanRecorded after = device_->recorded();
    // A step has four batches or more, and in one of them are the layers.
    EXPECT_LE(after.recorded - before.recorded, 24);
    EXPECT_GE(after.used_again - before.used_again, 136);
    RecordProperty("recorded", std::to_string(after.recorded - before.recorded));
    RecordProperty("used_again", std::to_string(after.used_again - before.used_again));
}

constexpr Case kEncoderCases[] = {{kBert, TensorType::q8_0, ops::KvType::f16},
                                  {kNomicBert, TensorType::q4_0, ops::KvType::q8},
                                  {kJinaBert, TensorType::q8_0, ops::KvType::f16},
                                  {kJinaCode, TensorType::q8_0, ops::KvType::f32},
                                  {kJinaV3, TensorType::q8_0, ops::KvType::f16},
                                  {kModernBert, TensorType::q4_0, ops::KvType::f16},
                                  {kNomicBertMoe, TensorType::q8_0, ops::KvType::f16},
                                  {kGemmaEmbedding, TensorType::q8_0, ops::KvType::f16}};
class VulkanEncoder : public VulkanModel {};
INSTANTIATE_TEST_SUITE_P(Cases, VulkanEncoder, testing::ValuesIn(kEncoderCases), case_name);

TEST_P(VulkanEncoder, MakesTheStatesThatTheCpuMakes) {
    if (kSanitized) GTEST_SKIP() << "no sanitizer sees the device";
    const SynthFile file(shape_of(GetParam().kind), GetParam().weights);
    Runner cpu = on_cpu(file, kAllLayers);
    Runner vulkan = on_vulkan(file, kAllLayers);
    base::Random random(86);
    std::vector<Piece> pieces;
    for (const std::size_t length : {1U, 40U, 150U}) {
        pieces.push_back(piece_of(pieces.size(), kAllLayers, 0, random_tokens(random, length)));
        pieces.back().sample = false;
    }
    const auto right = must_run(cpu, pieces);
    const auto got = must_run(vulkan, pieces);
    for (std::size_t i = 0; i < right.size(); ++i)
        EXPECT_TRUE(same_bits(got[i].output, right[i].output)) << i;
}

// A pipeline of a CPU worker and a Vulkan one; then the first one's pages go to a Vulkan device,
// which goes on in its place.
TEST_P(VulkanModel, GoesOnWhereTheCpuWas) {
    const SynthFile file(shape_of(GetParam().kind), GetParam().weights);
    constexpr spec::LayerRange kFirst{0, 2};
    constexpr spec::LayerRange kLast{2, kLayers};
    Runner whole = on_cpu(file, kAllLayers);
    Runner first = on_cpu(file, kFirst);
    Runner other = on_vulkan(file, kFirst);
    Runner last = on_vulkan(file, kLast);
    ASSERT_EQ(first.backend().kv_format(), other.backend().kv_format());
    ASSERT_EQ(first.backend().kv_page_bytes(), other.backend().kv_page_bytes());
    base::Random random(84);
    std::vector<Token> tokens = random_tokens(random, 11);
    std::int32_t at = 0;
    Runner* stage = &first;
    for (int step = 0; step < 6; ++step) {
        const auto right = must_run(whole, {piece_of(1, kAllLayers, at, tokens)});
        const auto rows = must_run(*stage, {piece_of(1, kFirst, at, tokens)});
        const auto got = must_run(last, {piece_of(1, kLast, at, tokens, rows[0].output)});
        expect_same(got[0], right[0], step);
        at += static_cast<std::int32_t>(tokens.size());
        tokens = {right[0].token.token};
        if (step != 2) continue;
        other.take_pages(1, kFirst, first.pages(1, 0).size());
        for (std::int32_t layer = kFirst.begin; layer < kFirst.end; ++layer) {
            const std::vector<core::PageId>& pages = first.pages(1, layer);
            std::vector<std::byte> bytes(pages.size() *
                                         static_cast<std::size_t>(first.backend().kv_page_bytes()));
            ASSERT_TRUE(first.backend().read_pages(pages, bytes).ok());
            ASSERT_TRUE(other.backend().write_pages(other.pages(1, layer), bytes).ok());
        }
        stage = &other;
    }
}

TEST(VulkanModelAddresses, AreWithinTheDevicesMemory) {
    if (kSanitized) GTEST_SKIP() << "the layers watch the device, which no sanitizer sees";
    const auto vulkan = CheckedVulkan::open(true);
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device, or no layers";
    const SynthFile file(shape_of(kQwen3Moe), TensorType::q4_0);
    {
        auto backend = vulkan->open_backend(file.path(), kBlock);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        Runner device(std::move(*backend), kAllLayers, kBlock, 2);
        Runner cpu = make_runner(file, kAllLayers, test_options(kBlock, 2), 1);
        base::Random random(86);
        std::vector<Token> tokens = random_tokens(random, 13);
        std::int32_t at = 0;
        for (int step = 0; step < 3; ++step) {
            const std::vector<Piece> pieces = {piece_of(1, kAllLayers, at, tokens)};
            const auto right = must_run(cpu, pieces);
            const auto got = must_run(device, pieces);
            expect_same(got[0], right[0], step);
            at += static_cast<std::int32_t>(tokens.size());
            tokens = {right[0].token.token};
        }
    }
    EXPECT_EQ(vulkan->objections(), "");
}

}  // namespace
}  // namespace helix::engine::test::vulkan_model_test

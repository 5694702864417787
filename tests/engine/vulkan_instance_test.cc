// Which Vulkan devices there are, how one is named, and what they and their shaders have to be.

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "engine/backends.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_proof.h"
#include "engine/vulkan/vulkan_provider.h"
#include "shaders/helix_engine.h"
#include "vulkan_fixture.h"

namespace helix::engine::test::vulkan_instance_test {
namespace {

std::shared_ptr<const VulkanInstance> instance() {
    auto made = VulkanInstance::create();
    return made.ok() && !(*made)->devices().empty() ? *made : nullptr;
}

TEST(VulkanInstance, DevicesAreFoundByIndexAndByUuidAndNoSoftwareByDefault) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    for (const VulkanDeviceInfo& device : vulkan->devices()) {
        EXPECT_EQ(*vulkan->find(std::to_string(device.index)), &device);
        EXPECT_EQ(device.uuid.size(), 32U);
        EXPECT_TRUE(vulkan->find(device.uuid).ok());
        EXPECT_FALSE(device.name.empty());
        EXPECT_FALSE(device.driver.empty());
        EXPECT_GT(device.memory_bytes, 0);
    }
    const auto best = vulkan->find("");
    if (best.ok()) {
        EXPECT_FALSE((*best)->software);
    } else {
        EXPECT_EQ(best.error().message.substr(0, 71),
                  "no GPU has a Vulkan driver here; software devices must be named: 0 (" +
                      vulkan->devices()[0].name.substr(0, 3));
    }
}

TEST(VulkanInstance, ADeviceThatIsNotThereIsAnErrorThatNamesWhatIs) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const auto found = vulkan->find("99");
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, base::Errc::not_found);
    EXPECT_EQ(found.error().message.substr(0, 39),
              "no Vulkan device '99'; there are: 0 (" + vulkan->devices()[0].name.substr(0, 2));
    const auto provider = make_backend_provider("vulkan", {.devices = {"99"}});
    ASSERT_FALSE(provider.ok());
    EXPECT_EQ(provider.error().message, "--device: " + found.error().message);
}

TEST(VulkanInstance, TheProviderOffersLessThanTheDeviceHas) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const auto provider = make_backend_provider("vulkan", {.devices = {"0"}});
    ASSERT_TRUE(provider.ok()) << provider.error().message;
    const DeviceMemory memory = (*provider)->memory();
    EXPECT_EQ(memory.bound, "the device " + vulkan->devices()[0].name);
    EXPECT_GT(memory.offered_bytes, 0);
    EXPECT_LT(memory.offered_bytes, memory.free_bytes);
    EXPECT_LE(memory.free_bytes, vulkan->devices()[0].memory_bytes);
}

TEST(VulkanProvider, AModelLargerThanShadersTakeIsRefusedByNameAndLimit) {
    VulkanDeviceInfo info;
    info.index = 2;
    info.name = "Card";
    VulkanProvider provider(nullptr, {info});
    model::ModelConfig config;
    config.n_heads = 2;
    config.n_kv_heads = 2;
    config.head_dim = 1024;
    config.vocab = 1'048'560;
    EXPECT_TRUE(provider.check(config, 1).ok());
    config.vocab = 1'048'561;
    const base::Status rows = provider.check(config, 1);
    ASSERT_FALSE(rows.ok());
    EXPECT_EQ(rows.error().message,
              "the model has a matrix of 1048561 rows; vulkan:2 (Card) takes up to 1048560");
    config.head_dim = 1032;
    const base::Status heads = provider.check(config, 1);
    ASSERT_FALSE(heads.ok());
    EXPECT_EQ(heads.error().code, base::Errc::invalid);
    EXPECT_EQ(heads.error().message,
              "the model's heads have 1032 dimensions; vulkan:2 (Card) takes up to 1024");
}

TEST(VulkanContext, ADeviceWithoutWhatShadersNeedIsRefusedByName) {
    VulkanDeviceInfo info;
    info.index = 3;
    info.name = "Old";
    info.missing = {"shaderInt8", "scalarBlockLayout"};
    const auto made = VulkanContext::create(nullptr, info);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().message, "Vulkan device 3 (Old) has no shaderInt8, scalarBlockLayout");
}

TEST(VulkanContext, TheLayersHearOfMistakes) {
    int heard = 0;
    auto vulkan = VulkanInstance::create(
        {.validate = true, .on_message = [&](std::string_view) { ++heard; }});
    if (!vulkan.ok() || (*vulkan)->devices().empty()) GTEST_SKIP() << "no layers or no device";
    const auto context = VulkanContext::create(*vulkan, (*vulkan)->devices()[0]);
    ASSERT_TRUE(context.ok()) << context.error().message;
    EXPECT_TRUE((*context)->allocate(64, VulkanMemory::upload).ok());
    EXPECT_EQ(heard, 0);
    const auto block = (*context)->allocate(256, VulkanMemory::device);
    const auto commands = VulkanCommands::create(*context);
    ASSERT_TRUE(block.ok() && commands.ok());
    const VulkanSlice onto_itself{block->get(), 0, 64};
    VulkanCommands::Operator(**commands).copy(onto_itself, onto_itself);
    EXPECT_TRUE((*commands)->wait().ok());
    EXPECT_GT(heard, 0);
}

TEST(VulkanContext, MoreMemoryThanThereIsIsUnavailable) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const auto context = VulkanContext::create(vulkan, vulkan->devices()[0]);
    ASSERT_TRUE(context.ok());
    const auto block = (*context)->allocate(std::int64_t{1} << 50, VulkanMemory::device);
    ASSERT_FALSE(block.ok());
    EXPECT_EQ(block.error().code, base::Errc::unavailable);
}

TEST(VulkanProof, AnyDeviceProvesItsArithmeticAndWrongShadersAreFound) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    const auto context = VulkanContext::create(vulkan, vulkan->devices()[0]);
    ASSERT_TRUE(context.ok());
    const auto proof = prove(*context);
    ASSERT_TRUE(proof.ok()) << proof.error().message;
    EXPECT_EQ((*context)->exact_fma(), !proof->fused_fma);
    RecordProperty("fused_fma", proof->fused_fma ? "yes" : "no");
    RecordProperty("flushes_subnormals", proof->flushes_subnormals ? "yes" : "no");
    EXPECT_EQ((*context)->unpacks_halves(), proof->unpacks_halves);
    RecordProperty("unpacks_halves", proof->unpacks_halves ? "yes" : "no");
}

TEST(VulkanProof, AWrongIntegerDotProductIsNotUsed) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    VulkanDeviceInfo info = vulkan->devices()[0];
    if (!info.integer_dot) GTEST_SKIP() << "no integer dot product";
    const auto context = VulkanContext::create(vulkan, info);
    ASSERT_TRUE(context.ok());
    const auto right = prove(*context);
    ASSERT_TRUE(right.ok()) << right.error().message;
    EXPECT_EQ(right->integer_dot, FeatureProof::proven);
    EXPECT_TRUE((*context)->integer_dot());
    // As if the device had been off by one in the last case.
    std::vector<DotCase> dots = make_dot_cases();
    ++dots.back().right;
    const auto wrong = prove(*context, dots, make_matrix_cases());
    ASSERT_TRUE(wrong.ok()) << wrong.error().message;
    EXPECT_EQ(wrong->integer_dot, FeatureProof::wrong);
    EXPECT_FALSE((*context)->integer_dot());

    info.integer_dot = false;
    const auto without = VulkanContext::create(vulkan, info);
    ASSERT_TRUE(without.ok());
    const auto none = prove(*without);
    ASSERT_TRUE(none.ok()) << none.error().message;
    EXPECT_EQ(none->integer_dot, FeatureProof::none);
    EXPECT_FALSE((*without)->integer_dot());
}

TEST(VulkanProof, TheCasesOfTheIntegerDotProductAreTheSumsOfProductsOfBytes) {
    const std::vector<DotCase> dots = make_dot_cases();
    EXPECT_EQ(dots[0].sum, 0);
    EXPECT_EQ(dots[0].w[3], 0x80808080U);
    EXPECT_EQ(dots[0].x[3], 0x80808080U);
    EXPECT_EQ(dots[0].right, 16 * 128 * 128);
    EXPECT_EQ(dots[5].right, -16 * 128 * 127);
}

TEST(VulkanProof, WrongMatrixCoresAreNotUsed) {
    const auto vulkan = instance();
    if (vulkan == nullptr) GTEST_SKIP() << "no Vulkan device";
    VulkanDeviceInfo info = vulkan->devices()[0];
    if (!info.matrix_cores) GTEST_SKIP() << "no matrix cores";
    const auto context = VulkanContext::create(vulkan, info);
    ASSERT_TRUE(context.ok());
    const auto right = prove(*context);
    ASSERT_TRUE(right.ok()) << right.error().message;
    if (!right->fused_fma) GTEST_SKIP() << "matrix cores are used with a fused fma alone";
    EXPECT_EQ(right->matrix_cores, FeatureProof::proven);
    EXPECT_TRUE((*context)->matrix_cores());
    // As if the device had been off by a rounding in the last case.
    std::vector<MatrixCase> matrices = make_matrix_cases();
    float& last = matrices.back().right[15][15];
    last = std::nextafter(last, std::numeric_limits<float>::infinity());
    const auto wrong = prove(*context, make_dot_cases(), matrices);
    ASSERT_TRUE(wrong.ok()) << wrong.error().message;
    EXPECT_EQ(wrong->matrix_cores, FeatureProof::wrong);
    EXPECT_FALSE((*context)->matrix_cores());
    EXPECT_EQ(wrong->integer_dot, right->integer_dot);

    info.matrix_cores = false;
    const auto without = VulkanContext::create(vulkan, info);
    ASSERT_TRUE(without.ok());
    const auto none = prove(*without);
    ASSERT_TRUE(none.ok()) << none.error().message;
    EXPECT_EQ(none->matrix_cores, FeatureProof::none);
    EXPECT_FALSE((*without)->matrix_cores());
}

TEST(VulkanProof, TheCasesOfMatrixCoresAreTheSumsOfProductsOfBytesTimesScales) {
    const std::vector<MatrixCase> matrices = make_matrix_cases();
    ASSERT_FALSE(matrices.empty());
    const auto byte = [](std::uint32_t word, int i) {
        return static_cast<std::int32_t>(static_cast<std::int8_t>(word >> (8 * i) & 0xffU));
    };
    for (const MatrixCase& of : matrices) {
        for (std::size_t row = 0; row < 16; ++row) {
            for (std::size_t output = 0; output < 16; ++output) {
                std::int32_t sum = 0;
                for (std::size_t k = 0; k < 32; ++k) {
                    const int i = static_cast<int>(k % 4);
                    sum += byte(of.outputs[output][k / 4], i) * byte(of.rows[row][k / 4], i);
                }
                const float scale = of.output_scales[output] * of.row_scales[row];
                EXPECT_EQ(of.right[row][output], static_cast<float>(sum) * scale)
                    << "row " << row << ", output " << output;
            }
        }
    }
    // The first has the greatest sums and the least ones.
    const MatrixCase& first = matrices[0];
    EXPECT_EQ(first.outputs[0][7], 0x80808080U);
    EXPECT_EQ(first.rows[0][7], 0x80808080U);
    EXPECT_EQ(first.right[0][0], 32 * 128 * 128 * (first.output_scales[0] * first.row_scales[0]));
    EXPECT_EQ(first.right[0][1], -32 * 128 * 127 * (first.output_scales[1] * first.row_scales[0]));
}

// Results of sums and products that a compiler may contract are not decorated so (NoContraction).
std::set<std::uint32_t> loose_arithmetic(std::span<const std::uint32_t> code) {
    constexpr std::uint32_t kDecorate = 71;
    constexpr std::uint32_t kNoContraction = 42;
    const std::set<std::uint32_t> arithmetic{129, 131, 133, 136};  // OpFAdd, FSub, FMul, FDiv
    std::set<std::uint32_t> loose;
    std::set<std::uint32_t> precise;
    for (std::size_t at = 5; at < code.size(); at += code[at] >> 16) {
        const std::uint32_t opcode = code[at] & 0xffffU;
        if (opcode == kDecorate && code[at + 2] == kNoContraction) precise.insert(code[at + 1]);
        if (arithmetic.contains(opcode)) loose.insert(code[at + 2]);
    }
    for (const std::uint32_t id : precise) loose.erase(id);
    return loose;
}

TEST(VulkanShaders, NoneLetsACompilerContractOrReorderArithmetic) {
    EXPECT_FALSE(shaders::all().empty());
    for (const Shader* shader : shaders::all()) {
        EXPECT_EQ(loose_arithmetic(shader->fused).size(), 0U) << shader->name;
        EXPECT_EQ(loose_arithmetic(shader->exact).size(), 0U) << shader->name;
    }
}

}  // namespace
}  // namespace helix::engine::test::vulkan_instance_test

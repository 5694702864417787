// What shaders are told of floats: nothing of their code changes but what is inserted.

#include "engine/vulkan/float_controls.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "engine/vulkan/shader.h"

namespace helix::engine::test::float_controls_test {
namespace {

// As the specification of SPIR-V numbers them.
constexpr std::uint32_t kEntryPoint = 15;
constexpr std::uint32_t kExecutionMode = 16;
constexpr std::uint32_t kCapability = 17;
constexpr std::uint32_t kFlushCapability = 4465;
constexpr std::uint32_t kFlushMode = 4460;
constexpr std::uint32_t kKeepCapability = 4466;
constexpr std::uint32_t kKeepMode = 4461;
constexpr std::size_t kHeaderWords = 5;

using Words = std::vector<std::uint32_t>;

Words instruction(std::uint32_t opcode, const Words& operands) {
    Words made{static_cast<std::uint32_t>(operands.size() + 1) << 16 | opcode};
    made.insert(made.end(), operands.begin(), operands.end());
    return made;
}

// The header, then the instructions.
std::vector<Words> parts_of(std::span<const std::uint32_t> code) {
    std::vector<Words> parts{Words(code.begin(), code.begin() + kHeaderWords)};
    for (std::size_t at = kHeaderWords; at < code.size();) {
        const std::size_t words = code[at] >> 16;
        if (words == 0 || words > code.size() - at) {
            ADD_FAILURE() << "an instruction of " << words << " words at word " << at;
            break;
        }
        const auto rest = code.subspan(at, words);
        parts.emplace_back(rest.begin(), rest.end());
        at += words;
    }
    return parts;
}

bool is(const Words& part, std::uint32_t opcode) {
    return (part[0] & 0xffffU) == opcode;
}

// The code with what the controls insert, put together from the instructions of the code without.
std::vector<Words> parts_with(std::span<const Words> parts, const VulkanFloatControls& controls) {
    Words capabilities;
    Words modes;
    if (controls.flushes_subnormals) {
        capabilities.push_back(kFlushCapability);
        modes.push_back(kFlushMode);
    }
    if (controls.keeps_nan) {
        capabilities.push_back(kKeepCapability);
        modes.push_back(kKeepMode);
    }
    std::vector<Words> made{parts[0]};
    for (const std::uint32_t capability : capabilities)
        made.push_back(instruction(kCapability, {capability}));
    for (const Words& part : parts.subspan(1)) {
        made.push_back(part);
        if (!is(part, kEntryPoint)) continue;
        for (const std::uint32_t mode : modes)
            made.push_back(instruction(kExecutionMode, {part[2], mode, 32}));
    }
    return made;
}

// Of every shader, as compiled for devices whose fma rounds once and for others.
std::vector<std::span<const std::uint32_t>> all_codes() {
    std::vector<std::span<const std::uint32_t>> codes;
    for (const Shader* shader : shaders::all()) {
        codes.push_back(shader->fused);
        if (!shader->exact.empty()) codes.push_back(shader->exact);
    }
    return codes;
}

TEST(FloatControls, WithoutAnyTheCodeStaysAsItIs) {
    for (const auto code : all_codes())
        EXPECT_EQ(with_float_controls(code, {}), Words(code.begin(), code.end()));
}

TEST(FloatControls, InsertCapabilitiesAfterTheHeaderAndModesAfterTheEntryPointAndNothingElse) {
    ASSERT_FALSE(all_codes().empty());
    for (const auto code : all_codes()) {
        const std::vector<Words> parts = parts_of(code);
        for (const VulkanFloatControls controls :
             {VulkanFloatControls{true, false}, {false, true}, {true, true}}) {
            EXPECT_EQ(parts_of(with_float_controls(code, controls)), parts_with(parts, controls))
                << "flushes " << controls.flushes_subnormals << ", keeps " << controls.keeps_nan;
        }
    }
}

// On these three the places where something is inserted are right.
TEST(FloatControls, FindOneEntryPointAndNoControlsInCodeThatNeedsNoExtensionForThem) {
    constexpr std::uint32_t kVersion14 = 0x00010400;
    for (const auto code : all_codes()) {
        EXPECT_GE(code[1], kVersion14);
        int entry_points = 0;
        const std::vector<Words> parts = parts_of(code);
        for (const Words& part : std::span(parts).subspan(1)) {
            if (is(part, kEntryPoint)) ++entry_points;
            if (is(part, kCapability)) {
                EXPECT_NE(part[1], kFlushCapability);
                EXPECT_NE(part[1], kKeepCapability);
            }
        }
        EXPECT_EQ(entry_points, 1);
    }
}

}  // namespace
}  // namespace helix::engine::test::float_controls_test

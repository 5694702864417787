// How commands for a Vulkan device are recorded: what they read of the host stays for them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "checked_vulkan.h"
#include "engine/vulkan/vulkan_commands.h"
#include "engine/vulkan/vulkan_pool.h"
#include "shaders/helix_engine.h"

namespace helix::engine::test::vulkan_commands_test {
namespace {

using Words = std::vector<std::uint32_t>;

class VulkanCommandsTest : public testing::Test {
  protected:
    void SetUp() override {
        checked_ = CheckedVulkan::open();
        if (checked_ == nullptr) GTEST_SKIP() << "no Vulkan device";
        const auto& instance = checked_->instance();
        auto context = VulkanContext::create(instance, instance->devices()[0]);
        ASSERT_TRUE(context.ok()) << context.error().message;
        auto commands = VulkanCommands::create(*context);
        ASSERT_TRUE(commands.ok()) << commands.error().message;
        commands_ = std::move(*commands);
        pool_ = std::make_shared<VulkanPool>(*context, 0);
    }
    void TearDown() override {
        pool_ = nullptr;
        commands_ = nullptr;
        if (checked_ != nullptr) {
            EXPECT_EQ(checked_->objections(), "");
        }
    }

    VulkanMemoryPart take(std::size_t words) {
        auto part = pool_->take(static_cast<std::int64_t>(4 * words));
        CHECK(part.ok());
        return std::move(*part);
    }
    // Copies words from an address to memory, by a shader.
    static void copy_words(VulkanCommands::Operator& record, VkDeviceAddress from,
                           const VulkanSlice& to) {
        struct {
            VkDeviceAddress x, y, visit_row;
            std::uint32_t visits, width;
        } const push{from, to.address(), record.put(std::span<const std::uint32_t>(Words{0})), 1,
                     static_cast<std::uint32_t>(to.bytes / 4)};
        record.dispatch(shaders::gather_visits, push, {});
    }
    Words words_of(const VulkanSlice& slice) {
        Words words(static_cast<std::size_t>(slice.bytes / 4));
        const auto copied =
            commands_->download(slice, std::as_writable_bytes(std::span(words)).data());
        EXPECT_TRUE(copied.ok()) << copied.error().message;
        return words;
    }

    std::unique_ptr<CheckedVulkan> checked_;
    std::unique_ptr<VulkanCommands> commands_;
    std::shared_ptr<VulkanPool> pool_;
};

// More than a batch's staging memory.
constexpr std::size_t kMany = 1'400'000;

TEST_F(VulkanCommandsTest, WhatAnOperatorHasPutIsThereUntilItEndsHoweverMuchItPutsAfterIt) {
    const VulkanMemoryPart out = take(kMany);
    for (std::uint32_t round = 0; round < 2; ++round) {
        VulkanCommands::Operator record(*commands_);
        VkDeviceAddress first = 0;
        for (std::uint32_t n = 0; n < 4; ++n) {
            const Words words(kMany, 10 * round + n);
            const VkDeviceAddress at = record.put(std::span<const std::uint32_t>(words));
            if (n == 0) first = at;
        }
        copy_words(record, first, out.slice());
    }
    EXPECT_EQ(words_of(out.slice()), Words(kMany, 10));
}

TEST_F(VulkanCommandsTest, WhatAnOperatorHasPutIsThereAfterItHasUploadedMuch) {
    const VulkanMemoryPart out = take(1000);
    const VulkanMemoryPart uploaded = take(6 * kMany);
    Words many(6 * kMany);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::uint32_t>(i);
    {
        VulkanCommands::Operator record(*commands_);
        const VkDeviceAddress sevens = record.put(std::span<const std::uint32_t>(Words(1000, 7)));
        record.upload(std::as_bytes(std::span(many)), uploaded.slice());
        copy_words(record, sevens, out.slice());
    }
    EXPECT_EQ(words_of(out.slice()), Words(1000, 7));
    EXPECT_TRUE(words_of(uploaded.slice()) == many);
}

}  // namespace
}  // namespace helix::engine::test::vulkan_commands_test

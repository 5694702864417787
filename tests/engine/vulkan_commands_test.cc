// How commands for a Vulkan device are recorded: what they read of the host stays for them, and
// what is the same as before is not recorded again.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
    void SetUp() override { open(false); }
    void open(bool check_addresses) {
        checked_ = CheckedVulkan::open(check_addresses);
        if (checked_ == nullptr) GTEST_SKIP() << "no Vulkan device";
        use(checked_->instance());
    }
    void use(const std::shared_ptr<const VulkanInstance>& instance) {
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
            VkDeviceAddress x, y, weights, visit_of;
            std::uint32_t visits, width, n_used, weighted;
        } const push{from, to.address(),
                     0,    record.put(std::span<const std::uint32_t>(Words{0})),
                     1,    static_cast<std::uint32_t>(to.bytes / 4),
                     1,    0};
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
        record.upload(std::as_bytes(std::span(many)), uploaded.slice(), nullptr);
        copy_words(record, sevens, out.slice());
    }
    EXPECT_EQ(words_of(out.slice()), Words(1000, 7));
    EXPECT_TRUE(words_of(uploaded.slice()) == many);
}

TEST_F(VulkanCommandsTest, TheSameCommandsAreRecordedOnceWhateverIsPutForThem) {
    const VulkanMemoryPart out = take(1000);
    for (std::uint32_t round = 0; round < 5; ++round) {
        {
            // Of other sizes, too, up to the next power of two.
            VulkanCommands::Operator record(*commands_);
            record.put(std::span<const std::uint32_t>(Words(100 + round)));
            copy_words(record, record.put(std::span<const std::uint32_t>(Words(1000, round))),
                       out.slice());
        }
        EXPECT_EQ(words_of(out.slice()), Words(1000, round));
    }
    EXPECT_EQ(commands_->recorded().recorded, 1);
    EXPECT_EQ(commands_->recorded().used_again, 4);
    // One byte of what a shader is told makes another list.
    {
        VulkanCommands::Operator record(*commands_);
        record.put(std::span<const std::uint32_t>(Words(100)));
        copy_words(record, record.put(std::span<const std::uint32_t>(Words(1000, 9))),
                   out.slice().part(0, 4 * 999));
    }
    Words right(1000, 9);
    right.back() = 4;
    EXPECT_EQ(words_of(out.slice()), right);
    EXPECT_EQ(commands_->recorded().recorded, 2);
}

TEST_F(VulkanCommandsTest, ListsThatDoNotComeAgainAreForgotten) {
    const VulkanMemoryPart out = take(100);
    const auto run = [&](std::uint32_t words) {
        {
            VulkanCommands::Operator record(*commands_);
            copy_words(record, record.put(std::span<const std::uint32_t>(Words(100, words))),
                       out.slice().part(0, 4 * std::int64_t{words}));
        }
        EXPECT_EQ(words_of(out.slice())[words - 1], words);
    };
    for (std::uint32_t words = 1; words <= 40; ++words) run(words);
    EXPECT_EQ(commands_->recorded().recorded, 40);
    run(40);
    EXPECT_EQ(commands_->recorded().recorded, 40);
    EXPECT_EQ(commands_->recorded().used_again, 1);
    run(1);
    EXPECT_EQ(commands_->recorded().recorded, 41);
}

// Without the layers, which give no handle out again as drivers do.
TEST_F(VulkanCommandsTest, ABufferInThePlaceOfOneThatIsGoneIsAnotherOne) {
    const auto instance = VulkanInstance::create();
    ASSERT_TRUE(instance.ok()) << instance.error().message;
    pool_ = nullptr;
    use(*instance);
    const VulkanMemoryPart out = take(16);
    for (std::uint32_t round = 0; round < 3; ++round) {
        auto block = commands_->context().allocate(64, VulkanMemory::upload);
        ASSERT_TRUE(block.ok()) << block.error().message;
        std::fill_n((*block)->mapped, 64, static_cast<std::byte>(round));
        VulkanCommands::Operator(*commands_).copy({block->get(), 0, 64}, out.slice());
        EXPECT_EQ(words_of(out.slice()), Words(16, round * 0x01010101U));
    }
    EXPECT_EQ(commands_->recorded().recorded, 3);
}

class VulkanAddresses : public VulkanCommandsTest {
  protected:
    void SetUp() override { open(true); }
};

TEST_F(VulkanAddresses, ThatShadersReadPastABlockIsHeardOf) {
    const auto block = commands_->context().allocate(256, VulkanMemory::device);
    ASSERT_TRUE(block.ok()) << block.error().message;
    const VulkanMemoryPart out = take(64);
    {
        VulkanCommands::Operator record(*commands_);
        copy_words(record, (*block)->address, out.slice());
    }
    ASSERT_TRUE(commands_->wait().ok());
    EXPECT_EQ(checked_->objections(), "");
    {
        VulkanCommands::Operator record(*commands_);
        copy_words(record, (*block)->address + 4, out.slice());
    }
    ASSERT_TRUE(commands_->wait().ok());
    const std::string heard = checked_->take_objections();
    EXPECT_NE(heard.find("access out of bounds"), std::string::npos) << heard;
}

}  // namespace
}  // namespace helix::engine::test::vulkan_commands_test

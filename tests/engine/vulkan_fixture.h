#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
#include "checked_vulkan.h"
#include "engine/cpu/cpu_device.h"
#include "engine/proof/operator_values.h"
#include "engine/vulkan/vulkan_device.h"
#include "op_helpers.h"

namespace helix::engine::test {

// A Vulkan device of any kind beside the CPU's, with the validation layers where they are
// installed: what they object to fails the test. Skips where there is no device.
class VulkanTest : public testing::Test {
  protected:
    void SetUp() override {
        checked_ = CheckedVulkan::open();
        if (checked_ == nullptr) GTEST_SKIP() << "no Vulkan device";
        auto device = VulkanDevice::create(checked_->instance(), {.device = "0", .threads = 1});
        ASSERT_TRUE(device.ok()) << device.error().message;
        vulkan_ = std::move(*device);
        CpuDeviceOptions options;
        options.threads = 1;
        model::ModelConfig config;
        config.n_kv_heads = 1;
        auto cpu = CpuDevice::create(options, config);
        CHECK(cpu.ok());
        cpu_ = std::move(*cpu);
    }

    void TearDown() override {
        vulkan_ = nullptr;
        if (checked_ != nullptr) {
            EXPECT_EQ(checked_->objections(), "");
        }
    }

    static std::unique_ptr<Buffer> make(Device& device, std::span<const float> values) {
        auto buffer = device.make_buffer(std::ssize(values));
        CHECK(buffer.ok());
        CHECK(device.write(**buffer, 0, values).ok());
        return std::move(*buffer);
    }
    // Not-a-numbers: what an operator does not write shows.
    static std::unique_ptr<Buffer> poisoned(Device& device, std::int64_t floats) {
        return make(device, std::vector<float>(base::size_of(floats),
                                               std::numeric_limits<float>::quiet_NaN()));
    }
    static std::vector<float> values_of(Device& device, const Buffer& buffer) {
        const auto read = device.read(buffer, 0, buffer.size());
        EXPECT_TRUE(read.ok()) << read.error().message;
        return {read->begin(), read->end()};
    }

    std::unique_ptr<CheckedVulkan> checked_;
    std::unique_ptr<Device> vulkan_, cpu_;
};

// As bits; a NaN is as good as another, since devices choose its payload.
inline testing::AssertionResult same_floats(std::span<const float> got,
                                            std::span<const float> right) {
    const std::string difference = proof::first_difference(got, right);
    if (difference.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << difference;
}
inline testing::AssertionResult same_values(const proof::Values& got, const proof::Values& right) {
    if (!got.ok()) return testing::AssertionFailure() << got.error().message;
    if (!right.ok()) return testing::AssertionFailure() << right.error().message;
    return same_floats(*got, *right);
}

}  // namespace helix::engine::test

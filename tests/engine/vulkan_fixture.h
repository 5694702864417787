#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/index.h"
#include "base/random.h"
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
        auto instance = VulkanInstance::create({.validate = true, .on_message = [this](auto text) {
                                                    const std::lock_guard lock(mutex_);
                                                    objections_ += std::string(text) + "\n";
                                                }});
        if (!instance.ok() && instance.error().code == base::Errc::unavailable)
            instance = VulkanInstance::create();
        if (!instance.ok()) GTEST_SKIP() << instance.error().message;
        if ((*instance)->devices().empty()) GTEST_SKIP() << "no Vulkan device";
        instance_ = *instance;
        auto device = VulkanDevice::create(instance_, {.device = "0", .threads = 1});
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
        instance_ = nullptr;
        EXPECT_EQ(objections_, "");
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

    std::unique_ptr<Device> vulkan_, cpu_;

  private:
    std::shared_ptr<const VulkanInstance> instance_;
    std::mutex mutex_;
    std::string objections_;
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

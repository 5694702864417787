// How fast a device is: figures of tiny sizes, and that what is not computed is not a figure.

#include "engine/measure/device_speed.h"

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "engine/cpu/cpu_device.h"
#include "engine/measure/kernel_speed.h"
#include "wrapped_device.h"

namespace helix::engine::test::device_speed_test {
namespace {

std::unique_ptr<Device> open_cpu() {
    CpuDeviceOptions options;
    options.threads = 1;
    model::ModelConfig config;
    config.n_kv_heads = 1;
    auto cpu = CpuDevice::create(options, config);
    CHECK(cpu.ok());
    return std::move(*cpu);
}

// It is done at once, as long as nobody looks.
class Idle final : public WrappedDevice {
  public:
    using WrappedDevice::WrappedDevice;
    void matmul(const ops::Matmul& /*op*/) override {}
};

TEST(Timing, WarmsUpAndTakesTheMedianOfSeveralRuns) {
    using Clock = std::chrono::steady_clock;
    std::vector<std::int64_t> calls;
    std::vector<Clock::time_point> began;
    const auto timing = measure::time_calls(0.2, [&](std::int64_t n) -> base::Status {
        calls.push_back(n);
        began.push_back(Clock::now());
        return base::Ok{};
    });
    ASSERT_TRUE(timing.ok());
    ASSERT_GE(timing->runs, 3);
    ASSERT_GE(std::ssize(calls), timing->runs + 3);
    EXPECT_EQ(calls[0], 1);
    EXPECT_EQ(calls[1], 1);
    EXPECT_GT(calls[2], 1) << "a short call is made many times in a run";
    const Clock::time_point counted = began[calls.size() - static_cast<std::size_t>(timing->runs)];
    EXPECT_GE(counted - began[0], std::chrono::milliseconds(200)) << "a card has warmed up by then";
}

TEST(Timing, WithoutABudgetNothingWarmsUp) {
    int calls = 0;
    const auto timing = measure::time_calls(0, [&](std::int64_t) -> base::Status {
        ++calls;
        return base::Ok{};
    });
    ASSERT_TRUE(timing.ok());
    EXPECT_EQ(calls, timing->runs + 2);
}

TEST(Timing, WhatFailsIsTheError) {
    const auto timing =
        measure::time_calls(0.1, [](std::int64_t) { return base::Status(base::invalid("lost")); });
    ASSERT_FALSE(timing.ok());
    EXPECT_EQ(timing.error().message, "lost");
}

TEST(DeviceSpeed, EveryFigureIsMeasured) {
    const auto cpu = open_cpu();
    std::uint64_t done = 0;
    const auto speed = measure::measure_device(*cpu, measure::tiny_size(), 3,
                                               [&](std::uint64_t now) { done = now; });
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    for (const measure::Speed* one : {&speed->copy, &speed->upload, &speed->download,
                                      &speed->decode_q8_0, &speed->decode_q4_k, &speed->prefill}) {
        EXPECT_GT(one->per_s, 0);
        EXPECT_GE(one->timing.runs, 1);
    }
    EXPECT_EQ(speed->prefill_rows, 32);
    EXPECT_EQ(done, measure::kDeviceSpeeds);
}

TEST(DeviceSpeed, WhatIsNotComputedIsNoFigure) {
    Idle idle(open_cpu());
    const auto speed = measure::measure_device(idle, measure::tiny_size(), 3, {});
    ASSERT_FALSE(speed.ok());
    EXPECT_EQ(speed.error().message, "a product of 1 rows with 64 x 256 was not computed");
}

TEST(KernelSpeed, EveryFormatAndAttentionHaveTheirRows) {
    const auto cpu = open_cpu();
    measure::KernelRequest request;
    request.size = measure::tiny_size();
    request.size.each_s = 0.001;
    request.tiny = true;
    request.ceilings.copy.per_s = 1e9;
    request.ceilings.prefill.per_s = 1e9;
    request.budget_s = 60;
    const auto speeds = measure::measure_kernels(*cpu, request);
    ASSERT_TRUE(speeds.ok()) << speeds.error().message;
    EXPECT_TRUE(speeds->skipped.empty());
    std::set<std::string> kernels;
    for (const measure::KernelSpeed& one : speeds->measured) {
        kernels.insert(one.kernel);
        EXPECT_GT(one.share, 0) << one.kernel;
        const double right = one.share_of == std::string("copy") ? one.bytes_per_s : one.ops_per_s;
        EXPECT_DOUBLE_EQ(one.share, right / 1e9);
    }
    EXPECT_EQ(kernels.size(), 15U);  // 14 formats, and attention
}

TEST(KernelSpeed, WhatThereIsNoTimeForIsSaid) {
    const auto cpu = open_cpu();
    measure::KernelRequest request;
    request.size = measure::tiny_size();
    request.tiny = true;
    request.budget_s = 0;
    const auto speeds = measure::measure_kernels(*cpu, request);
    ASSERT_TRUE(speeds.ok());
    EXPECT_TRUE(speeds->measured.empty());
    EXPECT_EQ(speeds->skipped.size(), 16U);
    EXPECT_EQ(speeds->skipped.front(), "q8_0 tiny: no time left");
}

}  // namespace
}  // namespace helix::engine::test::device_speed_test

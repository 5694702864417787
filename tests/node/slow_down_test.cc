#include "node/slow_down.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace helix::node::slow_down_test {
namespace {

double ms_of(double took_ms, std::optional<double> computed_s, double speed) {
    return 1e3 * slowed_down(base::from_ms(took_ms), computed_s, speed).seconds();
}

TEST(SlowDown, ABatchTakesAsMuchLongerAsTheMachineIsSlower) {
    EXPECT_NEAR(ms_of(10, std::nullopt, 0.25), 40, 1e-3);
    EXPECT_NEAR(ms_of(10, 0.010, 0.25), 40, 1e-3);
    EXPECT_NEAR(ms_of(10, 0.010, 1), 10, 1e-3);
}

TEST(SlowDown, WhatOthersTookOfTheCoreIsNoWork) {
    EXPECT_NEAR(ms_of(18, 0.010, 0.25), 40, 1e-3);
    EXPECT_NEAR(ms_of(55, 0.010, 0.25), 55, 1e-3) << "it comes too late for that";
}

TEST(SlowDown, AThreadThatSleepsDoesNotCompute) {
    const double before_s = thread_cpu_s();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LT(thread_cpu_s() - before_s, 0.1);
    const double start_s = thread_cpu_s();
    while (thread_cpu_s() - start_s < 0.01) {
    }
    EXPECT_GE(thread_cpu_s() - before_s, 0.01);
}

}  // namespace
}  // namespace helix::node::slow_down_test

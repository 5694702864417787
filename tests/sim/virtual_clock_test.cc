#include "sim/cluster/virtual_clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace helix::sim::virtual_clock_test {
namespace {

base::TimePoint at_ns(std::int64_t ns) {
    return {ns};
}

TEST(VirtualClock, WhatIsToHappenAtOneTimeHappensInTheOrderOfItsAsking) {
    VirtualClock clock;
    std::vector<int> happened;
    clock.at(at_ns(20), [&] { happened.push_back(3); });
    clock.at(at_ns(10), [&] {
        happened.push_back(1);
        clock.at(at_ns(20), [&] { happened.push_back(4); });
        clock.at(clock.now(), [&] { happened.push_back(2); });
    });
    std::vector<std::int64_t> times;
    while (!clock.empty()) {
        const base::TimePoint next = clock.next();
        clock.run_next();
        EXPECT_EQ(clock.now(), next);
        times.push_back(next.ns);
    }
    EXPECT_EQ(happened, (std::vector<int>{1, 2, 3, 4}));
    EXPECT_EQ(times, (std::vector<std::int64_t>{10, 10, 20, 20}));
}

TEST(VirtualClock, WhatIsAskedForLateHappensInThePlaceThatWasKept) {
    VirtualClock clock;
    std::vector<int> happened;
    const std::uint64_t first = clock.keep_places(2);
    clock.at(at_ns(20), [&] { happened.push_back(3); });
    clock.at(at_ns(10), first, [&] {
        happened.push_back(1);
        clock.at(at_ns(20), first + 1, [&] { happened.push_back(2); });
    });
    while (!clock.empty()) clock.run_next();
    EXPECT_EQ(happened, (std::vector<int>{1, 2, 3}));
}

TEST(VirtualClock, TimePassesWhereNothingHappens) {
    VirtualClock clock;
    clock.pass_to(at_ns(1'000'000'000));
    std::int64_t when = 0;
    clock.after(0.5, [&] { when = clock.now().ns; });
    clock.run_next();
    EXPECT_EQ(when, 1'500'000'000);
    EXPECT_TRUE(clock.empty());
}

}  // namespace
}  // namespace helix::sim::virtual_clock_test

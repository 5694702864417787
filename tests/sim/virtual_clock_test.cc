#include "sim/cluster/virtual_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/random.h"

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

TEST(VirtualClock, ManyHappenInOrderWhateverIsAskedForBetween) {
    VirtualClock clock;
    base::Random random(5);
    std::vector<std::pair<std::int64_t, int>> happened;  // when, and as the how-manieth asked for
    int asked = 0;
    const std::function<void(int)> happen = [&](int self) {
        happened.emplace_back(clock.now().ns, self);
        for (int i = 0; i < 2 && asked < 3000; ++i) {
            const auto later = static_cast<std::int64_t>(random.below(asked % 3 == 0 ? 5 : 900));
            ++asked;
            clock.at(at_ns(clock.now().ns + later), [&happen, one = asked] { happen(one); });
        }
    };
    clock.at(at_ns(0), [&] { happen(0); });
    while (!clock.empty()) clock.run_next();
    EXPECT_EQ(happened.size(), 3001U);
    EXPECT_TRUE(std::is_sorted(happened.begin(), happened.end()));
    const auto same_time = [](const auto& a, const auto& b) { return a.first == b.first; };
    EXPECT_NE(std::adjacent_find(happened.begin(), happened.end(), same_time), happened.end());
}

TEST(VirtualClock, WhatComesIsPreparedStepByStepAndThenHappens) {
    struct Steps {
        VirtualClock clock;
        mutable std::vector<std::pair<std::uint32_t, int>> seen;
    } steps;
    constexpr int kEvents = 12;
    std::vector<int> before_it;  // steps of it that were seen when it happened
    for (std::uint32_t e = 0; e < kEvents; ++e) {
        const auto happen = [&steps, &before_it, e] {
            int expected = e < 4 ? 4 - static_cast<int>(e) : 0;
            int count = 0;
            for (const auto& [which, step] : steps.seen) {
                if (which != e) continue;
                EXPECT_EQ(step, expected++);
                ++count;
            }
            before_it.push_back(count);
        };
        steps.clock.at(at_ns(e), happen,
                       {[](const void* whom, std::uint32_t which, int step) {
                            static_cast<const Steps*>(whom)->seen.emplace_back(which, step);
                        },
                        &steps, e});
    }
    while (!steps.clock.empty()) steps.clock.run_next();
    EXPECT_EQ(before_it, (std::vector<int>{0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4}));
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

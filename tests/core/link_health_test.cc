// Which links between workers are down, by what the workers say.

#include "core/coordinator/link_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace helix::core::link_health_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr WorkerId kA{1};
constexpr WorkerId kB{2};
constexpr WorkerId kC{3};

TimePoint at(double seconds) {
    return {base::from_seconds(seconds).ns};
}

TEST(LinkHealth, ALinkIsDownWhileOneOfItsEndsSaysSo) {
    LinkHealth links;
    EXPECT_FALSE(links.any_down());
    const auto first = links.hear(at(0), kA, kB, true);
    EXPECT_TRUE(first.broke);
    EXPECT_TRUE(first.changed);
    EXPECT_TRUE(links.down(kA, kB));
    EXPECT_TRUE(links.down(kB, kA));
    EXPECT_FALSE(links.down(kA, kC));
    const auto other_end = links.hear(at(1), kB, kA, true);
    EXPECT_FALSE(other_end.broke);
    EXPECT_FALSE(other_end.changed);
    EXPECT_THAT(links.all_down(), ElementsAre(LinkHealth::Ends{kA, kB}));

    const auto one_is_back = links.hear(at(2), kA, kB, false);
    EXPECT_TRUE(one_is_back.broke);
    EXPECT_FALSE(one_is_back.changed);
    EXPECT_THAT(links.all_down(), ElementsAre(LinkHealth::Ends{kB, kA}));
    const auto both_are = links.hear(at(2), kB, kA, false);
    EXPECT_TRUE(both_are.changed);
    EXPECT_THAT(links.all_down(), IsEmpty());
}

TEST(LinkHealth, ABreakIsNewsAlsoWhenTheLinkIsBackAtOnce) {
    LinkHealth links;
    const auto heard = links.hear(at(0), kA, kB, false);
    EXPECT_TRUE(heard.broke);
    EXPECT_FALSE(heard.changed);
    EXPECT_FALSE(links.any_down());
    EXPECT_FALSE(links.take_settled(at(0.5), base::from_seconds(1)).has_value());
    const auto settled = links.take_settled(at(1), base::from_seconds(1));
    ASSERT_TRUE(settled.has_value());
    EXPECT_EQ(settled->at, at(0));
    EXPECT_FALSE(links.take_settled(at(9), base::from_seconds(1)).has_value());
}

TEST(LinkHealth, BreaksSettleOldestFirstAndEachLinkOnce) {
    LinkHealth links;
    links.hear(at(0), kA, kB, true);
    links.hear(at(0.1), kA, kC, true);
    links.hear(at(0.2), kB, kA, false);  // the same link, from its other end
    const Duration settle = base::from_seconds(1);
    EXPECT_EQ(links.take_settled(at(5), settle)->other, kB);
    EXPECT_EQ(links.take_settled(at(5), settle)->other, kC);
    EXPECT_FALSE(links.take_settled(at(5), settle).has_value());
}

TEST(LinkHealth, WhatNobodyRepeatsIsForgotten) {
    LinkHealth links;
    links.hear(at(0), kA, kB, true);
    links.hear(at(4), kB, kA, true);
    links.hear(at(0), kA, kC, true);
    EXPECT_FALSE(links.forget_next_old(at(5)).has_value());
    // The other end of A to B still complains, so only A to C is up again.
    EXPECT_EQ(links.forget_next_old(at(5.1)), (LinkHealth::Ends{kA, kC}));
    EXPECT_FALSE(links.forget_next_old(at(5.1)).has_value());
    EXPECT_TRUE(links.down(kA, kB));
    EXPECT_EQ(links.forget_next_old(at(9.1)), (LinkHealth::Ends{kB, kA}));
    EXPECT_FALSE(links.any_down());
}

TEST(LinkHealth, AWorkerThatIsNotHereIsForgotten) {
    LinkHealth links;
    links.hear(at(0), kA, kB, true);
    links.hear(at(0), kC, kA, true);
    links.hear(at(0), kB, kC, true);
    links.forget(kA);
    EXPECT_THAT(links.all_down(), ElementsAre(LinkHealth::Ends{kB, kC}));
}

// Compares with a table of who said what, and when.
TEST(LinkHealth, IsWhatATableOfComplaintsSays) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        base::Random random(seed);
        LinkHealth links;
        std::map<LinkHealth::Ends, double> said;
        const auto is_down = [&](WorkerId one, WorkerId other) {
            return said.contains({one, other}) || said.contains({other, one});
        };
        double now = 0;
        for (int i = 0; i < 300; ++i) {
            now += random.uniform();
            const WorkerId one{static_cast<std::uint32_t>(random.between(0, 3))};
            const WorkerId other{(one.value + static_cast<std::uint32_t>(random.between(1, 3))) %
                                 4};
            const bool before = is_down(one, other);
            if (random.chance(0.1)) {
                links.forget(one);
                std::erase_if(said, [&](const auto& entry) {
                    return entry.first.first == one || entry.first.second == one;
                });
            } else if (random.chance(0.2)) {
                std::set<LinkHealth::Ends> up;
                while (const auto ends = links.forget_next_old(at(now))) {
                    EXPECT_TRUE(up.insert(*ends).second);
                }
                std::set<LinkHealth::Ends> expected;
                for (auto it = said.begin(); it != said.end();) {
                    const auto ends = it->first;
                    it = at(now) - at(it->second) > base::from_seconds(5) ? said.erase(it)
                                                                          : std::next(it);
                    if (!is_down(ends.first, ends.second)) expected.insert(ends);
                }
                EXPECT_EQ(up, expected);
            } else {
                const bool down = random.chance(0.6);
                const auto heard = links.hear(at(now), one, other, down);
                if (down) said[{one, other}] = now;
                if (!down) said.erase({one, other});
                EXPECT_EQ(heard.changed, is_down(one, other) != before);
                EXPECT_EQ(heard.broke, !(down && before));
            }
            for (std::uint32_t a = 0; a < 4; ++a) {
                for (std::uint32_t b = 0; b < 4; ++b) {
                    ASSERT_EQ(links.down({a}, {b}), is_down({a}, {b}));
                }
            }
        }
    }
}

}  // namespace
}  // namespace helix::core::link_health_test

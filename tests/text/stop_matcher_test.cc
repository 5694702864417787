#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace helix::text::stop_matcher_test {
namespace {

struct Outcome {
    std::string text;
    std::optional<std::string> stop;
    bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopMatcher matcher(stops);
    Outcome outcome;
    for (const std::string& piece : pieces) outcome.text += matcher.feed(piece);
    outcome.text += matcher.flush();
    outcome.stop = matcher.matched();
    return outcome;
}

TEST(StopMatcher, AStopStringAcrossPiecesEndsTheTextBeforeIt) {
    StopMatcher matcher({"END"});
    EXPECT_EQ(matcher.feed("abcE"), "abc");
    EXPECT_EQ(matcher.feed("N"), "");
    EXPECT_EQ(matcher.feed("Dxyz"), "");
    EXPECT_EQ(matcher.matched(), "END");
    EXPECT_EQ(matcher.feed("more"), "");
    EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, WhatOnlyLookedLikeAStopIsShownLater) {
    StopMatcher matcher({"END"});
    EXPECT_EQ(matcher.feed("EN"), "");
    EXPECT_EQ(matcher.feed("E"), "EN");
    EXPECT_EQ(matcher.feed("x"), "Ex");
    EXPECT_EQ(matcher.feed("E"), "");
    EXPECT_EQ(matcher.flush(), "E");
    EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, TheFirstToBeCompleteWinsThenTheLongest) {
    EXPECT_EQ(run({"bcd", "c"}, {"abcd"}), (Outcome{"ab", "c"}));
    EXPECT_EQ(run({"c", "abc"}, {"abcd"}), (Outcome{"", "abc"}));
    EXPECT_EQ(run({"aab"}, {"aaab"}), (Outcome{"a", "aab"}));
}

TEST(StopMatcher, NoStopsLetEverythingThroughAtOnce) {
    StopMatcher matcher({"", ""});
    EXPECT_EQ(matcher.feed("abc"), "abc");
    EXPECT_FALSE(matcher.matched());
}

// Half a million beginnings of a stop string that never comes, token by token: every byte is looked
// at a few times, not once for each that is held back.
TEST(StopMatcher, AnEndlessBeginningOfAStopIsWatchedInLinearTime) {
    constexpr std::size_t kLength = 500'000;
    const auto stops = std::make_shared<const StopStrings>(
        std::vector<std::string>{std::string(kLength, 'a') + "b", std::string(1000, 'a') + "c"});
    StopMatcher matcher(stops);
    std::size_t shown = 0;
    for (std::size_t i = 0; i < 3 * kLength; i += 3) shown += matcher.feed("aaa").size();
    EXPECT_EQ(shown, 2 * kLength);  // all but what a stop may begin with
    shown += matcher.feed("d").size();
    EXPECT_EQ(shown, 3 * kLength + 1);
    for (std::size_t i = 0; i < kLength + 5; ++i) matcher.feed("a");
    matcher.feed("b");
    EXPECT_EQ(matcher.matched()->size(), kLength + 1);
}

TEST(StopMatcher, ManyTextsShareTheirStopStrings) {
    const auto stops = std::make_shared<const StopStrings>(std::vector<std::string>{"END", "NO"});
    StopMatcher one(stops);
    StopMatcher other(stops);
    EXPECT_EQ(one.feed("xE"), "x");
    EXPECT_EQ(other.feed("yN"), "y");
    EXPECT_EQ(one.feed("ND"), "");
    EXPECT_EQ(one.matched(), "END");
    EXPECT_EQ(other.feed("D"), "ND");
    EXPECT_FALSE(other.matched());
    EXPECT_EQ(stops.use_count(), 3);
}

// The definition itself, applied to the whole text: end by end, longest first.
Outcome slow(const std::vector<std::string>& stops, const std::string& text) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        for (std::size_t begin = 0; begin < end; ++begin) {
            for (const std::string& stop : stops) {
                if (text.substr(begin, end - begin) == stop) return {text.substr(0, begin), stop};
            }
        }
    }
    return {text, std::nullopt};
}

TEST(StopMatcher, TheCutOfTheTextNeverMatters) {
    const auto random_string = [](base::Random& random, std::uint64_t longest) {
        std::string out;
        for (std::uint64_t n = random.below(longest + 1); n > 0; --n) {
            out.push_back(static_cast<char>('a' + random.below(2)));
        }
        return out;
    };
    for (std::uint64_t seed = 0; seed < 20000; ++seed) {
        base::Random random(seed);
        std::vector<std::string> stops;
        for (std::uint64_t n = random.below(4); n > 0; --n)
            stops.push_back(random_string(random, 6));
        std::vector<std::string> pieces;
        std::string text;
        for (std::uint64_t n = random.below(10); n > 0; --n) {
            pieces.push_back(random_string(random, 4));
            text += pieces.back();
        }
        ASSERT_EQ(run(stops, pieces), slow(stops, text)) << "seed " << seed;
    }
}

}  // namespace
}  // namespace helix::text::stop_matcher_test

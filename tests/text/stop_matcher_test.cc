#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace helix::text {
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

// The definition, on the whole text: end by end, longest first.
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
}  // namespace helix::text

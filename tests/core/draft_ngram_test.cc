#include "core/coordinator/draft_ngram.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace helix::core::draft_ngram_test {
namespace {

std::vector<Token> draft(const std::vector<Token>& text, std::int32_t count,
                         std::int32_t shortest = 2, std::int32_t longest = 4) {
    NgramDrafter drafter(shortest, longest);
    drafter.append(text);
    return drafter.draft(count);
}

TEST(NgramDrafter, DraftsWhatFollowedTheSameTokensBefore) {
    EXPECT_EQ(draft({1, 2, 3, 4, 5, 9, 1, 2}, 3), (std::vector<Token>{3, 4, 5}));
    EXPECT_TRUE(draft({1, 2, 3, 4, 5, 9, 3, 2}, 3).empty()) << "this pair was not seen";
    EXPECT_TRUE(draft({1, 2, 3, 1, 2}, 0).empty());
    EXPECT_TRUE(draft({}, 3).empty());
    EXPECT_TRUE(draft({1}, 3).empty());
}

TEST(NgramDrafter, TheLongestEndDecidesAndOfItsPlacesTheLatest) {
    EXPECT_EQ(draft({7, 1, 2, 50, 8, 1, 2, 60, 7, 1, 2}, 1), (std::vector<Token>{50}));
    EXPECT_EQ(draft({7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2}, 1), (std::vector<Token>{60}));
}

TEST(NgramDrafter, ARepetitionGoesOnInTheDrafts) {
    EXPECT_EQ(draft({1, 2, 3, 1, 2, 3, 1, 2}, 7), (std::vector<Token>{3, 1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(draft({5, 5, 5}, 4), (std::vector<Token>{5, 5, 5, 5}));
}

std::vector<Token> by_search(const std::vector<Token>& text, std::int32_t count,
                             std::int32_t shortest, std::int32_t longest) {
    const auto size = static_cast<std::int32_t>(text.size());
    for (std::int32_t n = longest; n >= shortest; --n) {
        for (std::int32_t end = size - 1; end >= n; --end) {
            if (!std::equal(text.end() - n, text.end(), text.begin() + end - n)) continue;
            std::vector<Token> whole = text;
            for (std::int32_t i = 0; i < count; ++i) {
                whole.push_back(whole[static_cast<std::size_t>(end + i)]);
            }
            return {whole.begin() + size, whole.end()};
        }
    }
    return {};
}

TEST(NgramDrafter, FindsWhatSearchingTheWholeTextFinds) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        base::Random random(seed);
        const auto shortest = static_cast<std::int32_t>(1 + random.below(3));
        const auto longest = shortest + static_cast<std::int32_t>(random.below(4));
        const std::uint64_t words = 2 + random.below(6);
        NgramDrafter drafter(shortest, longest);
        std::vector<Token> text;
        while (text.size() < 300) {
            std::vector<Token> more(random.below(5));
            for (Token& token : more) token = static_cast<Token>(random.below(words));
            drafter.append(more);
            text.insert(text.end(), more.begin(), more.end());
            const auto count = static_cast<std::int32_t>(1 + random.below(6));
            ASSERT_EQ(drafter.draft(count), by_search(text, count, shortest, longest));
        }
    }
}

}  // namespace
}  // namespace helix::core::draft_ngram_test

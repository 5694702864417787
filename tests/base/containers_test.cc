#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "base/inline_vector.h"
#include "base/random.h"
#include "base/shared_value.h"

namespace helix::base::containers_test {
namespace {

using Numbers = InlineVector<std::int32_t, 2>;

TEST(InlineVector, HoldsWhatAVectorWouldInsideAndOnTheHeap) {
    Random random(1);
    Numbers numbers;
    std::vector<std::int32_t> expected;
    for (int step = 0; step < 5000; ++step) {
        const auto value = static_cast<std::int32_t>(random.below(1000));
        switch (random.below(5)) {
            case 0:
                numbers.push_back(value);
                expected.push_back(value);
                break;
            case 1: {
                const std::vector<std::int32_t> more(random.below(5), value);
                numbers.append(more.begin(), more.end());
                expected.insert(expected.end(), more.begin(), more.end());
                break;
            }
            case 2: {
                const std::size_t count = random.below(expected.size() + 1);
                numbers.erase_front(count);
                expected.erase(expected.begin(),
                               expected.begin() + static_cast<std::ptrdiff_t>(count));
                break;
            }
            case 3: {
                Numbers copy = numbers;
                numbers.clear();
                numbers = std::move(copy);
                break;
            }
            default: {
                const std::size_t count = random.below(4);
                numbers.assign(count, value);
                expected.assign(count, value);
            }
        }
        ASSERT_EQ(numbers, Numbers(expected)) << "step " << step;
        ASSERT_EQ(numbers.size(), expected.size());
    }
}

TEST(InlineVector, CopiesAreApartAndWhatWasMovedFromIsEmpty) {
    const Numbers four = {1, 2, 3, 4};
    Numbers copy = four;
    copy[0] = 9;
    EXPECT_EQ(four[0], 1);
    const Numbers taken = std::move(copy);
    EXPECT_EQ(taken, (Numbers{9, 2, 3, 4}));
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): that is what is promised
    EXPECT_FALSE(four == Numbers({1, 2, 3}));
}

TEST(SharedValue, ComparesAsTheValueDoes) {
    const SharedValue<int> none;
    const SharedValue<int> one = 1;
    const SharedValue<int> same = one;
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(&*same, &*one);
    EXPECT_EQ(one, SharedValue<int>(1));
    EXPECT_FALSE(one == SharedValue<int>(2));
    EXPECT_FALSE(one == none);
    EXPECT_EQ(none, SharedValue<int>());
}

TEST(IdMap, FindsWhatAMapWouldWhateverComesAndGoes) {
    Random random(2);
    IdMap<std::int32_t> ids;
    std::map<std::uint64_t, std::int32_t> expected;
    for (int step = 0; step < 50000; ++step) {
        // Few ids, so that they meet often; some near each other, some far apart.
        const std::uint64_t id = random.chance(0.5) ? random.below(64) : mix64(random.below(64));
        if (expected.erase(id) > 0) {
            ids.erase(id);
        } else {
            ids.insert(id, step);
            expected.emplace(id, step);
        }
        const std::uint64_t other = random.below(64);
        const std::int32_t* found = ids.find(other);
        const auto it = expected.find(other);
        ASSERT_EQ(found != nullptr, it != expected.end()) << "step " << step;
        if (found != nullptr) {
            ASSERT_EQ(*found, it->second);
        }
        ASSERT_EQ(ids.size(), expected.size());
    }
    for (const auto& [id, value] : expected) ASSERT_EQ(*ids.find(id), value);
}

}  // namespace
}  // namespace helix::base::containers_test

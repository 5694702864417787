#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"

namespace helix::base::base_test {
namespace {

Result<int> half(int x) {
    if (x % 2 != 0) return invalid("odd: " + std::to_string(x));
    return x / 2;
}

Result<int> quarter(int x) {
    TRY(const int h, half(x));
    return half(h);
}

TEST(Result, TryPassesTheErrorOn) {
    EXPECT_EQ(*quarter(8), 2);
    ASSERT_FALSE(quarter(6).ok());
    EXPECT_EQ(quarter(6).error().message, "odd: 3");
    EXPECT_EQ(quarter(6).error().code, Errc::invalid);
}

TEST(ResultDeathTest, ReadingTheValueOfAnErrorAborts) {
    Result<int> bad = invalid("no");
    EXPECT_DEATH(static_cast<void>(*bad), "CHECK failed");
}

TEST(Random, SameSeedSameNumbersAndBoundsHold) {
    Random a(7);
    Random b(7);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 10000; ++i) {
        const std::uint64_t x = a.below(10);
        EXPECT_EQ(x, b.below(10));
        ASSERT_LT(x, 10U);
        seen.insert(x);
    }
    EXPECT_EQ(seen.size(), 10U);
}

TEST(Random, UniformHasTheMeanOfAUniform) {
    Random r(3);
    double sum = 0;
    for (int i = 0; i < 100000; ++i) sum += r.uniform();
    EXPECT_NEAR(sum / 100000, 0.5, 0.005);
}

TEST(Hash, KnownValueAndSensitivity) {
    // XXH3-128 of the empty input, from the xxHash specification's test vectors.
    EXPECT_EQ(to_hex(hash128({})), "99aa06d3014798d86001c324468d497f");
    const std::byte one[] = {std::byte{1}};
    EXPECT_NE(hash128(one), hash128({}));
}

TEST(Log, LevelsParse) {
    LogLevel level = LogLevel::info;
    EXPECT_TRUE(parse_log_level("warn", level));
    EXPECT_EQ(level, LogLevel::warn);
    EXPECT_FALSE(parse_log_level("loud", level));
}

TEST(Time, ArithmeticIsExact) {
    EXPECT_EQ((TimePoint{5} + from_ms(1.5) - TimePoint{5}).ns, 1500000);
}

}  // namespace
}  // namespace helix::base::base_test

#include "spec/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace helix::spec::units_test {
namespace {

using testing::HasSubstr;

TEST(Units, ReadWhatPeopleWrite) {
    EXPECT_EQ(*parse_bytes("24 GB"), 24'000'000'000);
    EXPECT_EQ(*parse_bytes("24GB"), 24'000'000'000);
    EXPECT_EQ(*parse_bytes(" 1.5 GiB "), 1'610'612'736);
    EXPECT_EQ(*parse_bytes("0 B"), 0);
    EXPECT_EQ(*parse_bandwidth("10 Gbit/s"), 1.25e9);
    EXPECT_EQ(*parse_bandwidth("1Gbps"), 1.25e8);
    EXPECT_EQ(*parse_bandwidth("100 MB/s"), 1e8);
    EXPECT_EQ(*parse_duration("50 ms"), 0.05);
    EXPECT_EQ(*parse_duration("200us"), 0.0002);
    EXPECT_EQ(*parse_duration("2 min"), 120);
}

TEST(Units, RefuseWhatIsNoQuantityAndSayWhatWasExpected) {
    const struct {
        const char* text;
        const char* reason;
    } bad[] = {{"24", "no unit"},         {"GB", "no number"},         {"", "no number"},
               {"-1 GB", "negative"},     {"24 gigs", "unknown unit"}, {"nan GB", "finite"},
               {"1e400 GB", "no number"}, {"10 Gbit", "unknown unit"}};
    for (const auto& [text, reason] : bad) {
        const auto result = parse_bytes(text);
        ASSERT_FALSE(result.ok()) << text;
        EXPECT_THAT(result.error().message, HasSubstr(reason)) << text;
        EXPECT_THAT(result.error().message, HasSubstr("24 GB"));
    }
    EXPECT_FALSE(parse_bytes("99999999999 GB").ok());
    EXPECT_FALSE(parse_bandwidth("10 ms").ok());
    EXPECT_FALSE(parse_duration("10 GB").ok());
}

TEST(Units, FormatForPeople) {
    EXPECT_EQ(format_bytes(24'000'000'000), "24 GB");
    EXPECT_EQ(format_bytes(1'530'000'000), "1.53 GB");
    EXPECT_EQ(format_bytes(1'234'567'890), "1.23 GB");
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(999), "999 B");
    EXPECT_EQ(format_bandwidth(1.25e9), "10 Gbit/s");
    EXPECT_EQ(format_duration(0.05), "50 ms");
}

TEST(Units, ExactFormatReadsBackExactly) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        base::Random random(seed);
        const double value = std::pow(10.0, 20 * random.uniform() - 8);
        ASSERT_EQ(*parse_bandwidth(format_bandwidth(value, true)), value) << "seed " << seed;
        ASSERT_EQ(*parse_duration(format_duration(value / 1e6, true)), value / 1e6)
            << "seed " << seed;
        const auto bytes =
            static_cast<std::int64_t>(random.below(std::uint64_t{1} << random.between(1, 52)));
        ASSERT_EQ(*parse_bytes(format_bytes(bytes, true)), bytes) << "seed " << seed;
    }
    EXPECT_EQ(*parse_bandwidth(format_bandwidth(0, true)), 0);
}

}  // namespace
}  // namespace helix::spec::units_test

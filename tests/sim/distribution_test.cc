#include "sim/report/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace helix::sim::distribution_test {
namespace {

TEST(Distribution, WithoutSamplesIsZero) {
    const Distribution none;
    EXPECT_EQ(none.count(), 0U);
    EXPECT_EQ(none.mean(), 0);
    EXPECT_EQ(none.quantile(0.5), 0);
}

TEST(Distribution, IsExactUpToItsLimit) {
    Distribution d(100);
    for (int i = 100; i >= 1; --i) d.add(i * 0.25);
    EXPECT_TRUE(d.exact());
    EXPECT_DOUBLE_EQ(d.mean(), 0.25 * 50.5);
    EXPECT_EQ(d.least(), 0.25);
    EXPECT_EQ(d.greatest(), 25);
    constexpr std::array<double, 4> kShares = {0, 0.5, 0.99, 1};
    EXPECT_EQ(d.quantiles(kShares), (std::vector<double>{0.25, 12.75, 25, 25}));
}

TEST(Distribution, BeyondItsLimitKeepsTheStatedError) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
        base::Random random(seed);
        Distribution d(1000);
        std::vector<double> all;
        for (int i = 0; i < 50000; ++i) {
            all.push_back(std::exp(12 * random.uniform() - 8));
            d.add(all.back());
        }
        EXPECT_FALSE(d.exact());
        std::sort(all.begin(), all.end());
        for (int k = 0; k <= 100; ++k) {
            const double share = k / 100.0;
            const auto rank = std::min<std::size_t>(
                all.size() - 1, static_cast<std::size_t>(static_cast<double>(all.size()) * share));
            EXPECT_NEAR(d.quantile(share) / all[rank], 1, Distribution::kRelativeError)
                << "seed " << seed << " share " << share;
        }
        EXPECT_EQ(d.least(), all.front());
        EXPECT_EQ(d.greatest(), all.back());
    }
}

TEST(Distribution, TakesZeroAndHugeValues) {
    Distribution d(1);
    for (const double s : {0.0, 0.0, 1e-15, 5.0, 1e300}) d.add(s);
    EXPECT_EQ(d.quantile(0), 0);
    EXPECT_EQ(d.quantile(1), 1e300);
    EXPECT_NEAR(d.quantile(0.6), 5, 5 * Distribution::kRelativeError);
}

}  // namespace
}  // namespace helix::sim::distribution_test

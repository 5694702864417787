#include "cli/balance_option.h"

#include <gtest/gtest.h>

namespace helix::cli::balance_option_test {
namespace {

TEST(BalanceOption, IsOursUnlessTheBaselineIsNamed) {
    EXPECT_FALSE(moves_as_llumnix("helix", false).value());
    EXPECT_FALSE(moves_as_llumnix("helix", true).value());
    EXPECT_TRUE(moves_as_llumnix("llumnix", false).value());
}

TEST(BalanceOption, RefusesOtherWordsAndABaselineThatIsTurnedOff) {
    const auto other = moves_as_llumnix("Llumnix", false);
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.error().message, "--balance: 'Llumnix' is none of helix, llumnix");
    const auto off = moves_as_llumnix("llumnix", true);
    ASSERT_FALSE(off.ok());
    EXPECT_EQ(off.error().message, "--balance llumnix: --no-balance turns it off");
}

}  // namespace
}  // namespace helix::cli::balance_option_test

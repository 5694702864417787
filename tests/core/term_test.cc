// Whoever follows coordinators is led by one at a time, the latest.

#include "core/protocol/term.h"

#include <gtest/gtest.h>

namespace helix::core::term_test {
namespace {

TEST(FollowedTerm, WhoHasJoinedNobodyJoinsAny) {
    const FollowedTerm term;
    EXPECT_TRUE(term.may_join(1));
    EXPECT_TRUE(term.is_next(1));
    EXPECT_FALSE(term.hears(1));
}

TEST(FollowedTerm, WhoHasJoinedALaterOneJoinsAndHearsNoEarlierOne) {
    FollowedTerm term;
    term.join(3);
    term.join(7);
    EXPECT_FALSE(term.may_join(3));
    EXPECT_FALSE(term.hears(3));
    EXPECT_TRUE(term.hears(7));
    EXPECT_EQ(term.highest(), 7U);
}

TEST(FollowedTerm, TheSameCoordinatorMayBeJoinedAgainAndIsNotTheNextOne) {
    const FollowedTerm term(7);
    EXPECT_TRUE(term.may_join(7));
    EXPECT_FALSE(term.is_next(7));
    EXPECT_TRUE(term.is_next(8));
}

TEST(FollowedTerm, ALaterOneIsNotHeardBeforeItIsJoined) {
    const FollowedTerm term(7);
    EXPECT_FALSE(term.hears(8));
}

TEST(FollowedTerm, WhoForgetsJoinsAny) {
    FollowedTerm term(7);
    term.forget();
    EXPECT_TRUE(term.may_join(1));
}

TEST(Term, ACoordinatorIsReplacedByAHigherTermAlone) {
    EXPECT_TRUE(is_replaced(7, 8));
    EXPECT_FALSE(is_replaced(7, 7));
    EXPECT_FALSE(is_replaced(7, 3));
    EXPECT_FALSE(is_replaced(7, 0));
}

}  // namespace
}  // namespace helix::core::term_test

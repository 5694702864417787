#include "plan/losses/takeover_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace helix::plan::takeover_bound_test {
namespace {

using ::testing::HasSubstr;

TEST(TakeoverBound, OfOneThatIsStartedAgainDetectionAndRestartRunSideBySide) {
    TakeoverRule rule;
    rule.detection_s = 2;
    rule.restart_s = 1;
    rule.start_s = 0.25;
    rule.pause_s = 0.5;
    rule.settle_s = 0.125;
    EXPECT_DOUBLE_EQ(takeover_bound_s(rule), 2 + 0.25 + 0.5 + 0.125);
    rule.restart_s = 10;
    EXPECT_DOUBLE_EQ(takeover_bound_s(rule), 10 + 0.25 + 0.5 + 0.125);
    EXPECT_THAT(describe_takeover(rule), HasSubstr("stands still for at most 10.9 s"));
    EXPECT_THAT(describe_takeover(rule), HasSubstr("its service starts it again within 10 s"));
}

TEST(TakeoverBound, WithALeaderTheLeaseHasToRunOutAndTwoAddressesAreTried) {
    TakeoverRule rule;
    rule.detection_s = 2;
    rule.lease_s = 3;
    rule.lease_grain_s = 1;
    rule.start_s = 0.5;
    rule.addresses = 2;
    rule.look_s = 2;
    rule.pause_s = 0.5;
    rule.settle_s = 0.25;
    EXPECT_DOUBLE_EQ(search_s(rule), 2 + 2 * 0.5);
    EXPECT_DOUBLE_EQ(takeover_bound_s(rule), 4 + 0.5 + 3 + 0.25);
    rule.detection_s = 6;
    EXPECT_DOUBLE_EQ(takeover_bound_s(rule), 6 + 0.5 + 3 + 0.25);
    EXPECT_THAT(describe_takeover(rule), HasSubstr("another leads after its lease of 3 s"));
}

}  // namespace
}  // namespace helix::plan::takeover_bound_test

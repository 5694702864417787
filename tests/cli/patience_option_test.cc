#include "cli/patience_option.h"

#include <gtest/gtest.h>

#include <limits>

namespace helix::cli::patience_option_test {
namespace {

TEST(PatienceOption, HeartbeatsFollowWhatWasAskedFor) {
    net::TransportOptions usual;
    ASSERT_TRUE(fill_lost_after(2, usual).ok());
    EXPECT_EQ(usual.heartbeat_timeout_ms, net::TransportOptions().heartbeat_timeout_ms);
    EXPECT_EQ(usual.heartbeat_interval_ms, net::TransportOptions().heartbeat_interval_ms);
    net::TransportOptions quick;
    ASSERT_TRUE(fill_lost_after(0.4, quick).ok());
    EXPECT_EQ(quick.heartbeat_timeout_ms, 400);
    EXPECT_EQ(quick.heartbeat_interval_ms, 100);
    net::TransportOptions slow;
    ASSERT_TRUE(fill_lost_after(30, slow).ok());
    EXPECT_EQ(slow.heartbeat_timeout_ms, 30'000);
    EXPECT_EQ(slow.heartbeat_interval_ms, 500);
}

TEST(PatienceOption, SaysWhatIsWrong) {
    for (const double seconds : {0.0, -1.0, 0.1, 601.0, std::numeric_limits<double>::quiet_NaN()}) {
        net::TransportOptions transport;
        const auto wrong = fill_lost_after(seconds, transport);
        ASSERT_FALSE(wrong.ok()) << seconds;
        EXPECT_EQ(wrong.error().message, "--lost-after: expected 0.2 to 600 seconds");
    }
    EXPECT_EQ(parse_wait("--worker-wait", 1.5).value(), base::from_seconds(1.5));
    EXPECT_EQ(parse_wait("--worker-wait", -1).error().message,
              "--worker-wait: expected 0 to 3600 seconds");
}

}  // namespace
}  // namespace helix::cli::patience_option_test
